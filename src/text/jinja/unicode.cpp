#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/jinja/unicode_table.h"

namespace anemone::jinja {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

const SpecialCase* special_case(char32_t c) {
  const auto* it = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), c,
                                    [](const SpecialCase& s, char32_t value) { return s.from < value; });
  return it != std::end(kSpecialCases) && it->from == c ? it : nullptr;
}

void append_all(std::string& out, const char32_t* s) {
  for (; *s != 0; ++s) append_utf8(out, *s);
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialCase* s = special_case(c)) return append_all(out, s->upper);
  append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  const SpecialCase* s = special_case(c);
  if (s && *s->title != 0) return append_all(out, s->title);
  append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2019;
  }
}

// Sigma is written ς at the end of a word: a cased letter before it and none after it.
bool is_final_sigma(std::string_view text, size_t at) {
  bool before = false;
  for (size_t i = at; i > 0;) {
    --i;
    if ((text[i] & 0xc0) == 0x80) continue;
    const char32_t c = decode_at(text, i).value;
    if (is_case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  if (!before) return false;
  for (size_t i = at + 2; i < text.size();) {
    const CodePoint c = decode_at(text, i);
    if (!is_case_ignorable(c.value)) return !is_cased(c.value);
    i += c.bytes;
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, size_t at, char32_t c) {
  if (c == 0x130) return append_all(out, U"i\u0307");
  if (c == 0x3a3) return append_utf8(out, is_final_sigma(text, at) ? 0x3c2 : 0x3c3);
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

// Bytes that are not UTF-8 decode to values from here on, and are copied.
constexpr char32_t kRawByte = 0x110000;

template <class F>
std::string map_code_points(std::string_view text, F&& append) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text, i);
    if (c.value >= kRawByte) {
      out += text[i];
    } else {
      append(out, i, c.value);
    }
    i += c.bytes;
  }
  return out;
}

}  // namespace

CodePoint decode_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  utf8proc_int32_t value = 0;
  const auto size = static_cast<utf8proc_ssize_t>(std::min<size_t>(4, text.size() - at));
  const utf8proc_ssize_t n =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at), size, &value);
  if (n <= 0) return {kRawByte + byte(0), 1};
  return {static_cast<char32_t>(value), static_cast<size_t>(n)};
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(n));
}

size_t code_points(std::string_view text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size(); ++n) i += decode_at(text, i).bytes;
  return n;
}

size_t byte_offset(std::string_view text, size_t code_point) {
  size_t i = 0;
  while (code_point-- > 0 && i < text.size()) i += decode_at(text, i).bytes;
  return i;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) ||
         (c >= 0x2474 && c <= 0x247c) || (c >= 0x2488 && c <= 0x2490);
}

bool is_numeric(char32_t c) {
  const auto k = category(c);
  if (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO) return true;
  static constexpr std::u32string_view kHan = U"一二三四五六七八九十百千万億兆零〇";
  return kHan.find(c) != std::u32string_view::npos;
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216f) || (c >= 0x24b6 && c <= 0x24cf);
}

bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba || (c >= 0x2170 && c <= 0x217f) ||
         (c >= 0x24d0 && c <= 0x24e9);
}

bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

std::string upper(std::string_view text) {
  return map_code_points(text, [](std::string& out, size_t, char32_t c) { append_upper(out, c); });
}

std::string lower(std::string_view text) {
  return map_code_points(text,
                         [&](std::string& out, size_t at, char32_t c) { append_lower(out, text, at, c); });
}

std::string title(std::string_view text) {
  bool in_word = false;
  return map_code_points(text, [&](std::string& out, size_t at, char32_t c) {
    if (in_word) {
      append_lower(out, text, at, c);
    } else {
      append_title(out, c);
    }
    in_word = is_cased(c);
  });
}

std::string capitalize(std::string_view text) {
  return map_code_points(text, [&](std::string& out, size_t at, char32_t c) {
    if (at == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, at, c);
    }
  });
}

std::string swapcase(std::string_view text) {
  return map_code_points(text, [&](std::string& out, size_t at, char32_t c) {
    if (is_upper(c)) {
      append_lower(out, text, at, c);
    } else {
      append_upper(out, c);
    }
  });
}

std::string casefold(std::string_view text) {
  return map_code_points(text, [](std::string& out, size_t, char32_t c) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const auto n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 8, UTF8PROC_CASEFOLD, &boundary);
    if (n <= 0 || n > 8) return append_utf8(out, c);
    for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<char32_t>(folded[i]));
  });
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = decode_at(text, 0);
    if (!is_space(c.value)) break;
    text.remove_prefix(c.bytes);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && (text[start] & 0xc0) == 0x80 && text.size() - start < 4) --start;
    const CodePoint c = decode_at(text, start);
    if (start + c.bytes != text.size() || !is_space(c.value)) break;
    text.remove_suffix(c.bytes);
  }
  return text;
}

}  // namespace anemone::jinja
