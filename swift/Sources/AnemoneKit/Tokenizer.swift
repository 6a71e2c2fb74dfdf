import CAnemone
import Foundation

/// A turn of a conversation.
public struct Message: Sendable, Equatable, Codable {
  public var role: String  // "system", "user" or "assistant"
  public var content: String

  public init(role: String, content: String) {
    self.role = role
    self.content = content
  }
  public static func system(_ content: String) -> Message { Message(role: "system", content: content) }
  public static func user(_ content: String) -> Message { Message(role: "user", content: content) }
  public static func assistant(_ content: String) -> Message { Message(role: "assistant", content: content) }
}

/// Text to token ids and back, and chats by the model's own template. Any number of threads may share one.
public final class Tokenizer: @unchecked Sendable {
  let handle: OpaquePointer

  /// A tokenizer.json, a tokenizer.model, a GGUF file, or a folder that has one.
  public init(file: URL) throws {
    var made: OpaquePointer?
    try core(anemone_tokenizer_open(file.path, &made))
    guard let made else { throw AnemoneError.core("no tokenizer was made") }
    handle = made
  }

  deinit { anemone_tokenizer_close(handle) }

  /// Whether a chat template came with it: the model knows turns.
  public var hasChat: Bool { anemone_tokenizer_has_chat(handle) != 0 }

  /// `special`: with what the model wants around a text. `plain`: special tokens in the text stay text.
  public func encode(_ text: String, special: Bool = false, plain: Bool = false) throws -> [Int32] {
    let flags = (special ? Int32(ANEMONE_ADD_SPECIAL) : 0) | (plain ? Int32(ANEMONE_PLAIN_TEXT) : 0)
    return try ids { anemone_encode(handle, text, flags, $0, $1) }
  }

  public func decode(_ ids: [Int32], skipSpecial: Bool = true) throws -> String {
    var text: UnsafeMutablePointer<CChar>?
    try core(anemone_decode(handle, ids, ids.count, skipSpecial ? 1 : 0, &text))
    return taken(text)
  }

  /// A conversation up to the opening of the next answer. `plain`: special tokens in the contents stay text, so that
  /// nobody can close a turn and speak as another.
  public func chat(_ messages: [Message], plain: Bool = true) throws -> [Int32] {
    try withTexts(messages) { roles, contents in
      try ids {
        anemone_chat_ids(
          handle, roles, contents, messages.count, plain ? Int32(ANEMONE_PLAIN_TEXT) : 0, $0, $1)
      }
    }
  }

  /// The same as text.
  public func chatText(_ messages: [Message]) throws -> String {
    try withTexts(messages) { roles, contents in
      var text: UnsafeMutablePointer<CChar>?
      try core(anemone_chat_text(handle, roles, contents, messages.count, &text))
      return taken(text)
    }
  }

  private func ids(
    _ body: (UnsafeMutablePointer<UnsafeMutablePointer<Int32>?>, UnsafeMutablePointer<Int>) -> anemone_status
  ) throws -> [Int32] {
    var list: UnsafeMutablePointer<Int32>?
    var count = 0
    try core(body(&list, &count))
    defer { anemone_free(list) }
    return Array(UnsafeBufferPointer(start: list, count: count))
  }

  private func taken(_ text: UnsafeMutablePointer<CChar>?) -> String {
    defer { anemone_free(text) }
    return text.map { String(cString: $0) } ?? ""
  }

  private typealias Texts = UnsafePointer<UnsafePointer<CChar>?>

  private func withTexts<R>(_ messages: [Message], _ body: (Texts?, Texts?) throws -> R) rethrows -> R {
    try withCStrings(messages.map(\.role)) { roles in
      try withCStrings(messages.map(\.content)) { contents in try body(roles, contents) }
    }
  }
}

/// Throws what the C++ core said where a call of it failed. On the thread of the call.
func core(_ status: anemone_status) throws {
  if status == ANEMONE_CANCELLED { throw CancellationError() }
  if status != ANEMONE_OK { throw AnemoneError.core(String(cString: anemone_last_error())) }
}

/// Texts as C wants them, while the body runs.
func withCStrings<R>(
  _ texts: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) throws -> R
) rethrows -> R {
  let copies = texts.map { strdup($0) }
  defer { copies.forEach { free($0) } }
  let pointers = copies.map { UnsafePointer($0) }
  return try pointers.withUnsafeBufferPointer { try body($0.baseAddress) }
}
