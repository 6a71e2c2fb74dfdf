import Foundation

/// What AnemoneKit throws, beside `CancellationError`. `description` is one sentence for people, with what to do.
public enum AnemoneError: Error, Equatable {
  /// The folder is no bundle, or one of another version.
  case notABundle(String)
  /// A file is missing or is not what bundle.json says.
  case damaged(String)
  /// The bundle needs something that AnemoneKit does not do; the text names it.
  case unsupported(String)
  /// Core ML refused something; with its own words, and those of the errors under it.
  case coreML(String)
  /// The tokenizer, the chat template or the sampling refused something, in the words of the C++ core.
  case core(String)
  /// More tokens than the longest context holds.
  case contextFull(tokens: Int, context: Int)
  /// The token is not in the vocabulary.
  case unknownToken(Int)
  /// The position is not in the session's past.
  case cannotRewind(to: Int, position: Int)
  /// The bundle gives only the best token (`--argmax-output`): nothing can be sampled or penalised.
  case noLogits
  /// Another answer was begun on the session, so this one cannot go on.
  case replaced
}

extension AnemoneError: CustomStringConvertible, LocalizedError {
  public var description: String {
    switch self {
    case .notABundle(let text), .damaged(let text), .unsupported(let text), .coreML(let text), .core(let text):
      return text
    case .contextFull(let tokens, let context):
      return "\(tokens) tokens do not fit into the context of \(context): convert with a larger --context"
    case .unknownToken(let id):
      return "the token \(id) is not in the vocabulary"
    case .cannotRewind(let to, let position):
      return "cannot rewind to \(to): the session is at \(position)"
    case .noLogits:
      return "the bundle gives only the best token, so nothing can be sampled: convert without --argmax-output"
    case .replaced:
      return "another answer was begun on this session"
    }
  }
  public var errorDescription: String? { description }

  /// What Core ML said when `doing` failed. The reason mostly stands in the error under it.
  static func coreML(_ doing: String, _ error: Error) -> AnemoneError {
    if let own = error as? AnemoneError { return own }
    var texts: [String] = []
    var next: NSError? = error as NSError
    while let known = next, texts.count < 4 {
      let text = known.localizedDescription
      if !texts.contains(text) { texts.append(text) }
      next = known.userInfo[NSUnderlyingErrorKey] as? NSError
    }
    return .coreML("\(doing): \(texts.joined(separator: ": "))")
  }
}

#if !canImport(ObjectiveC)
  // Apple's systems have it: what Core ML makes in a prediction goes when the pool ends.
  func autoreleasepool<Result>(invoking body: () throws -> Result) rethrows -> Result { try body() }
#endif
