// Detokenizer: the texts of tokens back to one text (what tokenizer.json calls its decoder).
//     Detokenizer detokenizer(spec.detokenizer, spec.join_with_spaces);
//     std::string text = detokenizer.run(token_texts);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer/spec.h"

namespace anemone {

class Detokenizer {
 public:
  Detokenizer(std::vector<DetokenizerStep> steps, bool join_with_spaces);

  std::string run(std::vector<std::string> tokens) const;

  // True when a token's bytes depend on the token and on whether it is the first, on nothing else.
  bool piecewise() const { return piecewise_; }
  // Appends one token's bytes; they may be part of a character. Only where piecewise().
  void append(std::string_view token, bool first, std::string& bytes) const;
  // How many characters to take off the start of the whole text, and which: a space or what the file names.
  size_t strip_start() const { return strip_start_; }
  char32_t strip_character() const { return strip_character_; }

 private:
  struct Step {
    DetokenizerStep what;
    std::optional<Regex> regex;
  };
  void apply(const Step& step, std::vector<std::string>& tokens) const;
  bool compile_piecewise();

  std::vector<Step> steps_;
  bool join_with_spaces_;
  bool piecewise_ = false;
  size_t strip_start_ = 0;
  char32_t strip_character_ = 0;
};

}  // namespace anemone
