// Patterns: what people look for themselves (--also), and what they want to keep (--keep).
//     Patterns patterns;
//     patterns.add("EMPLOYEE=E-\\d{6}", kinds);               // a kind of their own, or one of the model's
//     patterns.keep("^Marie Curie$");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "redact/spans.h"
#include "text/regex.h"

namespace anemone::redact {

class Patterns {
 public:
  // `kinds`: names of kinds by number; a new one is added at the end. "REGEX" finds the kind "match", "NAME=REGEX" the
  // kind NAME. Error for a bad expression, or one that matches the empty text.
  void add(const std::string& pattern, std::vector<std::string>& kinds);
  void keep(const std::string& pattern);

  bool finds() const { return !also_.empty(); }
  // The matches in a text that starts at `begin` of the view, in order and apart.
  void find(std::string_view text, uint64_t begin, std::vector<Span>& spans) const;
  // One of the expressions to keep matches in it.
  bool keeps(std::string_view span) const;

 private:
  struct Also {
    Regex regex;
    int kind;
  };
  std::vector<Also> also_;
  std::vector<Regex> keep_;
};

}  // namespace anemone::redact
