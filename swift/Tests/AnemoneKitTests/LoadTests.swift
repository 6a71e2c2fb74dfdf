import CoreML
import XCTest

@testable import AnemoneKit

/// Opening, compiling, loading, and what is refused.
final class LoadTests: KitTestCase {
  private final class Seen: @unchecked Sendable {
    private let lock = NSLock()
    private var all: [LoadProgress] = []
    func add(_ progress: LoadProgress) { lock.withLock { all.append(progress) } }
    var list: [LoadProgress] { lock.withLock { all } }
  }

  func testLoadingTellsItsStepsAndCompilesOnce() async throws {
    let bundle = try Case.named("tiers").bundle
    let options = LoadOptions(cacheFolder: folder.appendingPathComponent("cache"))
    let seen = Seen()
    let model = try await AnemoneModel.load(contentsOf: bundle, options: options) { seen.add($0) }
    XCTAssertEqual(StandIn.shared.now.compiled, 2)
    XCTAssertEqual(seen.list.prefix(2).map(\.phase), [.compiling, .compiling])
    XCTAssertEqual(seen.list.map(\.step), Array(0..<seen.list.count))
    XCTAssertEqual(Set(seen.list.map(\.steps)), [seen.list.count])
    // Of the layers those of the first tier, and the heads.
    XCTAssertEqual(seen.list.dropFirst(2).map(\.function), ["c16_t1", "c16_t4", "t1", "t4"])

    let warm = Seen()
    try await model.prewarm { warm.add($0) }
    XCTAssertEqual(Set(StandIn.shared.now.loaded).count, 8)
    XCTAssertEqual(warm.list.filter { $0.phase == .warmingUp }.count, 8)
    XCTAssertEqual(StandIn.shared.now.predictions, 16)
    // The warm-up leaves nothing behind.
    let right = try Case.named("tiers").expected().ids
    let made = try await ids(
      model.makeSession().generate(tokens: try Case.named("tiers").prompt(), options: self.options(right.count)))
    XCTAssertEqual(made, right)

    let again = Seen()
    _ = try await AnemoneModel.load(contentsOf: bundle, options: options) { again.add($0) }
    XCTAssertEqual(StandIn.shared.now.compiled, 2)
    XCTAssertEqual(again.list.count, 4)
  }

  func testLoadingCanBeCancelled() async throws {
    let bundle = try Case.named("tiers").bundle
    let options = LoadOptions(cacheFolder: folder.appendingPathComponent("cache"))
    let task = Task {
      try await AnemoneModel.load(contentsOf: bundle, options: options) { _ in
        withUnsafeCurrentTask { $0?.cancel() }
      }
    }
    do {
      _ = try await task.value
      XCTFail("nothing was thrown")
    } catch {
      XCTAssertTrue(error is CancellationError)
    }
    XCTAssertEqual(StandIn.shared.now.compiled, 1)
  }

  func testAPackageThatTheAppCompiledIsTaken() async throws {
    let bundle = try changed("state") { _ in }
    for name in ["layers_00", "head_00"] {
      let made = try await MLModel.compileModel(at: bundle.appendingPathComponent(name + ".mlpackage"))
      try FileManager.default.moveItem(at: made, to: bundle.appendingPathComponent(name + ".mlmodelc"))
    }
    StandIn.shared.reset()
    let cache = folder.appendingPathComponent("cache")
    let model = try await AnemoneModel.load(contentsOf: bundle, options: LoadOptions(cacheFolder: cache))
    XCTAssertEqual(StandIn.shared.now.compiled, 0)
    XCTAssertFalse(FileManager.default.fileExists(atPath: cache.path))
    let text = try await model.makeSession().generate(Case.text, options: options(5)).text()
    XCTAssertFalse(text.isEmpty)
  }

  func testWhatCoreMLSaysIsKept() async throws {
    let bundle = try Case.named("state").bundle
    let options = LoadOptions(cacheFolder: folder.appendingPathComponent("cache"))
    StandIn.shared.change { $0.failsToCompile = true }
    await assertThrows(
      "Core ML cannot compile layers_00.mlpackage: Failed to build the model.: error code: -14"
    ) { _ = try await AnemoneModel.load(contentsOf: bundle, options: options) }
    StandIn.shared.change { ($0.failsToCompile, $0.failsToLoad) = (false, true) }
    await assertThrows("Core ML cannot load layers_00.mlpackage, function 'main': Unable to load model.: error") {
      _ = try await AnemoneModel.load(contentsOf: bundle, options: options)
    }
    StandIn.shared.reset()
    let file = folder.appendingPathComponent("file")
    try Data().write(to: file)
    await assertThrows("cannot be kept in \(file.path)") {
      _ = try await AnemoneModel.load(contentsOf: bundle, options: LoadOptions(cacheFolder: file))
    }
  }

  func testBundlesThatCannotRunAreRefusedByName() async throws {
    await assertThrows("has no bundle.json") { _ = try await load(folder) }
    let other = try changed("state") { $0["version"] = 1 }
    await assertThrows("has the version 1, and 2 is needed") { _ = try await load(other) }
    let encoder = try changed("state") { $0["kind"] = "embed" }
    await assertThrows("of the kind 'embed'") { _ = try await load(encoder) }
    let foreign = try changed("state") { $0["format"] = "else" }
    await assertThrows("is not what `anemone convert` writes") { _ = try await load(foreign) }
    let routed = try changedStage { $0["kind"] = "route" }
    await assertThrows("a stage of the kind 'route'") { _ = try await load(routed) }
    let role = try changedInput { $0["role"] = "weather" }
    await assertThrows("the role 'weather', which this version does not know") { _ = try await load(role) }
    let name = try changedInput { $0["name"] = "nowhere" }
    await assertThrows("has no input 'nowhere', which bundle.json names") { _ = try await load(name) }
    let mask = try changed("state") { $0["masks"] = [[String: Any]]() }
    await assertThrows("names no entry of the masks") { _ = try await load(mask) }
    let short = try changed("state") { $0.removeValue(forKey: "embedding") }
    await assertThrows("bundle.json cannot be read") { _ = try await load(short) }
  }

  func testExpertsThatTheHostChoosesAreRefusedByName() async throws {
    let root = try XCTUnwrap(Case.root)
    let names = try FileManager.default.contentsOfDirectory(atPath: root.path).filter { $0.hasSuffix(".host") }
    if names.isEmpty { throw XCTSkip("no model with experts is in the test data") }
    for name in names {
      await assertThrows("convert with --experts all") {
        _ = try await load(root.appendingPathComponent(name).appendingPathComponent("bundle"))
      }
    }
  }

  func testADownloadThatWasCutShortIsNamed() async throws {
    let cut = try changed("state") { _ in }
    let table = cut.appendingPathComponent("embedding.bin")
    let bytes = try Data(contentsOf: table)
    try bytes.prefix(1000).write(to: table)
    await assertThrows("the file 'embedding.bin' has 1000 bytes, and \(bytes.count)") { _ = try await load(cut) }
    try FileManager.default.removeItem(at: table)
    await assertThrows("the file 'embedding.bin' of the bundle is missing") { _ = try await load(cut) }
  }

  func testOfSeveralVariantsTheFirstIsTaken() async throws {
    // Every function once more, for another way that the first one must not see.
    let bundle = try changed("functions") { json in
      json["variants"] = [["name": "first"], ["name": "second"]]
      var stages = json["stages"] as! [[String: Any]]
      var functions = stages[0]["functions"] as! [[String: Any]]
      for i in functions.indices { functions[i]["variants"] = ["first"] }
      var stranger = functions[0]
      (stranger["name"], stranger["variants"]) = ("stranger", ["second"])
      functions.insert(stranger, at: 0)
      stages[0]["functions"] = functions
      json["stages"] = stages
    }
    let right = try Case.named("functions").expected().ids
    let made = try await ids(
      load(bundle).makeSession().generate(
        tokens: try Case.named("functions").prompt(), options: options(right.count)))
    XCTAssertEqual(made, right)
  }

  private func changedStage(_ change: (inout [String: Any]) -> Void) throws -> URL {
    try changed("state") { json in
      var stages = json["stages"] as! [[String: Any]]
      change(&stages[0])
      json["stages"] = stages
    }
  }

  private func changedInput(_ change: (inout [String: Any]) -> Void) throws -> URL {
    try changedStage { stage in
      var functions = stage["functions"] as! [[String: Any]]
      var inputs = functions[0]["inputs"] as! [[String: Any]]
      change(&inputs[0])
      functions[0]["inputs"] = inputs
      stage["functions"] = functions
    }
  }
}
