#include "grammar/grammar.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

constexpr char32_t kLastChar = 0x10ffff;

struct ByteRange {
  uint8_t first = 0, last = 0;
};

std::string bytes_of(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}

// Characters whose UTF-8 has one length and differs in trailing bytes as a box: cut until every piece is one.
void add_sequences(char32_t first, char32_t last, std::vector<std::vector<ByteRange>>& out) {
  for (const char32_t end : {char32_t{0x7f}, char32_t{0x7ff}, char32_t{0xffff}})
    if (first <= end && last > end) {
      add_sequences(first, end, out);
      return add_sequences(end + 1, last, out);
    }
  const std::string low = bytes_of(first), high = bytes_of(last);
  for (size_t tail = 1; tail < low.size(); ++tail) {
    const char32_t span = char32_t{1} << (6 * tail);
    if (first / span == last / span) continue;
    if (first % span != 0) {
      const char32_t end = first | (span - 1);
      add_sequences(first, end, out);
      return add_sequences(end + 1, last, out);
    }
    if (last % span != span - 1) {
      const char32_t begin = last & ~(span - 1);
      add_sequences(first, begin - 1, out);
      return add_sequences(begin, last, out);
    }
  }
  std::vector<ByteRange> sequence;
  for (size_t i = 0; i < low.size(); ++i)
    sequence.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
  out.push_back(std::move(sequence));
}

ByteSet range_set(ByteRange range) {
  ByteSet out;
  for (int b = range.first; b <= range.last; ++b) out.set(static_cast<size_t>(b));
  return out;
}

std::string shown(const GrammarRule& rule, size_t index) {
  return rule.name.empty() ? fmt::format("number {}", index) : fmt::format("'{}'", rule.name);
}

// Which rules have a choice of which every symbol counts: rules that do themselves, and bytes if these do. Each place
// of a rule is looked at once, whatever the order of the rules.
std::vector<bool> rules_with(const Grammar& grammar, bool bytes_count) {
  struct Choice {
    size_t rule = 0, left = 0;  // symbols that do not count yet
  };
  std::vector<bool> have(grammar.rules.size());
  std::vector<Choice> choices;
  std::vector<std::vector<size_t>> places(grammar.rules.size());  // choices with this rule in them
  std::vector<size_t> todo;
  const auto settle = [&](size_t rule) {
    if (have[rule]) return;
    have[rule] = true;
    todo.push_back(rule);
  };
  for (size_t r = 0; r < have.size(); ++r)
    for (const Symbols& symbols : grammar.rules[r].choices) {
      size_t left = 0;
      for (const Symbol s : symbols) {
        const bool rule = s.kind == Symbol::Kind::rule;
        if (rule) places[static_cast<size_t>(s.index)].push_back(choices.size());
        left += rule || !bytes_count;
      }
      choices.push_back({r, left});
      if (left == 0) settle(r);
    }
  while (!todo.empty()) {
    const size_t rule = todo.back();
    todo.pop_back();
    for (const size_t c : places[rule])
      if (--choices[c].left == 0) settle(choices[c].rule);
  }
  return have;
}

// Finds a rule that begins with itself, by a walk over the rules that can come first.
class LeftRecursion {
 public:
  LeftRecursion(const Grammar& grammar, const std::vector<bool>& empty)
      : grammar_(grammar), empty_(empty), state_(grammar.rules.size()) {}

  void check() {
    for (size_t r = 0; r < state_.size(); ++r) visit(r);
  }

 private:
  enum State : uint8_t { fresh, open, done };
  struct Frame {
    size_t rule = 0;
    std::vector<size_t> next;
  };

  std::vector<size_t> firsts(size_t rule) const {
    std::vector<size_t> out;
    for (const Symbols& symbols : grammar_.rules[rule].choices)
      for (const Symbol s : symbols) {
        if (s.kind == Symbol::Kind::bytes) break;
        out.push_back(static_cast<size_t>(s.index));
        if (!empty_[static_cast<size_t>(s.index)]) break;
      }
    return out;
  }

  void visit(size_t start) {
    if (state_[start] != fresh) return;
    std::vector<Frame> stack;
    const auto enter = [&](size_t rule) {
      state_[rule] = open;
      stack.push_back({rule, firsts(rule)});
    };
    enter(start);
    while (!stack.empty()) {
      if (stack.back().next.empty()) {
        state_[stack.back().rule] = done;
        stack.pop_back();
        continue;
      }
      const size_t next = stack.back().next.back();
      stack.back().next.pop_back();
      if (state_[next] == open)
        throw errorf("the rule {} of the grammar begins with itself", shown(grammar_.rules[next], next))
            .hint("write the repetition behind what is repeated: item (\",\" item)*");
      if (state_[next] == fresh) enter(next);
    }
  }

  const Grammar& grammar_;
  const std::vector<bool>& empty_;
  std::vector<State> state_;
};

}  // namespace

CodeRanges tidy_ranges(CodeRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodeRanges merged;
  for (CodeRange r : ranges) {
    r.last = std::min(r.last, kLastChar);
    if (r.first > r.last) continue;
    if (!merged.empty() && r.first <= merged.back().last + 1)
      merged.back().last = std::max(merged.back().last, r.last);
    else
      merged.push_back(r);
  }
  CodeRanges out;
  for (const CodeRange r : merged) {
    if (r.first < 0xd800) out.push_back({r.first, std::min(r.last, char32_t{0xd7ff})});
    if (r.last > 0xdfff) out.push_back({std::max(r.first, char32_t{0xe000}), r.last});
  }
  return out;
}

CodeRanges inverted_ranges(const CodeRanges& ranges) {
  CodeRanges out;
  char32_t next = 0;
  for (const CodeRange r : tidy_ranges(ranges)) {
    if (r.first > next) out.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kLastChar) out.push_back({next, kLastChar});
  return tidy_ranges(out);
}

void GrammarBuilder::count(size_t symbols) {
  symbols_ += symbols + 1;
  if (symbols_ > kMostSymbols)
    throw errorf("the grammar is too large").expected(fmt::format("at most {} symbols", kMostSymbols));
}

Symbol GrammarBuilder::set(const ByteSet& bytes) {
  const auto [at, fresh] =
      set_index_.try_emplace(bytes.to_string(), static_cast<int32_t>(grammar_.sets.size()));
  if (fresh) grammar_.sets.push_back(bytes);
  return {Symbol::Kind::bytes, at->second};
}

Symbol GrammarBuilder::declare(std::string name) {
  count(0);
  grammar_.rules.push_back({std::move(name), {}});
  defined_.push_back(false);
  return {Symbol::Kind::rule, static_cast<int32_t>(grammar_.rules.size()) - 1};
}

void GrammarBuilder::define(Symbol rule, std::vector<Symbols> choices) {
  for (const Symbols& symbols : choices) count(symbols.size());
  grammar_.rules[static_cast<size_t>(rule.index)].choices = std::move(choices);
  defined_[static_cast<size_t>(rule.index)] = true;
}

Symbols GrammarBuilder::literal(std::string_view bytes) {
  count(bytes.size());
  Symbols out;
  for (const char c : bytes) out.push_back(set(ByteSet().set(static_cast<unsigned char>(c))));
  return out;
}

Symbol GrammarBuilder::chars(const CodeRanges& given) {
  const CodeRanges ranges = tidy_ranges(given);
  if (ranges.empty()) throw errorf("a set of characters of the grammar is empty");
  if (const auto known = chars_.find(ranges); known != chars_.end()) return known->second;
  std::vector<std::vector<ByteRange>> sequences;
  for (const CodeRange r : ranges) add_sequences(r.first, r.last, sequences);
  ByteSet single;
  std::vector<Symbols> choices;
  for (const auto& sequence : sequences) {
    if (sequence.size() == 1) {
      single |= range_set(sequence.front());
      continue;
    }
    Symbols symbols;
    for (const ByteRange range : sequence) symbols.push_back(set(range_set(range)));
    choices.push_back(std::move(symbols));
  }
  if (single.any()) choices.push_back({set(single)});
  const Symbol out = choices.size() == 1 && choices[0].size() == 1 ? choices[0][0] : choice(choices);
  chars_.emplace(ranges, out);
  return out;
}

Symbol GrammarBuilder::choice(std::vector<Symbols> choices) {
  const Symbol rule = declare("");
  define(rule, std::move(choices));
  return rule;
}

Symbol GrammarBuilder::repeat(const Symbols& what, int64_t least, int64_t most) {
  if (least < 0 || (most >= 0 && most < least)) throw errorf("a repetition of the grammar cannot be met");
  const auto limit = static_cast<int64_t>(kMostSymbols);
  if (least > limit || most > limit) count(kMostSymbols);  // refuses
  const Symbol item = what.size() == 1 ? what[0] : choice({what});
  Symbols out(static_cast<size_t>(least), item);
  count(out.size());
  if (most < 0) {
    const Symbol more = declare("");
    define(more, {{item, more}, {}});
    out.push_back(more);
  } else if (most > least) {
    Symbol rest = optional({item});
    for (int64_t i = least + 1; i < most; ++i) rest = optional({item, rest});
    out.push_back(rest);
  }
  return choice({out});
}

Grammar GrammarBuilder::finish(Symbol root) {
  if (root.kind == Symbol::Kind::bytes) root = choice({{root}});
  grammar_.root = root.index;
  for (size_t r = 0; r < defined_.size(); ++r)
    if (!defined_[r])
      throw errorf("the grammar has no rule {}", shown(grammar_.rules[r], r)).hint("it is used, not defined");
  const std::vector<bool> ends = rules_with(grammar_, true);
  for (size_t r = 0; r < ends.size(); ++r)
    if (!ends[r])
      throw errorf("the rule {} of the grammar can never end", shown(grammar_.rules[r], r))
          .hint("give it a choice without itself");
  const std::vector<bool> empty = rules_with(grammar_, false);
  LeftRecursion(grammar_, empty).check();
  return std::move(grammar_);
}

}  // namespace anemone
