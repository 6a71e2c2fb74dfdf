#include "redact/encoding.h"

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
    case Encoding::latin1: return "latin-1";
  }
  return "";
}

const std::vector<std::string>& encoding_names() {
  static const std::vector<std::string> names = {"utf-8", "utf-16le", "utf-16be", "latin-1"};
  return names;
}

std::optional<Encoding> find_encoding(std::string_view name) {
  for (const Encoding e : {Encoding::utf8, Encoding::utf16le, Encoding::utf16be, Encoding::latin1})
    if (encoding_name(e) == name) return e;
  return std::nullopt;
}

Encoding detect_encoding(std::string_view head) {
  if (head.starts_with("\xff\xfe")) return Encoding::utf16le;
  if (head.starts_with("\xfe\xff")) return Encoding::utf16be;
  if (head.starts_with("\xef\xbb\xbf")) return Encoding::utf8;
  return utf16_without_mark(head.substr(0, kLooked)).value_or(Encoding::utf8);
}

bool looks_binary(std::string_view head) {
  head = head.substr(0, kLooked);
  return head.find('\0') != std::string_view::npos && detect_encoding(head) == Encoding::utf8;
}

void CharReader::feed(std::string_view bytes, std::vector<SourceChar>& out) {
  const auto read = [&](std::string_view text) {
    if (encoding_ == Encoding::utf8) return read_utf8(text, false, out);
    if (encoding_ != Encoding::latin1) return read_utf16(text, false, out);
    for (const char c : text) out.push_back({of_one_byte(static_cast<unsigned char>(c)), 1, true});
    return text.size();
  };
  if (held_.empty()) {
    held_ = bytes.substr(read(bytes));
    return;
  }
  held_ += bytes;
  held_.erase(0, read(held_));
}

void CharReader::finish(std::vector<SourceChar>& out) {
  if (encoding_ == Encoding::utf8)
    read_utf8(held_, true, out);
  else
    read_utf16(held_, true, out);
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
    const auto a = static_cast<unsigned char>(text[at]), b = static_cast<unsigned char>(text[at + 1]);
    return static_cast<char32_t>(encoding_ == Encoding::utf16le ? a | b << 8 : a << 8 | b);
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

std::string encoded_ascii(std::string_view text, Encoding encoding) {
  if (encoding == Encoding::utf8 || encoding == Encoding::latin1) return std::string(text);
  std::string out;
  out.reserve(text.size() * 2);
  for (const char c : text) {
    if (encoding == Encoding::utf16be) out += '\0';
    out += c;
    if (encoding == Encoding::utf16le) out += '\0';
  }
  return out;
}

}  // namespace anemone::redact
