// Encodings of documents: bytes in, characters out, each with the bytes that it takes in the source.
//     CharReader reader(detect_encoding(head));
//     reader.feed(bytes, [&](const SourceChar& c) { … });              // c.code, c.bytes
//     reader.finish(…);
// Nothing is lost: a byte that makes no character becomes one of its own, which `sound` tells from the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anemone::redact {

enum class Encoding { utf8, utf16le, utf16be, utf32le, utf32be, latin1 };

std::string_view encoding_name(Encoding encoding);
// "utf-8", "utf-16le", "utf-32be", "latin-1" …; nothing for another name.
std::optional<Encoding> find_encoding(std::string_view name);
const std::vector<std::string>& encoding_names();

// What a document is written in, by its first bytes: a byte order mark, else zero bytes in most places of one kind
// (UTF-16, UTF-32), else UTF-8, of which Latin-1 differs only in bytes that are malformed there.
Encoding detect_encoding(std::string_view head);
// True for bytes that no text has: zeros, outside of UTF-16 and UTF-32.
bool looks_binary(std::string_view head);

struct SourceChar {
  char32_t code = 0;
  uint8_t bytes = 1;  // in the source
  bool sound = true;  // false: a malformed byte of UTF-8, half a pair of UTF-16, no code point of UTF-32
};

class CharReader {
 public:
  explicit CharReader(Encoding encoding) : encoding_(encoding) {}

  Encoding encoding() const { return encoding_; }
  // Appends the characters that the bytes complete; the start of one is kept for the next call.
  void feed(std::string_view bytes, std::vector<SourceChar>& out);
  // No more bytes follow.
  void finish(std::vector<SourceChar>& out);

 private:
  size_t read_utf8(std::string_view text, bool last, std::vector<SourceChar>& out) const;
  size_t read_utf16(std::string_view text, bool last, std::vector<SourceChar>& out) const;
  size_t read_utf32(std::string_view text, bool last, std::vector<SourceChar>& out) const;
  size_t read(std::string_view text, bool last, std::vector<SourceChar>& out) const;

  Encoding encoding_;
  std::string held_;
};

// How many lines end in these bytes, which start at a character of a document.
uint64_t count_lines(std::string_view bytes, Encoding encoding);
// ASCII text in the encoding of a document.
std::string encoded_ascii(std::string_view text, Encoding encoding);

}  // namespace anemone::redact
