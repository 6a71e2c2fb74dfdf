// JsonText::pattern(): a regular expression as ECMA-262 writes it, as grammar for the inside of a JSON string.
#include <algorithm>

#include "base/error.h"
#include "grammar/json_text_grammar.h"
#include "text/unicode.h"

namespace anemone {
namespace {

constexpr int kMostParentheses = 50;
constexpr int64_t kMostRepeats = 5000;

class PatternParser {
 public:
  PatternParser(std::string_view text, GrammarBuilder& builder, JsonText& json)
      : text_(text), builder_(builder), json_(json) {}

  // What may stand before and behind is added where an end is not anchored.
  Symbols parse() {
    Symbols out;
    const Symbol anything = builder_.repeat({json_.any_character()}, 0);
    std::vector<Symbols> ways;
    do {
      Symbols way;
      if (!take("^")) way.push_back(anything);
      anchored_ = false;
      const Symbols body = sequence(0);
      way.insert(way.end(), body.begin(), body.end());
      if (!anchored_) way.push_back(anything);
      ways.push_back(std::move(way));
    } while (take("|"));
    if (at_ < text_.size()) fail(fmt::format("'{}' is not expected here", text_[at_]));
    return {builder_.choice(ways)};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw errorf("the pattern cannot be used: {}", what)
        .found(fmt::format("'{}', at character {}", text_.substr(0, 200), at_ + 1));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  Symbols sequence(int depth) {
    Symbols out;
    while (at_ < text_.size() && peek() != '|' && peek() != ')') {
      if (peek() == '$') {
        ++at_;
        const bool last = depth == 0 && (at_ == text_.size() || peek() == '|');
        if (!last) fail("'$' before the end");
        anchored_ = true;
        return out;
      }
      Symbols item = {atom(depth)};
      repeated(item);
      out.insert(out.end(), item.begin(), item.end());
    }
    return out;
  }

  Symbol atom(int depth) {
    if (depth > kMostParentheses) fail("parentheses nest too deep");
    if (take("(")) {
      if (take("?") && !take(":")) fail("looking ahead or behind, and named groups, are not supported");
      std::vector<Symbols> choices;
      do choices.push_back(sequence(depth + 1));
      while (take("|"));
      if (!take(")")) fail("')' is missing");
      return builder_.choice(choices);
    }
    const char c = peek();
    if (c == '[') return json_.character(bracket());
    if (c == '*' || c == '+' || c == '?' || c == '{') fail(fmt::format("'{}' has nothing to repeat", c));
    if (c == '^') fail("'^' behind the start");
    if (take(".")) return json_.character(inverted_ranges({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    return json_.character(one(false));
  }

  int64_t number() {
    int64_t out = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      if ((out = 10 * out + (peek() - '0')) > kMostRepeats)
        fail(fmt::format("more than {} repetitions", kMostRepeats));
    if (begin == at_) fail("a number is missing");
    return out;
  }

  void repeated(Symbols& item) {
    int64_t least = 0, most = -1;
    if (take("*")) {
    } else if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (take("{")) {
      least = most = number();
      if (take(",")) most = peek() == '}' ? -1 : number();
      if (!take("}")) fail("'}' is missing");
      if (most >= 0 && most < least) fail("the repetition ends before it begins");
    } else {
      return;
    }
    take("?");  // lazy: the same texts
    item = {builder_.repeat(item, least, most)};
  }

  char32_t hex(int digits) {
    char32_t out = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
        fail("hexadecimal digits are missing");
      out = out * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return out;
  }

  // One character, or what an escape stands for.
  CodeRanges one(bool in_bracket) {
    const auto single = [](char32_t c) { return CodeRanges{{c, c}}; };
    if (at_ >= text_.size()) fail("it ends too early");
    if (!take("\\")) {
      const char* p = text_.data() + at_;
      const char32_t c = decode_utf8(p, text_.data() + text_.size());
      at_ = static_cast<size_t>(p - text_.data());
      return single(c);
    }
    if (at_ >= text_.size()) fail("it ends too early");
    const char c = text_[at_++];
    const CodeRanges digit = {{'0', '9'}}, word = {{'0', '9'}, {'a', 'z'}, {'A', 'Z'}, {'_', '_'}},
                     space = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680},
                              {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                              {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    switch (c) {
      case 'd': return digit;
      case 'D': return inverted_ranges(digit);
      case 'w': return word;
      case 'W': return inverted_ranges(word);
      case 's': return space;
      case 'S': return inverted_ranges(space);
      case 'n': return single('\n');
      case 'r': return single('\r');
      case 't': return single('\t');
      case 'f': return single('\f');
      case 'v': return single('\v');
      case '0': return single(0);
      case 'x': return single(hex(2));
      case 'u': return single(hex(4));
      default: break;
    }
    if (c == 'b' && in_bracket) return single('\b');
    const bool letter = (c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) fail(fmt::format("'\\{}' is not supported", c));
    return single(static_cast<unsigned char>(c));
  }

  CodeRanges bracket() {
    take("[");
    const bool inverted = take("^");
    CodeRanges out;
    while (!take("]")) {
      if (at_ >= text_.size()) fail("']' is missing");
      CodeRanges first = one(true);
      const bool single = first.size() == 1 && first[0].first == first[0].last;
      if (single && peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const CodeRanges last = one(true);
        if (last.size() != 1 || last[0].first != last[0].last || last[0].first < first[0].first)
          fail("a range of characters ends before it begins");
        first[0].last = last[0].last;
      }
      out.insert(out.end(), first.begin(), first.end());
    }
    if (inverted) out = inverted_ranges(out);
    if (tidy_ranges(out).empty()) fail("a set of characters is empty");
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool anchored_ = false;
  GrammarBuilder& builder_;
  JsonText& json_;
};

}  // namespace

Symbol JsonText::pattern(std::string_view regex) {
  const Symbol quote = builder_.literal("\"")[0];
  const Symbols inside = PatternParser(regex, builder_, *this).parse();
  return builder_.choice({{quote, inside[0], quote}});
}

}  // namespace anemone
