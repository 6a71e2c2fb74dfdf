import CoreML
import Foundation

/// One text on a model: its states, its position. Many sessions can share a model. All work of a session is done on a
/// queue of its own, one thing after the other.
public final class Session: @unchecked Sendable {
  public let model: AnemoneModel
  private let queue = DispatchQueue(label: "anemone.session", qos: .userInitiated)
  private let runner: Runner
  private var answers = 0  // how many were begun; on the queue

  init(_ model: AnemoneModel) {
    self.model = model
    runner = Runner(model)
  }

  // MARK: - Text

  /// Continues a text. What the session has seen of it already is not computed again.
  public func generate(_ prompt: String, options: GenerateOptions = GenerateOptions()) -> Answer {
    answer(options) { try $0.encode(prompt, special: true) }
  }

  /// Answers a conversation, by the model's chat template. Give all of it each time: only what is new is computed.
  public func respond(to messages: [Message], options: GenerateOptions = GenerateOptions()) -> Answer {
    answer(options) { try $0.chat(messages) }
  }

  /// Continues tokens; also for models without a tokenizer, which then give ids and no text.
  public func generate(tokens: [Int32], options: GenerateOptions = GenerateOptions()) -> Answer {
    Answer(AnswerWork(self, options) { _ in tokens })
  }

  private func answer(
    _ options: GenerateOptions, _ prompt: @escaping (Tokenizer) throws -> [Int32]
  ) -> Answer {
    Answer(
      AnswerWork(self, options) { model in
        guard let tokenizer = model.tokenizer else {
          throw AnemoneError.unsupported("the bundle came without a tokenizer: use generate(tokens:)")
        }
        return try prompt(tokenizer)
      })
  }

  // MARK: - Tokens

  /// Appends tokens; the logits of the last one, one for each id of the vocabulary.
  public func feed(_ tokens: [Int32]) async throws -> [Float] {
    guard model.givesLogits else { throw AnemoneError.noLogits }
    return try await perform { runner in
      guard case .logits(let logits) = try runner.feed(tokens) else { throw AnemoneError.noLogits }
      return logits
    }
  }

  /// Appends tokens; the best id to follow them. Works for every bundle.
  public func feedBest(_ tokens: [Int32]) async throws -> Int32 {
    try await perform { runner in
      switch try runner.feed(tokens) {
      case .best(let id): return id
      case .logits(let logits):
        var best = 0
        for i in logits.indices where logits[i] > logits[best] { best = i }
        return Int32(best)
      }
    }
  }

  /// All tokens so far.
  public var tokens: [Int32] { get async { (try? await perform { $0.ids }) ?? [] } }
  public var position: Int { get async { (try? await perform { $0.position }) ?? 0 } }

  /// Forgets all tokens from `position` on. What comes next is as in a session that never saw them.
  public func rewind(to position: Int) async throws {
    try await perform { runner in try runner.rewind(to: position) }
  }

  // MARK: - The queue

  /// Runs the body on the session's queue. When the task is cancelled, it ends before its next prediction.
  func perform<R>(_ body: @escaping (Runner) throws -> R) async throws -> R {
    let flag = Flag()
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<R, Error>) in
        queue.async { [self] in
          runner.isCancelled = { flag.isSet }
          defer { runner.isCancelled = { false } }
          continuation.resume(with: Result { try autoreleasepool { try body(runner) } })
        }
      }
    } onCancel: {
      flag.set()
    }
  }

  /// On the queue: a number for a new answer, after which older ones cannot go on.
  func beginAnswer() -> Int {
    answers += 1
    return answers
  }
  func isCurrent(_ answer: Int) -> Bool { answer == answers }
}

/// Set once, from any thread.
final class Flag: @unchecked Sendable {
  private let lock = NSLock()
  private var value = false
  var isSet: Bool { lock.withLock { value } }
  func set() { lock.withLock { value = true } }
}
