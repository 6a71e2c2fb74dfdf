import CoreML
import Foundation
import XCTest

@testable import AnemoneKit

/// A bundle and what the command `anemone run` makes of it; tests/swift/make_cases.sh writes them.
struct Case {
  struct Expected: Decodable { let text: String; let ids: [Int32]; let stopped: String }

  let name: String
  let folder: URL
  var bundle: URL { folder.appendingPathComponent("bundle") }

  static let root = ProcessInfo.processInfo.environment["ANEMONE_KIT_CASES"].map { URL(fileURLWithPath: $0) }

  /// All of them; skips the test where there are none.
  static func all() throws -> [Case] {
    guard let root else { throw XCTSkip("ANEMONE_KIT_CASES is not set: run tests/swift/run.sh") }
    let names = try FileManager.default.contentsOfDirectory(atPath: root.path).sorted()
    return names.map { Case(name: $0, folder: root.appendingPathComponent($0)) }
      .filter { FileManager.default.fileExists(atPath: $0.folder.appendingPathComponent("expected.json").path) }
  }

  static func named(_ name: String) throws -> Case {
    let found = try all().first { $0.name == name }
    return try XCTUnwrap(found, "there is no case '\(name)'")
  }

  func expected(_ file: String = "expected.json") throws -> Expected {
    try JSONDecoder().decode(Expected.self, from: Data(contentsOf: folder.appendingPathComponent(file)))
  }
  func prompt() throws -> [Int32] {
    struct Ids: Decodable { let ids: [Int32] }
    return try JSONDecoder().decode(Ids.self, from: Data(contentsOf: folder.appendingPathComponent("prompt.json"))).ids
  }
  static let text = "In winter the lighthouse keeper and his old dog"
}

/// A folder of its own for each test, and a Core ML without faults.
class KitTestCase: XCTestCase {
  var folder = URL(fileURLWithPath: "/")

  override func setUpWithError() throws {
    StandIn.shared.reset()
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("kit-" + UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }
  override func tearDownWithError() throws {
    XCTAssertEqual(StandIn.shared.now.overlaps, 0, "two predictions on one state")
    try FileManager.default.removeItem(at: folder)
  }

  /// Packages that one test compiled serve the others.
  static let cache = FileManager.default.temporaryDirectory.appendingPathComponent("kit-cache-" + UUID().uuidString)

  func load(_ bundle: URL) async throws -> AnemoneModel {
    try await AnemoneModel.load(contentsOf: bundle, options: LoadOptions(cacheFolder: Self.cache))
  }
  func load(_ name: String) async throws -> AnemoneModel { try await load(Case.named(name).bundle) }

  func options(_ tokens: Int) -> GenerateOptions {
    var options = GenerateOptions.greedy(maxNewTokens: tokens)
    options.ignoreEndOfText = true
    return options
  }

  func ids(_ answer: Answer) async throws -> [Int32] {
    var out: [Int32] = []
    for try await piece in answer { if let id = piece.id { out.append(id) } }
    return out
  }

  /// A copy of a case's bundle, with a change to its description.
  func changed(_ name: String, _ change: (inout [String: Any]) throws -> Void) throws -> URL {
    let copy = folder.appendingPathComponent(UUID().uuidString)
    try FileManager.default.copyItem(at: Case.named(name).bundle, to: copy)
    let file = copy.appendingPathComponent("bundle.json")
    var json = try XCTUnwrap(JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
    try change(&json)
    try JSONSerialization.data(withJSONObject: json).write(to: file)
    return copy
  }

  func assertThrows(
    _ expected: String, file: StaticString = #filePath, line: UInt = #line, _ body: () async throws -> Void
  ) async {
    do {
      try await body()
      XCTFail("nothing was thrown", file: file, line: line)
    } catch {
      XCTAssertTrue(error is AnemoneError, "\(error)", file: file, line: line)
      XCTAssertTrue("\(error)".contains(expected), "\(error)", file: file, line: line)
    }
  }
}
