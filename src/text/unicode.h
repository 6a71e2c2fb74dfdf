// Unicode for tokenizers: UTF-8 in and out, character classes, normal forms and case.
//     const char* p = text.data();
//     char32_t c = decode_utf8(p, end);            // p moves past the character
//     if (class_of(c) & (kLetter | kMark)) …
// Class and form data are utf8proc's (one Unicode version for the whole library).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace anemone {

// Properties of one character, as bits, so that a regex class is one mask.
enum CharClass : uint16_t {
  kUpper = 1 << 0,           // Lu
  kLower = 1 << 1,           // Ll
  kTitle = 1 << 2,           // Lt
  kModifierLetter = 1 << 3,  // Lm
  kOtherLetter = 1 << 4,     // Lo
  kMark = 1 << 5,            // M
  kNumeral = 1 << 6,         // N
  kPunctuation = 1 << 7,     // P
  kSymbol = 1 << 8,          // S
  kSpace = 1 << 9,           // White_Space
  kNewline = 1 << 10,        // \r and \n only
  kWord = 1 << 11,           // \w: alphabetic, mark, decimal digit, connector
  kControl = 1 << 12,        // Cc, Cf and Co: BERT's "control"
  kNonspacing = 1 << 13,     // Mn
  kLetter = kUpper | kLower | kTitle | kModifierLetter | kOtherLetter,
};

// The classes of ASCII, so that the scanners need no call for most text. A test holds them equal to the table's.
inline constexpr std::array<uint16_t, 128> kAsciiClasses = [] {
  std::array<uint16_t, 128> t{};
  for (int c = 0; c < 128; ++c) {
    if (c >= 'A' && c <= 'Z')
      t[c] = kUpper | kWord;
    else if (c >= 'a' && c <= 'z')
      t[c] = kLower | kWord;
    else if (c >= '0' && c <= '9')
      t[c] = kNumeral | kWord;
    else if (c == '_')
      t[c] = kPunctuation | kWord;
    else if (c == '$' || c == '+' || c == '^' || c == '`' || c == '|' || c == '~' || (c >= '<' && c <= '>'))
      t[c] = kSymbol;
    else if (c > ' ' && c < 127)
      t[c] = kPunctuation;
    else if (c < ' ' || c == 127)
      t[c] = kControl;
    if ((c >= 9 && c <= 13) || c == ' ') t[c] |= kSpace;
    if (c == '\r' || c == '\n') t[c] |= kNewline;
  }
  return t;
}();

// Classes of any code point; those past U+10FFFF have none.
uint16_t class_from_table(char32_t c) noexcept;
inline uint16_t class_of(char32_t c) noexcept { return c < 128 ? kAsciiClasses[c] : class_from_table(c); }

// The character at p; moves p past it. A malformed byte gives U+FFFD and moves p by one. p < end.
inline char32_t decode_utf8(const char*& p, const char* end) noexcept {
  const auto b = [&](int i) { return static_cast<unsigned char>(p[i]); };
  const auto tail = [&](int i) { return (b(i) & 0xc0) == 0x80; };
  const char32_t c = b(0);
  const auto left = end - p;
  if (c < 0x80) return ++p, c;
  if (c >= 0xc2 && c < 0xe0 && left > 1 && tail(1)) {
    const char32_t r = ((c & 0x1f) << 6) | (b(1) & 0x3f);
    return p += 2, r;
  }
  if (c >= 0xe0 && c < 0xf0 && left > 2 && tail(1) && tail(2)) {
    const char32_t r = ((c & 0x0f) << 12) | ((b(1) & 0x3fu) << 6) | (b(2) & 0x3f);
    if (r >= 0x800 && (r < 0xd800 || r > 0xdfff)) return p += 3, r;
  }
  if (c >= 0xf0 && c < 0xf5 && left > 3 && tail(1) && tail(2) && tail(3)) {
    const char32_t r = ((c & 0x07) << 18) | ((b(1) & 0x3fu) << 12) | ((b(2) & 0x3fu) << 6) | (b(3) & 0x3f);
    if (r >= 0x10000 && r <= 0x10ffff) return p += 4, r;
  }
  return ++p, 0xfffd;
}

// Bytes of the character that starts with this byte, in valid UTF-8.
inline int utf8_length(char lead) noexcept {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

void append_utf8(std::string& out, char32_t c);
bool is_valid_utf8(std::string_view text) noexcept;
// The text with each maximal malformed part replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);
// Bytes at the end of the text that begin a character but do not finish it: 0 to 3.
size_t incomplete_tail(std::string_view text) noexcept;
size_t count_chars(std::string_view text) noexcept;

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// As Unicode 9 has it, like Hugging Face's: what is newer stays as it is.
std::string normalize(std::string_view text, NormalForm form);

// Classes in the Unicode versions of Hugging Face's library: marks of 9 (StripAccents); nonspacing marks, controls and
// punctuation of 8 (BERT's parts); numbers of 17 (Digits, which asks Rust).
bool is_mark_9(char32_t c) noexcept;
bool is_nonspacing_8(char32_t c) noexcept;
bool is_control_8(char32_t c) noexcept;
bool is_punctuation_8(char32_t c) noexcept;
bool is_number_17(char32_t c) noexcept;
// The blocks of CJK ideographs that BERT's tokenizer puts spaces around, with its typing slip (2B920 for 2B820).
bool is_bert_ideograph(char32_t c) noexcept;

// Lower case, character by character (no final sigma rule), as Rust's char::to_lowercase.
std::string to_lower(std::string_view text);
// Canonical decomposition's first character only, and lower case of one character.
char32_t first_of_decomposition(char32_t c);
char32_t to_lower(char32_t c);

// The 256 printable characters that byte-level BPE writes bytes as (GPT-2's alphabet).
char32_t byte_to_printable(uint8_t byte) noexcept;
// The byte of such a character, or -1.
int printable_to_byte(char32_t c) noexcept;
std::string bytes_to_printable(std::string_view bytes);
// The bytes written by printable characters; false (and `out` as before) when one is outside of the alphabet.
bool printable_to_bytes(std::string_view text, std::string& out);

}  // namespace anemone
