#include "redact/encoding.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

constexpr size_t kLooked = 8192;  // bytes at the start of a document that decide
constexpr char32_t kReplacement = 0xfffd;

// Windows-1252 in 0x80 … 0x9f, where Latin-1 has controls that no text uses.
constexpr std::array<char32_t, 32> kWindows = {0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021,
                                               0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0x8d,   0x17d,  0x8f,
                                               0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                               0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};

char32_t of_one_byte(unsigned char byte) {
  return byte >= 0x80 && byte < 0xa0 ? kWindows[byte - 0x80] : byte;
}

// How many zeros stand at even and at odd places.
std::array<size_t, 2> zeros(std::string_view head) {
  std::array<size_t, 2> count{};
  for (size_t i = 0; i < head.size(); ++i) count[i % 2] += head[i] == 0;
  return count;
}

// The bytes of one character, the first of them the lowest (`little`) or the highest.
char32_t whole_number(std::string_view bytes, bool little) {
  char32_t out = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    out = out << 8 | static_cast<unsigned char>(bytes[little ? bytes.size() - 1 - i : i]);
  return out;
}

bool is_code_point(char32_t c) { return c < 0xd800 || (c >= 0xe000 && c <= 0x10ffff); }

// In UTF-32 every four bytes are a character. Those of the high planes and low controls count as none: UTF-16 and
// numbers look like them.
std::optional<Encoding> utf32_without_mark(std::string_view head) {
  if (head.size() < 8) return std::nullopt;
  for (const Encoding e : {Encoding::utf32le, Encoding::utf32be}) {
    size_t at = 0;
    for (; at + 4 <= head.size(); at += 4) {
      const char32_t c = whole_number(head.substr(at, 4), e == Encoding::utf32le);
      if (!is_code_point(c) || c < '\t' || c > 0x3ffff) break;
    }
    if (at + 4 > head.size()) return e;
  }
  return std::nullopt;
}

// UTF-16 of text in a script of Europe has a zero in most of its pairs, always on the same side.
std::optional<Encoding> utf16_without_mark(std::string_view head) {
  if (head.size() < 4) return std::nullopt;
  const size_t pairs = head.size() / 2;
  const auto [even, odd] = zeros(head.substr(0, pairs * 2));
  if (odd * 10 >= pairs * 4 && even * 20 <= odd) return Encoding::utf16le;
  if (even * 10 >= pairs * 4 && odd * 20 <= even) return Encoding::utf16be;
  return std::nullopt;
}

}  // namespace

std::string_view encoding_name(Encoding encoding) {
  switch (encoding) {
    case Encoding::utf8: return "utf-8";
    case Encoding::utf16le: return "utf-16le";
    case Encoding::utf16be: return "utf-16be";
    case Encoding::utf32le: return "utf-32le";
    case Encoding::utf32be: return "utf-32be";
    case Encoding::latin1: return "latin-1";
  }
  return "";
}

const std::vector<std::string>& encoding_names() {
  static const std::vector<std::string> names = {"utf-8",    "utf-16le", "utf-16be",
                                                 "utf-32le", "utf-32be", "latin-1"};
  return names;
}

std::optional<Encoding> find_encoding(std::string_view name) {
  for (const Encoding e : {Encoding::utf8, Encoding::utf16le, Encoding::utf16be, Encoding::utf32le,
                           Encoding::utf32be, Encoding::latin1})
    if (encoding_name(e) == name) return e;
  return std::nullopt;
}

Encoding detect_encoding(std::string_view head) {
  // The first mark begins as one of UTF-16; there, a zero would be the first character of the text.
  if (head.starts_with(std::string_view("\xff\xfe\0\0", 4))) return Encoding::utf32le;
  if (head.starts_with(std::string_view("\0\0\xfe\xff", 4))) return Encoding::utf32be;
  if (head.starts_with("\xff\xfe")) return Encoding::utf16le;
  if (head.starts_with("\xfe\xff")) return Encoding::utf16be;
  if (head.starts_with("\xef\xbb\xbf")) return Encoding::utf8;
  head = head.substr(0, kLooked);
  if (const auto wide = utf32_without_mark(head)) return *wide;
  return utf16_without_mark(head).value_or(Encoding::utf8);
}

bool looks_binary(std::string_view head) {
  head = head.substr(0, kLooked);
  return head.find('\0') != std::string_view::npos && detect_encoding(head) == Encoding::utf8;
}

size_t CharReader::read(std::string_view text, bool last, std::vector<SourceChar>& out) const {
  switch (encoding_) {
    case Encoding::utf8: return read_utf8(text, last, out);
    case Encoding::utf16le:
    case Encoding::utf16be: return read_utf16(text, last, out);
    case Encoding::utf32le:
    case Encoding::utf32be: return read_utf32(text, last, out);
    case Encoding::latin1: break;
  }
  for (const char c : text) out.push_back({of_one_byte(static_cast<unsigned char>(c)), 1, true});
  return text.size();
}

void CharReader::feed(std::string_view bytes, std::vector<SourceChar>& out) {
  if (held_.empty()) {
    held_ = bytes.substr(read(bytes, false, out));
    return;
  }
  held_ += bytes;
  held_.erase(0, read(held_, false, out));
}

void CharReader::finish(std::vector<SourceChar>& out) {
  read(held_, true, out);
  held_.clear();
}

// How many bytes were read; fewer than there are where the last ones begin a character and more may follow.
size_t CharReader::read_utf8(std::string_view text, bool last, std::vector<SourceChar>& out) const {
  const size_t whole = last ? text.size() : text.size() - incomplete_tail(text);
  const char* p = text.data();
  const char* const end = p + whole;
  while (p < end) {
    const char* const before = p;
    const char32_t c = decode_utf8(p, end);
    const auto bytes = static_cast<uint8_t>(p - before);
    const bool malformed = bytes == 1 && static_cast<unsigned char>(*before) >= 0x80;
    out.push_back({malformed ? of_one_byte(static_cast<unsigned char>(*before)) : c, bytes, !malformed});
  }
  return whole;
}

size_t CharReader::read_utf16(std::string_view text, bool last, std::vector<SourceChar>& out) const {
  const auto unit = [&](size_t at) {
    return whole_number(text.substr(at, 2), encoding_ == Encoding::utf16le);
  };
  size_t at = 0;
  while (at + 2 <= text.size()) {
    const char32_t first = unit(at);
    if (first >= 0xd800 && first < 0xdc00) {
      if (at + 4 > text.size() && !last) return at;
      const char32_t second = at + 4 <= text.size() ? unit(at + 2) : 0;
      if (second >= 0xdc00 && second < 0xe000) {
        out.push_back({0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 4, true});
        at += 4;
        continue;
      }
    }
    const bool half = first >= 0xd800 && first < 0xe000;
    out.push_back({half ? kReplacement : first, 2, !half});
    at += 2;
  }
  if (last && at < text.size()) {
    out.push_back({kReplacement, 1, false});
    ++at;
  }
  return at;
}

size_t CharReader::read_utf32(std::string_view text, bool last, std::vector<SourceChar>& out) const {
  size_t at = 0;
  for (; at + 4 <= text.size(); at += 4) {
    const char32_t c = whole_number(text.substr(at, 4), encoding_ == Encoding::utf32le);
    out.push_back({is_code_point(c) ? c : kReplacement, 4, is_code_point(c)});
  }
  for (; last && at < text.size(); ++at) out.push_back({kReplacement, 1, false});
  return at;
}

uint64_t count_lines(std::string_view bytes, Encoding encoding) {
  const std::string end = encoded_ascii("\n", encoding);
  if (end.size() == 1) return static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  uint64_t lines = 0;
  for (size_t at = 0; at + end.size() <= bytes.size(); at += end.size())
    lines += bytes.substr(at, end.size()) == end;
  return lines;
}

std::string encoded_ascii(std::string_view text, Encoding encoding) {
  size_t before = 0, behind = 0;  // zeros around each character
  switch (encoding) {
    case Encoding::utf8:
    case Encoding::latin1: return std::string(text);
    case Encoding::utf16le: behind = 1; break;
    case Encoding::utf16be: before = 1; break;
    case Encoding::utf32le: behind = 3; break;
    case Encoding::utf32be: before = 3; break;
  }
  std::string out;
  out.reserve(text.size() * (before + 1 + behind));
  for (const char c : text) {
    out.append(before, '\0');
    out += c;
    out.append(behind, '\0');
  }
  return out;
}

}  // namespace anemone::redact
