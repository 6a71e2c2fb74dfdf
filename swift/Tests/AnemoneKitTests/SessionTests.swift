import CoreML
import XCTest

@testable import AnemoneKit

/// Going back, stopping, and going on after a fault.
final class SessionTests: KitTestCase {
  /// Of these cases the memory is of a different kind each.
  private func kinds() throws -> [Case] {
    let recurrent = try Case.all().filter { try BundleInfo.read($0.bundle).isRecurrent }.prefix(1)
    return try ["functions", "tiers", "packed", "io", "slice"].map { try Case.named($0) } + recurrent
  }

  func testARewoundSessionIsAsOneThatNeverSawTheTokens() async throws {
    for one in try kinds() {
      let right = try one.expected().ids
      let prompt = try one.prompt()
      let session = try await load(one.bundle).makeSession()
      _ = try await ids(session.generate(tokens: prompt, options: options(right.count)))
      for place in [prompt.count - 1, 3, 0] {
        try await session.rewind(to: place)
        let position = await session.position
        XCTAssertEqual(position, place, one.name)
        // Something else in between, which must leave nothing behind.
        _ = try await session.feedBest([5, 6, 7])
        try await session.rewind(to: place)
        let again = try await ids(session.generate(tokens: prompt, options: options(right.count)))
        XCTAssertEqual(again, right, "\(one.name), from \(place)")
      }
    }
  }

  func testLogitsAfterARewindAreBitForBitTheSame() async throws {
    for one in try kinds() {
      let prompt = try one.prompt()
      let model = try await load(one.bundle)
      let session = model.makeSession()
      let fresh = try await session.feed(Array(prompt.prefix(4)))
      _ = try await session.feed([9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22])
      try await session.rewind(to: 0)
      let again = try await session.feed(Array(prompt.prefix(4)))
      XCTAssertEqual(again, fresh, one.name)
    }
  }

  func testCancellingATaskEndsItsAnswerAndLeavesTheSessionUsable() async throws {
    for one in try kinds() {
      let right = try one.expected().ids
      let prompt = try one.prompt()
      let session = try await load(one.bundle).makeSession()
      let answer = session.generate(tokens: prompt, options: options(right.count))
      let task = Task { [self] in
        var made = 0
        for try await _ in answer {
          made += 1
          if made == 3 { withUnsafeCurrentTask { $0?.cancel() } }
        }
        XCTFail("\(one.name): it was not cancelled")
        _ = self
      }
      do {
        try await task.value
        XCTFail("\(one.name): nothing was thrown")
      } catch {
        XCTAssertTrue(error is CancellationError, "\(one.name): \(error)")
      }
      XCTAssertEqual(answer.summary.stop, .cancelled)
      XCTAssertEqual(answer.summary.newTokens, 3)
      let again = try await ids(session.generate(tokens: prompt, options: options(right.count)))
      XCTAssertEqual(again, right, one.name)
    }
  }

  func testCancellationWorksInTheMiddleOfAPrompt() async throws {
    for one in try kinds() {
      let right = try one.expected().ids
      let prompt = try one.prompt()
      let session = try await load(one.bundle).makeSession()
      _ = try await session.feedBest(Array(prompt.prefix(1)))
      let task = Task { [self] in try await ids(session.generate(tokens: prompt, options: options(right.count))) }
      let start = StandIn.shared.now.predictions
      StandIn.shared.change { $0.beforePrediction = { if StandIn.shared.now.predictions > start { task.cancel() } } }
      do {
        _ = try await task.value
        XCTFail("\(one.name): nothing was thrown")
      } catch {
        XCTAssertTrue(error is CancellationError, "\(one.name): \(error)")
      }
      StandIn.shared.change { $0.beforePrediction = nil }
      let position = await session.position
      XCTAssertLessThan(position, prompt.count, one.name)
      let again = try await ids(session.generate(tokens: prompt, options: options(right.count)))
      XCTAssertEqual(again, right, one.name)
    }
  }

  func testAfterAPredictionThatFailsTheSessionGoesOn() async throws {
    for one in try kinds() {
      let right = try one.expected().ids
      let prompt = try one.prompt()
      let session = try await load(one.bundle).makeSession()
      let longer = prompt + right.prefix(5)
      for later in [1, 2, 3] {  // layers, head, and the layers of the next token
        // Once without a fault: whether functions share states is tried when they first meet, and a fault there is an
        // answer.
        for _ in 0..<2 {
          _ = try await ids(session.generate(tokens: longer, options: options(4)))
          try await session.rewind(to: prompt.count)
        }
        StandIn.shared.change { $0.failingPrediction = $0.predictions + later }
        await assertThrows("Unable to compute the prediction.: error code: -1") {
          _ = try await ids(session.generate(tokens: longer, options: options(4)))
        }
        try await session.rewind(to: min(prompt.count, await session.position))
      }
      let again = try await ids(session.generate(tokens: prompt, options: options(right.count)))
      XCTAssertEqual(again, right, one.name)
    }
  }

  func testStatesAreCopiedWhereFunctionsDoNotShareThem() async throws {
    for refuses in [false, true] {
      for name in ["functions", "tiers", "packed", "slice"] {
        StandIn.shared.change { ($0.sharesStates, $0.refusesStates) = (false, refuses) }
        let one = try Case.named(name)
        let right = try one.expected().ids
        let session = try await load(name).makeSession()
        let made = try await ids(session.generate(tokens: try one.prompt(), options: options(right.count)))
        XCTAssertEqual(made, right, "\(name), \(refuses)")
      }
    }
  }

  func testWhatASessionRefuses() async throws {
    let session = try await load("state").makeSession()
    _ = try await session.feed([5, 6])
    await assertThrows("cannot rewind to 3: the session is at 2") { try await session.rewind(to: 3) }
    await assertThrows("cannot rewind to -1") { try await session.rewind(to: -1) }
    await assertThrows("the token 99999 is not in the vocabulary") { _ = try await session.feed([99999]) }
    await assertThrows("the token -1 is") { _ = try await session.feed([-1]) }
    await assertThrows("102 tokens do not fit into the context of 64") {
      _ = try await session.feed([Int32](repeating: 5, count: 100))
    }
    await assertThrows("no tokens") { _ = try await session.feed([]) }
    var bad = GenerateOptions()
    bad.temperature = -1
    await assertThrows("the temperature is out of range") {
      _ = try await session.generate("a", options: bad).text()
    }
    let position = await session.position
    XCTAssertEqual(position, 2)
    let best = try await load("argmax").makeSession()
    var warm = GenerateOptions()
    warm.temperature = 0.5
    await assertThrows("--argmax-output") { _ = try await best.generate("a", options: warm).text() }
    await assertThrows("--argmax-output") { _ = try await best.feed([5]) }
  }
}
