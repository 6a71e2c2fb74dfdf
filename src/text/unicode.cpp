#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "text/unicode_additions.h"
#include "text/unicode_ages.h"

namespace anemone {
namespace {

constexpr char32_t kTableEnd = 0x20000;  // beyond: almost only ideographs and unassigned, looked up directly

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

// Other_Alphabetic outside of L, N and M: circled and squared letters; and the two joiners of \w.
bool is_extra_word(char32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c || c == 0x200d;
}

uint16_t compute_class(char32_t c) {
  const auto added = std::upper_bound(std::begin(kAddedRanges), std::end(kAddedRanges), c,
                                      [](char32_t x, const AddedRange& r) { return x < r.first; });
  if (added != std::begin(kAddedRanges) && c <= std::prev(added)->last) return std::prev(added)->bits;
  uint16_t bits = 0;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU: bits = kUpper | kWord; break;
    case UTF8PROC_CATEGORY_LL: bits = kLower | kWord; break;
    case UTF8PROC_CATEGORY_LT: bits = kTitle | kWord; break;
    case UTF8PROC_CATEGORY_LM: bits = kModifierLetter | kWord; break;
    case UTF8PROC_CATEGORY_LO: bits = kOtherLetter | kWord; break;
    case UTF8PROC_CATEGORY_MN: bits = kMark | kNonspacing | kWord; break;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: bits = kMark | kWord; break;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL: bits = kNumeral | kWord; break;
    case UTF8PROC_CATEGORY_NO: bits = kNumeral; break;
    case UTF8PROC_CATEGORY_PC: bits = kPunctuation | kWord; break;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: bits = kPunctuation; break;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: bits = kSymbol; break;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO: bits = kControl; break;
    default: break;
  }
  if (is_white_space(c)) bits |= kSpace;
  if (c == '\r' || c == '\n') bits |= kNewline;
  if (is_extra_word(c)) bits |= kWord;
  return bits;
}

const uint16_t* class_table() {
  static const std::unique_ptr<uint16_t[]> table = [] {
    auto t = std::make_unique<uint16_t[]>(kTableEnd);
    for (char32_t c = 0; c < kTableEnd; ++c) t[c] = compute_class(c);
    return t;
  }();
  return table.get();
}

bool is_hangul_syllable(char32_t c) { return c >= 0xac00 && c <= 0xd7a3; }
bool is_trailing_jamo(char32_t c) { return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11a8 && c <= 0x11c2); }

// What a character does in a normal form. An `inert` one stays as it is and takes no part in the composition or
// reordering of its neighbours, but what follows may compose with it. A `barrier` is a character that Unicode 9 does
// not know: nothing composes across it.
enum class Part { inert, active, barrier };

Part part_of(char32_t c, NormalForm form) {
  const bool compat = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  if (c < 0xa0 || (c < 0x300 && form == NormalForm::nfc)) return Part::inert;
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  const bool composite = property->decomp_seqindex != UINT16_MAX && (compat || property->decomp_type == 0);
  const bool mark = (class_of(c) & kMark) != 0;
  if ((composite && in_ranges(kCompositesAfter9, c)) || (mark && !in_ranges(kMarks9, c)))
    return Part::barrier;
  if (composite || mark) return Part::active;
  return (compose ? is_trailing_jamo(c) : is_hangul_syllable(c)) ? Part::active : Part::inert;
}

std::string map_utf8proc(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                 static_cast<utf8proc_option_t>(options));
  if (size < 0) throw errorf("text cannot be normalized: {}", utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> hold(mapped, std::free);
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(size)};
}

struct Alphabet {
  std::array<char32_t, 256> printable{};
  std::array<int16_t, 512> byte{};
  Alphabet() {
    byte.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool self = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      printable[b] = self ? static_cast<char32_t>(b) : next++;
      byte[printable[b]] = static_cast<int16_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet a;
  return a;
}

}  // namespace

uint16_t class_from_table(char32_t c) noexcept {
  static const uint16_t* const table = class_table();
  if (c < kTableEnd) return table[c];
  return c <= 0x10ffff ? compute_class(c) : 0;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](uint32_t b) { out.push_back(static_cast<char>(b)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6)), put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12)), put(0x80 | ((c >> 6) & 0x3f)), put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3f)), put(0x80 | ((c >> 6) & 0x3f)),
        put(0x80 | (c & 0x3f));
  }
}

bool is_valid_utf8(std::string_view text) noexcept {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    uint64_t eight = 0;
    while (end - p >= 8 && (std::memcpy(&eight, p, 8), (eight & 0x8080808080808080u) == 0)) p += 8;
    if (p == end) break;
    const char* const start = p;
    if (decode_utf8(p, end) == 0xfffd && p - start == 1) return false;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char* const start = p;
    const char32_t c = decode_utf8(p, end);
    if (c != 0xfffd || p - start != 1) {
      out.append(start, p);
      continue;
    }
    // One U+FFFD for the longest beginning of a character. The ranges of the second byte rule out what no character
    // starts with (overlong forms, surrogates, past U+10FFFF).
    const auto lead = static_cast<unsigned char>(*start);
    if (lead >= 0xc2 && lead < 0xf5 && p < end) {
      const auto second = static_cast<unsigned char>(*p);
      const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
      const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
      const int length = utf8_length(*start);
      if (second >= low && second <= high) {
        for (int i = 1; i < length && p < end && (static_cast<unsigned char>(*p) & 0xc0) == 0x80; ++i) ++p;
      }
    }
    out += "\xef\xbf\xbd";
  }
  return out;
}

size_t incomplete_tail(std::string_view text) noexcept {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const char lead = text[text.size() - back];
    const auto b = static_cast<unsigned char>(lead);
    if ((b & 0xc0) == 0x80) continue;
    return b >= 0xc2 && b < 0xf5 && utf8_length(lead) > static_cast<int>(back) ? back : 0;
  }
  return 0;
}

size_t count_chars(std::string_view text) noexcept {
  size_t n = 0;
  for (char c : text) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return n;
}

std::string normalize(std::string_view text, NormalForm form) {
  std::string out;
  out.reserve(text.size());
  const char* const end = text.data() + text.size();
  const char* p = text.data();
  const char* copied = p;  // everything before it is in `out`
  const char* last = p;    // where the last inert character starts: the unsafe run may compose with it
  while (p < end) {
    const char* const start = p;
    const Part part = part_of(decode_utf8(p, end), form);
    if (part != Part::active) {
      last = part == Part::barrier ? p : start;
      continue;
    }
    while (p < end) {
      const char* const next = p;
      if (part_of(decode_utf8(p, end), form) != Part::active) {
        p = next;
        break;
      }
    }
    out.append(copied, last);
    out += map_utf8proc({last, static_cast<size_t>(p - last)}, form);
    copied = last = p;
  }
  out.append(copied, end);
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char32_t c = decode_utf8(p, end);
    if (c == 0x130) {  // the one character with a longer lower case
      out += "i\xcc\x87";
    } else if (c == 0xa7ce || c == 0xa7d2 || c == 0xa7d4) {  // these and the next are of Unicode 17
      append_utf8(out, c + 1);
    } else if (c >= 0x16ea0 && c <= 0x16eb8) {
      append_utf8(out, c + 0x1b);
    } else {
      append_utf8(out, to_lower(c));
    }
  }
  return out;
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c >= 0x10d50 && c <= 0x10d65) return c + 0x20;  // this and the next five: letters of Unicode 16
  switch (c) {
    case 0x1c89: return 0x1c8a;
    case 0xa7cb: return 0x264;
    case 0xa7cc: return 0xa7cd;
    case 0xa7da: return 0xa7db;
    case 0xa7dc: return 0x19b;
    default: return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  }
}

bool is_mark_9(char32_t c) noexcept { return c >= 0x300 && in_ranges(kMarks9, c); }
bool is_nonspacing_8(char32_t c) noexcept { return c >= 0x300 && in_ranges(kNonspacing8, c); }
bool is_control_8(char32_t c) noexcept { return in_ranges(kControls8, c); }
bool is_punctuation_8(char32_t c) noexcept { return in_ranges(kPunctuation8, c); }
bool is_number_17(char32_t c) noexcept {
  return (class_of(c) & kNumeral) || (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);
}

bool is_bert_ideograph(char32_t c) noexcept {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

char32_t first_of_decomposition(char32_t c) {
  if (c < 0xc0) return c;
  if (is_hangul_syllable(c)) return 0x1100 + (c - 0xac00) / 588;
  std::array<utf8proc_int32_t, 32> buffer{};
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer.data(), buffer.size(),
                                         UTF8PROC_DECOMPOSE, &boundary);
  return n > 0 ? static_cast<char32_t>(buffer[0]) : c;
}

char32_t byte_to_printable(uint8_t byte) noexcept { return alphabet().printable[byte]; }
int printable_to_byte(char32_t c) noexcept { return c < 512 ? alphabet().byte[c] : -1; }

std::string bytes_to_printable(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char b : bytes) append_utf8(out, byte_to_printable(static_cast<uint8_t>(b)));
  return out;
}

bool printable_to_bytes(std::string_view text, std::string& out) {
  const size_t before = out.size();
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const int byte = printable_to_byte(decode_utf8(p, end));
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
  }
  return true;
}

}  // namespace anemone
