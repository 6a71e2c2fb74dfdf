// The small parts of JSON as grammar: spaces, strings, numbers within bounds, patterns of characters.
//     JsonText json(builder);
//     Symbol age = json.integer(0, 120);
//     Symbol code = json.pattern("^[A-Z]{3}-\\d+$");
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace anemone {

// A bound of a number that has a fraction.
struct NumberBound {
  double value = 0;
  bool exclusive = false;
};

class JsonText {
 public:
  explicit JsonText(GrammarBuilder& builder) : builder_(builder) {}

  // Nothing, a space, or a line break and up to 20 of indentation: models cannot fill a page with it.
  Symbol space();
  // A character inside of a string, of these, written as JSON writes it.
  Symbol character(const CodeRanges& of);
  Symbol any_character();
  // `most` below 0: any length. Lengths are characters.
  Symbol string(int64_t least = 0, int64_t most = -1);
  // The quoted text whose content is this, character for character.
  Symbols quoted(std::string_view content);
  // A string without escapes that is none of these.
  Symbol string_but(const std::vector<std::string_view>& not_these);
  // A string that matches a regular expression as ECMA-262 writes it; Error for what no automaton can do.
  Symbol pattern(std::string_view regex);

  Symbol integer(std::optional<int64_t> least = {}, std::optional<int64_t> most = {});
  Symbol number(std::optional<NumberBound> least = {}, std::optional<NumberBound> most = {});
  Symbol generic_value();

 private:
  Symbol digits(uint64_t least, uint64_t most);
  void add_digits(std::string_view least, std::string_view most, Symbols before, std::vector<Symbols>& out);
  Symbols fraction(bool not_zero);
  void add_decimals(std::optional<NumberBound> least, std::optional<NumberBound> most, const Symbols& sign,
                    std::vector<Symbols>& out);

  GrammarBuilder& builder_;
  std::optional<Symbol> space_, any_, generic_;
};

}  // namespace anemone
