#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "text/regex_rewrite.h"
#include "text/unicode.h"

namespace anemone {

struct Regex::Code {
  std::string pattern;
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  code_->pattern = pattern;
  const std::string rewritten = to_pcre(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr);
  if (code_->code == nullptr) {
    std::array<unsigned char, 160> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw errorf("bad regular expression: {} at character {}", reinterpret_cast<const char*>(message.data()),
                 offset)
        .found(std::string(pattern));
  }
  // Where there is no JIT, the interpreter gives the same matches.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
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
