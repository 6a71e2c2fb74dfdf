#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

// PCRE2's own \s also has U+180E, which is no white space since Unicode 6.3.
constexpr std::string_view kSpaceSet =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

// Its \w has all numbers and no marks. Oniguruma's has marks, decimal and letter numbers, the other numbers
// of Latin-1 alone, and circled and squared letters.
constexpr std::string_view kWordSet =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{"
    "1f149}"
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";

std::string translate(std::string_view pattern) {
  const std::string space(kSpaceSet), word(kWordSet);
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? space : "[" + space + "]";
      } else if (next == 'w') {
        out += in_class ? word : "[" + word + "]";
      } else if (next == 'S' && !in_class) {
        out += "[^" + space + "]";
      } else if (next == 'W' && !in_class) {
        out += "[^" + word + "]";
      } else if (next == 'b' && !in_class) {
        out += "(?:(?<=[" + word + "])(?![" + word + "])|(?<![" + word + "])(?=[" + word + "]))";
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += "\\]", ++i;
      continue;
    }
    if (c == '[' && in_class && !(i + 1 < pattern.size() && pattern[i + 1] == ':')) {
      throw errorf("nested character sets are not supported").found(std::string(pattern));
    }
    if (c == ']' && in_class && !(i > 0 && pattern[i - 1] == ':')) in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct Regex::Code {
  std::string pattern;
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  code_->pattern = pattern;
  const std::string translated = translate(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr);
  if (code_->code == nullptr) {
    std::array<unsigned char, 160> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw errorf("bad regular expression: {} at character {}", reinterpret_cast<const char*>(message.data()),
                 offset)
        .found(std::string(pattern));
  }
  pcre2_jit_compile(code_->code,
                    PCRE2_JIT_COMPLETE);  // where there is no JIT the interpreter gives the same matches
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& found) const {
  struct Free {
    void operator()(pcre2_match_data* d) const { pcre2_match_data_free(d); }
  };
  const std::unique_ptr<pcre2_match_data, Free> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr));
  if (data == nullptr) throw errorf("no memory to match a regular expression");
  size_t at = 0;
  size_t last_end = std::string_view::npos;
  while (at <= text.size()) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                         PCRE2_NO_UTF_CHECK | options, data.get(), nullptr);
    };
    int rc = match(0);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(PCRE2_NO_JIT);  // keeps its backtracking on the heap
    if (rc == PCRE2_ERROR_NOMATCH) return;
    if (rc < 0) {
      std::array<unsigned char, 160> message{};
      pcre2_get_error_message(rc, message.data(), message.size());
      throw errorf("regular expression failed: {}", reinterpret_cast<const char*>(message.data()))
          .found(code_->pattern);
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    const size_t begin = range[0], end = range[1];
    if (end < begin) throw errorf("regular expression moves its match backwards").found(code_->pattern);
    const bool empty = begin == end;
    if (!empty || begin != last_end) found(begin, end);
    last_end = end;
    if (!empty) {
      at = end;
    } else {
      if (end >= text.size()) return;
      at = end + static_cast<size_t>(utf8_length(text[end]));
    }
  }
}

std::string Regex::escape(std::string_view literal) {
  std::string out;
  for (char c : literal) {
    if (std::string_view("\\^$.|?*+()[]{}-#&~/").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace anemone
