import Foundation

/// One token of an answer, with the text that became certain by it: whole characters, mostly one word, sometimes none.
public struct Piece: Sendable, Equatable {
  /// nil in the last piece, where there is text that was held back and no token.
  public let id: Int32?
  public let text: String
}

/// What an answer cost, and why it ended.
public struct Summary: Sendable, Equatable {
  public internal(set) var promptTokens = 0
  /// Of the prompt: the session knew them already.
  public internal(set) var reusedTokens = 0
  public internal(set) var newTokens = 0
  public internal(set) var firstTokenSeconds = 0.0
  public internal(set) var decodeSeconds = 0.0
  public internal(set) var stop = StopReason.cancelled

  public var tokensPerSecond: Double { newTokens > 1 ? Double(newTokens - 1) / max(decodeSeconds, 1e-9) : 0 }
}

/// An answer, token by token. Each is computed when it is asked for: whoever stops asking ends it, and so does whoever
/// cancels the task.
///
///     let answer = session.respond(to: [.user("What is a tide pool?")])
///     for try await piece in answer { text += piece.text }
///     print(answer.summary.stop)
public struct Answer: AsyncSequence, Sendable {
  public typealias Element = Piece
  private let work: AnswerWork

  init(_ work: AnswerWork) { self.work = work }

  /// All iterators of an answer go on where the last one was.
  public func makeAsyncIterator() -> Iterator { Iterator(work: work) }
  /// So far; final when the sequence has ended.
  public var summary: Summary { work.summary }
  /// The whole text, for those who do not stream.
  public func text() async throws -> String {
    var out = ""
    for try await piece in self { out += piece.text }
    return out
  }

  public struct Iterator: AsyncIteratorProtocol {
    let work: AnswerWork
    public mutating func next() async throws -> Piece? { try await work.next() }
  }
}

/// The loop from a prompt to an answer: prefill, pick, feed back, until something ends it. A step of it runs on the
/// session's queue.
final class AnswerWork: @unchecked Sendable {
  private let session: Session
  private let options: GenerateOptions
  private let prompt: (AnemoneModel) throws -> [Int32]
  private let lock = NSLock()
  private var facts = Summary()
  // On the session's queue:
  private var core: AnswerCore?
  private var number = 0
  private var last: Int32?  // taken into the answer, and not fed yet
  private var isOver = false
  private var timed = DispatchTime.now()

  init(_ session: Session, _ options: GenerateOptions, _ prompt: @escaping (AnemoneModel) throws -> [Int32]) {
    self.session = session
    self.options = options
    self.prompt = prompt
  }

  var summary: Summary { lock.withLock { facts } }
  private func note(_ change: (inout Summary) -> Void) { lock.withLock { change(&facts) } }

  func next() async throws -> Piece? {
    try await session.perform { [self] runner in
      if isOver { return nil }
      do {
        return try step(runner)
      } catch {
        isOver = true
        note { $0.stop = .cancelled }
        throw error
      }
    }
  }

  private func step(_ runner: Runner) throws -> Piece? {
    if runner.isCancelled() { throw CancellationError() }
    guard let core else { return try begin(runner) }
    guard session.isCurrent(number) else { throw AnemoneError.replaced }
    guard let fed = last else { return nil }
    if runner.position == session.model.context { return try end(core, .contextFull) }
    let id = try pick(core, try runner.feed([fed]))
    note { $0.decodeSeconds = seconds(since: timed) }
    return try take(core, id)
  }

  /// Reads the prompt.
  private func begin(_ runner: Runner) throws -> Piece? {
    let model = session.model
    let start = DispatchTime.now()
    guard model.givesLogits || options.takesBest else { throw AnemoneError.noLogits }
    let ids = try prompt(model)
    guard !ids.isEmpty else { throw AnemoneError.core("the prompt has no tokens") }
    guard ids.count <= model.context else {
      throw AnemoneError.contextFull(tokens: ids.count, context: model.context)
    }
    let core = try AnswerCore(
      model.tokenizer, prompt: ids, ends: model.info.tokens.eos.map { Int32($0) }, options)
    number = session.beginAnswer()
    // The last token is always fed: its logits are what the answer starts from.
    let known = min(runner.commonPrefix(ids), ids.count - 1)
    try runner.rewind(to: known)
    note {
      $0.promptTokens = ids.count
      $0.reusedTokens = known
    }
    let id = try pick(core, try runner.feed(Array(ids[known...])))
    note { $0.firstTokenSeconds = seconds(since: start) }
    timed = DispatchTime.now()
    self.core = core
    return try take(core, id)
  }

  private func pick(_ core: AnswerCore, _ outcome: Runner.Outcome) throws -> Int32 {
    switch outcome {
    case .best(let id): return id
    case .logits(let logits): return try core.pick(logits)
    }
  }

  private func take(_ core: AnswerCore, _ id: Int32) throws -> Piece? {
    let (text, over) = try core.take(id)
    if !over {
      last = id
      note { $0.newTokens += 1 }
      return Piece(id: id, text: text)
    }
    let (rest, why) = try core.finish()
    isOver = true
    let isPart = why != .endOfText && options.maxNewTokens > 0  // an end token is not a part of the answer
    note {
      $0.stop = why
      if isPart { $0.newTokens += 1 }
    }
    if isPart { return Piece(id: id, text: text + rest) }
    return text.isEmpty && rest.isEmpty ? nil : Piece(id: nil, text: text + rest)
  }

  private func end(_ core: AnswerCore, _ why: StopReason) throws -> Piece? {
    let (rest, _) = try core.finish()
    isOver = true
    note { $0.stop = why }
    return rest.isEmpty ? nil : Piece(id: nil, text: rest)
  }

  private func seconds(since start: DispatchTime) -> Double {
    Double(DispatchTime.now().uptimeNanoseconds - start.uptimeNanoseconds) / 1e9
  }
}
