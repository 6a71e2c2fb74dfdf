#include "grammar/gbnf.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace anemone {
namespace {

constexpr int kMostGroups = 100;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Grammar parse() {
    for (skip(true); !at_end(); skip(true)) rule();
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw errorf("the grammar has no rule 'root'").hint("root ::= …");
    return builder_.finish(root->second);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t start = before.rfind('\n') + 1;  // 0 where there is none
    throw errorf("the grammar is not valid: {}", what)
        .at(fmt::format("line {}, column {}", line, before.size() - start + 1));
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view what) {
    if (text_.substr(std::min(at_, text_.size())).substr(0, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }

  // Spaces and comments; line breaks too where the rule cannot end.
  void skip(bool lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#')
        while (!at_end() && peek() != '\n') ++at_;
      else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
        ++at_;
      else
        return;
    }
  }

  std::string name() {
    const size_t begin = at_;
    while (!at_end() && is_name(peek())) ++at_;
    if (at_ == begin) fail("a name of a rule is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Symbol rule_symbol(const std::string& name) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    return rules_.emplace(name, builder_.declare(name)).first->second;
  }

  void rule() {
    const std::string its = name();
    skip(false);
    if (!take("::=")) fail("'::=' is missing");
    const Symbol symbol = rule_symbol(its);
    if (builder_.defined(symbol)) fail(fmt::format("the rule '{}' stands here twice", its));
    skip(true);
    builder_.define(symbol, choices(0));
    skip(false);
    if (!at_end() && peek() != '\n' && peek() != '\r') fail("the rule should end here");
  }

  std::vector<Symbols> choices(int depth) {
    if (depth > kMostGroups) fail("groups nest too deep");
    std::vector<Symbols> out = {sequence(depth)};
    while (skip(depth > 0), take("|")) {
      skip(true);
      out.push_back(sequence(depth));
    }
    return out;
  }

  Symbols sequence(int depth) {
    Symbols out;
    for (skip(depth > 0); !at_end(); skip(depth > 0)) {
      const char c = peek();
      Symbols item;
      if (c == '"') {
        item = quoted();
      } else if (c == '[') {
        item = {builder_.chars(bracket())};
      } else if (take(".")) {
        item = {builder_.chars({{0, 0x10ffff}})};
      } else if (take("(")) {
        skip(true);
        item = {builder_.choice(choices(depth + 1))};
        skip(true);
        if (!take(")")) fail("')' is missing");
      } else if (is_name(c)) {
        item = {rule_symbol(name())};
      } else {
        break;
      }
      repeated(item);
      out.insert(out.end(), item.begin(), item.end());
    }
    return out;
  }

  int64_t number() {
    int64_t out = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9' && out <= 1'000'000; ++at_) out = 10 * out + (peek() - '0');
    if (at_ == begin) fail("a number is missing");
    return out;
  }

  // What stands behind an item: *, +, ?, {n,m}; more than one is applied in turn.
  void repeated(Symbols& item) {
    while (!at_end()) {
      if (take("*")) {
        item = {builder_.repeat(item, 0)};
      } else if (take("+")) {
        item = {builder_.repeat(item, 1)};
      } else if (take("?")) {
        item = {builder_.optional(item)};
      } else if (take("{")) {
        skip(false);
        const int64_t least = peek() == ',' ? 0 : number();
        int64_t most = least;
        skip(false);
        if (take(",")) {
          skip(false);
          most = peek() == '}' ? -1 : number();
        }
        skip(false);
        if (!take("}")) fail("'}' is missing");
        if (most >= 0 && most < least) fail("the repetition ends before it begins");
        item = {builder_.repeat(item, least, most)};
      } else {
        return;
      }
    }
  }

  char32_t hex(int digits) {
    char32_t out = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail(fmt::format("{} hexadecimal digits are missing", digits - i));
      out = out * 16 + static_cast<char32_t>(digit);
    }
    if (out > 0x10ffff || (out >= 0xd800 && out <= 0xdfff)) fail("no character has this number");
    return out;
  }

  char32_t character() {
    if (at_end()) fail("the text ends too early");
    if (!take("\\")) {
      const char* p = text_.data() + at_;
      const char32_t c = decode_utf8(p, text_.data() + text_.size());
      at_ = static_cast<size_t>(p - text_.data());
      return c;
    }
    if (at_end()) fail("the text ends too early");
    const char c = text_[at_++];
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'x': return hex(2);
      case 'u': return hex(4);
      case 'U': return hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/': return static_cast<char32_t>(c);
      default: --at_; fail(fmt::format("unknown escape '\\{}'", c));
    }
  }

  Symbols quoted() {
    take("\"");
    std::string bytes;
    while (!take("\"")) {
      if (at_end()) fail("'\"' is missing");
      append_utf8(bytes, character());
    }
    return builder_.literal(bytes);
  }

  CodeRanges bracket() {
    take("[");
    const bool inverted = take("^");
    CodeRanges out;
    while (!take("]")) {
      if (at_end()) fail("']' is missing");
      CodeRange range;
      range.first = range.last = character();
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        range.last = character();
        if (range.last < range.first) fail("a range of characters ends before it begins");
      }
      out.push_back(range);
    }
    if (inverted) out = inverted_ranges(out);
    if (tidy_ranges(out).empty()) fail("the set of characters is empty");
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  GrammarBuilder builder_;
  std::map<std::string, Symbol> rules_;
};

}  // namespace

Grammar parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace anemone
