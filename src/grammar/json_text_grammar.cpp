#include "grammar/json_text_grammar.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

constexpr uint64_t kMostInteger = 999'999'999'999'999;  // 15 digits: exact in a double
constexpr int64_t kMostFraction = 15;
constexpr size_t kMostName = 1000;  // bytes; the tree of names nests so deep
constexpr CodeRange kDigit{'0', '9'};

const CodeRanges& hex_digits() {
  static const CodeRanges all = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
  return all;
}

char short_escape(char32_t c) {
  switch (c) {
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    case '"': return '"';
    case '\\': return '\\';
    default: return 0;
  }
}

bool contains(const CodeRanges& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [&](CodeRange r) { return r.first <= c && c <= r.last; });
}

// The characters of `a` that are in `b` too.
CodeRanges common(const CodeRanges& a, const CodeRanges& b) {
  CodeRanges out;
  for (const CodeRange x : a)
    for (const CodeRange y : b) out.push_back({std::max(x.first, y.first), std::min(x.last, y.last)});
  return tidy_ranges(out);
}

const CodeRanges& plain_characters() {
  static const CodeRanges all = inverted_ranges({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}});
  return all;
}

}  // namespace

Symbol JsonText::space() {
  if (!space_) {
    Symbols lines = builder_.literal("\n");
    lines.push_back(builder_.repeat({builder_.chars({{' ', ' '}, {'\t', '\t'}})}, 0, 20));
    space_ = builder_.choice({{}, builder_.literal(" "), lines});
  }
  return *space_;
}

Symbol JsonText::character(const CodeRanges& of) {
  const CodeRanges ranges = tidy_ranges(of);
  std::vector<Symbols> choices;
  if (const CodeRanges plain = common(ranges, plain_characters()); !plain.empty())
    choices.push_back({builder_.chars(plain)});
  for (char32_t c = 0; c <= '\\'; ++c) {
    if (!contains(ranges, c)) continue;
    if (const char e = short_escape(c))
      choices.push_back(builder_.literal(std::string{'\\', e}));
    else if (c < 0x20)
      choices.push_back(builder_.literal(fmt::format("\\u{:04x}", static_cast<uint32_t>(c))));
  }
  if (choices.empty()) throw errorf("a set of characters is empty");
  return choices.size() == 1 && choices[0].size() == 1 ? choices[0][0] : builder_.choice(choices);
}

// \u of a surrogate would be half a character.
Symbol JsonText::any_character() {
  if (!any_) {
    const Symbol hex = builder_.chars(hex_digits());
    Symbols simple = builder_.literal("\\"), low = builder_.literal("\\u"), high = low;
    simple.push_back(builder_.chars(
        {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}}));
    low.insert(low.end(),
               {builder_.chars({kDigit, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), hex, hex, hex});
    high.insert(high.end(),
                {builder_.chars({{'d', 'd'}, {'D', 'D'}}), builder_.chars({{'0', '7'}}), hex, hex});
    any_ = builder_.choice({{builder_.chars(plain_characters())}, simple, low, high});
  }
  return *any_;
}

Symbol JsonText::string(int64_t least, int64_t most) {
  const Symbol body = builder_.repeat({any_character()}, least, most);
  const Symbols quote = builder_.literal("\"");
  return builder_.choice({{quote[0], body, quote[0]}});
}

Symbols JsonText::quoted(std::string_view content) {
  std::string text = "\"";
  for (const char c : content) {
    const char e = short_escape(static_cast<unsigned char>(c));
    if (e)
      text += {'\\', e};
    else if (static_cast<unsigned char>(c) < 0x20)
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      text += c;
  }
  return builder_.literal(text + "\"");
}

// By the tree of what is not to be said: at each of its nodes another character leads out of it.
Symbol JsonText::string_but(const std::vector<std::string_view>& not_these) {
  const Symbol quote = builder_.literal("\"")[0];
  const Symbol rest = builder_.repeat({builder_.chars(plain_characters())}, 0);
  const auto tree = [&](const auto& self, const std::vector<std::u32string_view>& words) -> Symbol {
    std::map<char32_t, std::vector<std::u32string_view>> next;
    bool is_word = false;
    for (const auto& word : words)
      word.empty() ? void(is_word = true) : next[word[0]].push_back(word.substr(1));
    std::vector<Symbols> choices;
    CodeRanges taken;
    for (const auto& [c, tails] : next) {
      taken.push_back({c, c});
      if (contains(plain_characters(), c)) choices.push_back({builder_.chars({{c, c}}), self(self, tails)});
    }
    choices.push_back({builder_.chars(common(inverted_ranges(taken), plain_characters())), rest});
    if (!is_word) choices.push_back({});
    return builder_.choice(choices);
  };
  std::vector<std::u32string> wide;
  for (const std::string_view word : not_these) {
    if (word.size() > kMostName)
      throw errorf("a name beside 'additionalProperties' is too long")
          .found(fmt::format("{} bytes", word.size()))
          .expected(fmt::format("at most {}", kMostName));
    wide.emplace_back();
    for (const char* p = word.data(); p < word.data() + word.size();)
      wide.back() += decode_utf8(p, word.data() + word.size());
  }
  return builder_.choice({{quote, tree(tree, {wide.begin(), wide.end()}), quote}});
}

// Numbers between two of the same count of digits.
void JsonText::add_digits(std::string_view least, std::string_view most, Symbols before,
                          std::vector<Symbols>& out) {
  const auto digit = [&](char first, char last) {
    return builder_.chars({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
  };
  const std::string nines(least.size(), '9'), zeros(least.size(), '0');
  if (least == zeros && most == nines) {
    if (!least.empty())
      before.push_back(builder_.repeat({digit('0', '9')}, static_cast<int64_t>(least.size()),
                                       static_cast<int64_t>(least.size())));
    return out.push_back(std::move(before));
  }
  if (least[0] == most[0]) {
    before.push_back(digit(least[0], least[0]));
    return add_digits(least.substr(1), most.substr(1), std::move(before), out);
  }
  char first = least[0], last = most[0];
  if (least.substr(1) != std::string_view(zeros).substr(1)) {
    Symbols low = before;
    low.push_back(digit(first, first));
    add_digits(least.substr(1), std::string_view(nines).substr(1), std::move(low), out);
    ++first;
  }
  if (most.substr(1) != std::string_view(nines).substr(1)) {
    Symbols high = before;
    high.push_back(digit(last, last));
    add_digits(std::string_view(zeros).substr(1), most.substr(1), std::move(high), out);
    --last;
  }
  if (first > last) return;
  before.push_back(digit(first, last));
  add_digits(std::string_view(zeros).substr(1), std::string_view(nines).substr(1), std::move(before), out);
}

// Whole numbers without a sign, without leading zeros.
Symbol JsonText::digits(uint64_t least, uint64_t most) {
  std::vector<Symbols> choices;
  for (uint64_t begin = least; begin <= most;) {
    uint64_t end = 9;
    while (end < begin) end = end * 10 + 9;
    end = std::min(end, most);
    add_digits(std::to_string(begin), std::to_string(end), {}, choices);
    begin = end + 1;
  }
  return builder_.choice(choices);
}

Symbol JsonText::integer(std::optional<int64_t> least, std::optional<int64_t> most) {
  const auto limit = static_cast<int64_t>(kMostInteger);
  const int64_t low = least.value_or(std::min(-limit, most.value_or(0))),
                high = most.value_or(std::max(limit, least.value_or(0)));
  if (low > high || low < -1'000'000'000'000'000'000 || high > 1'000'000'000'000'000'000)
    throw errorf("the bounds of a number cannot be met").found(fmt::format("{} to {}", low, high));
  std::vector<Symbols> choices;
  if (high >= 0)
    choices.push_back(
        {digits(static_cast<uint64_t>(std::max<int64_t>(low, 0)), static_cast<uint64_t>(high))});
  if (low < 0)
    choices.push_back({builder_.literal("-")[0], digits(static_cast<uint64_t>(std::max<int64_t>(-high, 1)),
                                                        static_cast<uint64_t>(-low))});
  return builder_.choice(choices);
}

Symbols JsonText::fraction(bool not_zero) {
  const Symbol digit = builder_.chars({kDigit});
  Symbols out = builder_.literal(".");
  if (!not_zero) return out.push_back(builder_.repeat({digit}, 1, kMostFraction)), out;
  out.push_back(builder_.repeat({builder_.chars({{'0', '0'}})}, 0, 7));
  out.push_back(builder_.chars({{'1', '9'}}));
  out.push_back(builder_.repeat({digit}, 0, 7));
  return out;
}

// Numbers from `least` (0 or more) to `most` of one sign: with a whole part strictly between, and the bounds
// themselves.
void JsonText::add_decimals(std::optional<NumberBound> least, std::optional<NumberBound> most,
                            const Symbols& sign, std::vector<Symbols>& out) {
  const NumberBound low = least.value_or(NumberBound{}),
                    high = most.value_or(NumberBound{static_cast<double>(kMostInteger), false});
  if (low.value > high.value || high.value > 1e15) return;
  const auto first = static_cast<uint64_t>(std::ceil(low.value)),
             last = static_cast<uint64_t>(std::floor(high.value));
  const auto with_sign = [&](std::initializer_list<Symbols> parts) {
    Symbols all = sign;
    for (const Symbols& part : parts) all.insert(all.end(), part.begin(), part.end());
    out.push_back(std::move(all));
  };
  if (first > last) return;
  const bool open_low = low.exclusive && low.value == static_cast<double>(first);
  const bool open_high = high.exclusive && high.value == static_cast<double>(last);
  uint64_t begin = first;
  if (open_low && first < last) {
    with_sign({builder_.literal(std::to_string(first)), fraction(true)});
    ++begin;
  }
  if (begin < last) with_sign({{digits(begin, last - 1), builder_.optional(fraction(false))}});
  if (!open_high && !(open_low && first == last)) with_sign({builder_.literal(std::to_string(last))});
}

Symbol JsonText::number(std::optional<NumberBound> least, std::optional<NumberBound> most) {
  std::vector<Symbols> choices;
  const Symbol minus = builder_.literal("-")[0];
  if (!least && !most) {
    const Symbol digit = builder_.chars({kDigit});
    Symbols exponent = {builder_.chars({{'e', 'e'}, {'E', 'E'}}),
                        builder_.optional({builder_.chars({{'+', '+'}, {'-', '-'}})}),
                        builder_.repeat({digit}, 1, 2)};
    return builder_.choice({{builder_.optional({minus}), digits(0, kMostInteger),
                             builder_.optional(fraction(false)), builder_.optional(exponent)}});
  }
  const auto negated = [](std::optional<NumberBound> b) {
    if (b) b->value = -b->value;
    return b;
  };
  if (!most || most->value >= 0)
    add_decimals(least && least->value >= 0 ? least : std::nullopt, most, {}, choices);
  if (!least || least->value < 0) {
    std::optional<NumberBound> nearest = most && most->value < 0 ? negated(most) : NumberBound{0, true};
    add_decimals(nearest, negated(least), {minus}, choices);
  }
  if (choices.empty())
    throw errorf("the bounds of a number leave no whole number between them")
        .hint("widen them, or take an enum");
  return builder_.choice(choices);
}

Symbol JsonText::generic_value() {
  if (generic_) return *generic_;
  generic_ = builder_.declare("value");
  const auto one = [&](char c) { return builder_.literal(std::string(1, c))[0]; };
  const Symbol value = *generic_, text = string(), comma = one(','), spaces = space();
  const Symbol pair = builder_.choice({{text, one(':'), spaces, value}});
  const auto list = [&](Symbol item) {
    return builder_.choice({{item, builder_.repeat({comma, spaces, item}, 0), spaces}, {}});
  };
  builder_.define(value, {{one('{'), spaces, list(pair), one('}')},
                          {one('['), spaces, list(value), one(']')},
                          {text},
                          {number()},
                          builder_.literal("true"),
                          builder_.literal("false"),
                          builder_.literal("null")});
  return value;
}

}  // namespace anemone
