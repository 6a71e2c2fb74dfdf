import CAnemone
import Foundation

/// How an answer is made.
public struct GenerateOptions: Sendable, Equatable {
  public var maxNewTokens = 256
  /// 0: always the best token.
  public var temperature = 0.0
  /// Keep this many of the likeliest tokens; 0: all.
  public var topK = 0
  public var topP = 1.0
  public var minP = 0.0
  public var repetitionPenalty = 1.0
  public var presencePenalty = 0.0
  public var frequencyPenalty = 0.0
  public var seed: UInt64 = 1
  /// Texts that end the answer. They are not given out.
  public var stops: [String] = []
  public var ignoreEndOfText = false

  public init() {}
  /// Always the best token.
  public static func greedy(maxNewTokens: Int = 256) -> GenerateOptions {
    var options = GenerateOptions()
    options.maxNewTokens = maxNewTokens
    return options
  }

  /// The best token of unchanged logits: what a bundle with `--argmax-output` can do.
  var takesBest: Bool {
    temperature <= 0 && repetitionPenalty == 1 && presencePenalty == 0 && frequencyPenalty == 0
  }
}

/// Why an answer ended.
public enum StopReason: String, Sendable {
  case length
  case endOfText = "end of text"
  case stopText = "stop text"
  case contextFull = "context full"
  case cancelled
}

/// An answer in the making, by the C++ core: picks tokens, turns them into text, says when it is over.
final class AnswerCore {
  private let handle: OpaquePointer

  init(_ tokenizer: Tokenizer?, prompt: [Int32], ends: [Int32], _ options: GenerateOptions) throws {
    var given = anemone_generate_options()
    anemone_generate_options_init(&given)
    given.max_new = Int64(options.maxNewTokens)
    given.temperature = options.temperature
    given.top_k = Int64(options.topK)
    given.top_p = options.topP
    given.min_p = options.minP
    given.repetition_penalty = options.repetitionPenalty
    given.presence_penalty = options.presencePenalty
    given.frequency_penalty = options.frequencyPenalty
    given.seed = options.seed
    given.ignore_eos = options.ignoreEndOfText ? 1 : 0
    given.stop_count = options.stops.count
    given.end_count = ends.count
    var made: OpaquePointer?
    try withCStrings(options.stops) { stops in
      given.stops = stops
      try ends.withUnsafeBufferPointer { list in
        given.ends = list.baseAddress
        try core(anemone_answer_new(tokenizer?.handle, prompt, prompt.count, &given, &made))
      }
    }
    guard let made else { throw AnemoneError.core("no answer was made") }
    handle = made
  }

  deinit { anemone_answer_free(handle) }

  func pick(_ logits: [Float]) throws -> Int32 {
    var id: Int32 = 0
    try core(anemone_answer_pick(handle, logits, logits.count, &id))
    return id
  }

  /// The text that became certain, and whether the answer is over.
  func take(_ id: Int32) throws -> (text: String, isOver: Bool) {
    var text: UnsafePointer<CChar>?
    var over: Int32 = 0
    try core(anemone_answer_take(handle, id, &text, &over))
    return (text.map { String(cString: $0) } ?? "", over != 0)
  }

  /// What was held back, and why it ended; `.cancelled` where it was not over.
  func finish() throws -> (text: String, why: StopReason) {
    var text: UnsafePointer<CChar>?
    var why: UnsafePointer<CChar>?
    try core(anemone_answer_finish(handle, &text, &why))
    let reason = why.flatMap { StopReason(rawValue: String(cString: $0)) }
    return (text.map { String(cString: $0) } ?? "", reason ?? .cancelled)
  }
}
