// Grammar: which texts a model may write, as rules over bytes. GrammarBuilder makes one; parse_gbnf() and
// schema_grammar() use it.
//     GrammarBuilder b;
//     Symbol digits = b.repeat({b.chars({{'0', '9'}})}, 1, 9);
//     Grammar grammar = b.finish(b.choice({b.literal("no"), {digits}}));
// A grammar that was finished is sound: every rule can end, and none begins with itself.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "anemone/error.h"

namespace anemone {

using ByteSet = std::bitset<256>;

// A text cannot go on as its grammar wants: the grammar is to blame, not the model.
class GrammarError : public Error {
 public:
  explicit GrammarError(Error what) : Error(std::move(what)) {}
};

// One of a set of bytes, or a rule.
struct Symbol {
  enum class Kind : uint8_t { bytes, rule };
  Kind kind = Kind::bytes;
  int32_t index = 0;  // in sets or rules

  auto operator<=>(const Symbol&) const = default;
};
using Symbols = std::vector<Symbol>;  // one behind the other

struct GrammarRule {
  std::string name;  // empty: made by the builder
  std::vector<Symbols> choices;
};

struct Grammar {
  std::vector<ByteSet> sets;
  std::vector<GrammarRule> rules;
  int32_t root = 0;
};

// Code points, both ends included.
struct CodeRange {
  char32_t first = 0, last = 0;
  auto operator<=>(const CodeRange&) const = default;
};
using CodeRanges = std::vector<CodeRange>;

// Sorted, without overlaps, and without the surrogates, which no text has.
CodeRanges tidy_ranges(CodeRanges ranges);
CodeRanges inverted_ranges(const CodeRanges& ranges);

class GrammarBuilder {
 public:
  // Most symbols of a grammar: a schema or a file from a stranger costs no more than this.
  static constexpr size_t kMostSymbols = 200'000;

  // A rule to be defined later, for recursion.
  Symbol declare(std::string name);
  void define(Symbol rule, std::vector<Symbols> choices);
  bool defined(Symbol rule) const { return defined_[static_cast<size_t>(rule.index)]; }

  Symbols literal(std::string_view bytes);
  // One character of these, as UTF-8. Error for none.
  Symbol chars(const CodeRanges& ranges);
  Symbol choice(std::vector<Symbols> choices);
  Symbol optional(Symbols what) { return choice({std::move(what), {}}); }
  // `most` below 0: no end.
  Symbol repeat(const Symbols& what, int64_t least, int64_t most = -1);

  // Error for a rule that nobody defined, that can never end, or that begins with itself.
  Grammar finish(Symbol root);

 private:
  Symbol set(const ByteSet& bytes);
  void count(size_t symbols);

  Grammar grammar_;
  std::vector<bool> defined_;
  std::map<std::string, int32_t> set_index_;
  std::map<CodeRanges, Symbol> chars_;
  size_t symbols_ = 0;
};

}  // namespace anemone
