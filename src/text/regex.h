// Regex: a regular expression of a tokenizer file, run by PCRE2 with its JIT.
//     Regex digits("\\p{N}{1,3}");
//     digits.for_each_match(text, [](size_t begin, size_t end) { … });
// The syntax is Oniguruma's as tokenizer files use it: \s is Unicode white space, ^ and $ match at lines.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace anemone {

class Regex {
 public:
  // Throws Error when the expression does not compile.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Every match from left to right; an empty one counts unless it touches the match before. `text` is valid UTF-8. Safe
  // to call from several threads.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t begin, size_t end)>& found) const;

  // The expression with every special character escaped.
  static std::string escape(std::string_view literal);

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace anemone
