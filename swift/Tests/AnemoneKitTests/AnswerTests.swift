import CoreML
import XCTest

@testable import AnemoneKit

/// What comes out is what `anemone run` writes, for every kind of bundle.
final class AnswerTests: KitTestCase {
  func testGreedyTokensEqualTheCommand() async throws {
    let cases = try Case.all()
    XCTAssertGreaterThanOrEqual(cases.count, 12)
    for one in cases {
      let (right, prompt) = (try one.expected(), try one.prompt())
      let session = try await load(one.bundle).makeSession()
      let answer = session.generate(tokens: prompt, options: options(right.ids.count))
      var (made, text): ([Int32], String) = ([], "")
      for try await piece in answer {
        if let id = piece.id { made.append(id) }
        text += piece.text
      }
      XCTAssertEqual(made, right.ids, one.name)
      XCTAssertEqual(text, right.text, one.name)
      XCTAssertEqual(answer.summary.stop, .length, one.name)
      XCTAssertEqual(answer.summary.newTokens, right.ids.count, one.name)
      XCTAssertEqual(answer.summary.promptTokens, prompt.count, one.name)
    }
  }

  func testSampledTokensEqualTheCommand() async throws {
    let one = try Case.named("functions")
    let right = try one.expected("sampled.json")
    let model = try await load("functions")
    var options = GenerateOptions.greedy(maxNewTokens: 40)
    (options.temperature, options.topP, options.seed, options.repetitionPenalty) = (0.8, 0.95, 7, 1.1)
    let text = try await model.makeSession().generate(Case.text, options: options).text()
    XCTAssertEqual(text, right.text)
    options.seed = 8
    let other = try await model.makeSession().generate(Case.text, options: options).text()
    XCTAssertNotEqual(other, text)
  }

  func testTokensAreComputedWhenTheyAreAskedFor() async throws {
    let model = try await load("state")
    var pieces = model.makeSession().generate(Case.text, options: options(5)).makeAsyncIterator()
    let first = try await pieces.next()
    XCTAssertNotNil(first?.id)
    let before = StandIn.shared.now.predictions
    let second = try await pieces.next()
    XCTAssertNotNil(second?.id)
    XCTAssertEqual(StandIn.shared.now.predictions, before + 2, "layers and head, once")
  }

  func testStopTextIsNotGivenOut() async throws {
    let right = try Case.named("functions").expected().text
    let words = right.split(separator: " ")
    let stop = " " + words[4]
    let model = try await load("functions")
    var options = options(40)
    options.stops = [stop]
    let answer = model.makeSession().generate(Case.text, options: options)
    let text = try await answer.text()
    XCTAssertEqual(text, String(right[..<right.range(of: stop)!.lowerBound]))
    XCTAssertEqual(answer.summary.stop, .stopText)
  }

  func testAnAnswerEndsWhereTheContextIsFull() async throws {
    let model = try await load("slice")
    let prompt = try Case.named("slice").prompt()
    let session = model.makeSession()
    let answer = session.generate(tokens: prompt, options: options(1000))
    let made = try await ids(answer)
    XCTAssertEqual(answer.summary.stop, .contextFull)
    XCTAssertEqual(made.count, model.context - prompt.count + 1)
    let position = await session.position
    XCTAssertEqual(position, model.context)
  }

  func testASecondTurnComputesOnlyWhatIsNew() async throws {
    let model = try await load("functions")
    let prompt = try Case.named("functions").prompt()
    let session = model.makeSession()
    let first = try await ids(session.generate(tokens: prompt, options: options(10)))
    let longer = prompt + first + [262, 796]
    let answer = session.generate(tokens: longer, options: options(10))
    let again = try await ids(answer)
    // All but the last token of the first answer, which was not fed.
    XCTAssertEqual(answer.summary.reusedTokens, prompt.count + first.count - 1)
    let fresh = try await ids(model.makeSession().generate(tokens: longer, options: options(10)))
    XCTAssertEqual(again, fresh)
  }

  func testSessionsGoSideBySide() async throws {
    for name in ["functions", "io"] {
      let right = try Case.named(name).expected().ids
      let prompt = try Case.named(name).prompt()
      let model = try await load(name)
      try await withThrowingTaskGroup(of: [Int32].self) { group in
        for _ in 0..<4 {
          group.addTask { [self] in
            try await ids(model.makeSession().generate(tokens: prompt, options: options(right.count)))
          }
        }
        for try await made in group { XCTAssertEqual(made, right, name) }
      }
    }
  }

  func testAnotherAnswerReplacesTheFirst() async throws {
    let model = try await load("state")
    let session = model.makeSession()
    var first = session.generate(Case.text, options: options(10)).makeAsyncIterator()
    _ = try await first.next()
    _ = try await session.generate(Case.text, options: options(2)).text()
    do {
      _ = try await first.next()
      XCTFail("it went on")
    } catch {
      XCTAssertEqual(error as? AnemoneError, .replaced)
    }
  }

  func testChatsGoThroughTheTemplate() async throws {
    let bundle = try changed("functions") { json in
      var tokens = json["tokens"] as! [String: Any]
      tokens["tokenizer"] = "tokenizer.json"
      json["tokens"] = tokens
    }
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<answer>"
    try template.write(
      to: bundle.appendingPathComponent("chat_template.jinja"), atomically: true, encoding: .utf8)
    let model = try await load(bundle)
    let tokenizer = try XCTUnwrap(model.tokenizer)
    XCTAssertTrue(tokenizer.hasChat)
    let chat: [Message] = [.system("Be brief."), .user("Who lives in the lighthouse?")]
    let text = "<system>Be brief.\n<user>Who lives in the lighthouse?\n<answer>"
    XCTAssertEqual(try tokenizer.chatText(chat), text)
    XCTAssertEqual(try tokenizer.chat(chat), try tokenizer.encode(text))
    let answered = try await ids(model.makeSession().respond(to: chat, options: options(12)))
    let plain = try await ids(
      model.makeSession().generate(tokens: try tokenizer.encode(text), options: options(12)))
    XCTAssertEqual(answered, plain)
    XCTAssertEqual(try tokenizer.decode(try tokenizer.encode("Ein Wal, 鯨!")), "Ein Wal, 鯨!")
  }
}
