#include "text/regex_rewrite.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/error.h"
#include "text/unicode.h"
#include "text/unicode_additions.h"

namespace anemone {
namespace {

// White_Space. PCRE2's own \s also has U+180E, which left it in Unicode 6.3.
constexpr std::string_view kSpaces =
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";
constexpr std::string_view kAnything = "(?s:.)";

struct Category {
  std::string_view name;       // as PCRE2 calls it
  std::string_view long_name;  // lower case, without "_"
  uint16_t any = 0;   // class bits, one of which the characters have that Unicode 15 and 16 added to it …
  uint16_t all = 0;   // … and those that all of them have …
  uint16_t none = 0;  // … or none
};

constexpr Category kCategories[] = {
    {"L", "letter", kLetter},
    {"Lu", "uppercaseletter", kUpper},
    {"Ll", "lowercaseletter", kLower},
    {"Lt", "titlecaseletter", kTitle},
    {"Lm", "modifierletter", kModifierLetter},
    {"Lo", "otherletter", kOtherLetter},
    {"M", "mark", kMark},
    {"Mn", "nonspacingmark", kNonspacing},
    {"Mc", "spacingmark"},
    {"Me", "enclosingmark"},
    {"N", "number", kNumeral},
    {"Nd", "decimalnumber", kNumeral, kWord},
    {"Nl", "letternumber"},
    {"No", "othernumber", kNumeral, 0, kWord},
    {"P", "punctuation", kPunctuation},
    {"Pc", "connectorpunctuation"},
    {"Pd", "dashpunctuation"},
    {"Ps", "openpunctuation"},
    {"Pe", "closepunctuation"},
    {"Pi", "initialpunctuation"},
    {"Pf", "finalpunctuation"},
    {"Po", "otherpunctuation", kPunctuation},
    {"S", "symbol", kSymbol},
    {"Sm", "mathsymbol"},
    {"Sc", "currencysymbol"},
    {"Sk", "modifiersymbol"},
    {"So", "othersymbol", kSymbol},
    {"Z", "separator"},
    {"Zs", "spaceseparator"},
    {"Zl", "lineseparator"},
    {"Zp", "paragraphseparator"},
    {"Cc", "control"},
    {"Cf", "format"},
    {"Co", "privateuse"},
};

void append_range(std::string& out, char32_t first, char32_t last) {
  if (first == last)
    out += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(first));
  else
    out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(first), static_cast<uint32_t>(last));
}

// What Unicode 15 and 16 added with these classes: PCRE2 may be older. Naming what it knows does no harm.
std::string additions(uint16_t any, uint16_t all, uint16_t none) {
  std::string out;
  const auto add = [&](char32_t first, char32_t last) {
    for (char32_t c = first; c <= last; ++c) {
      const auto is_in = [&](char32_t x) {
        const uint16_t bits = class_of(x);
        return (bits & any) != 0 && (bits & all) == all && (bits & none) == 0;
      };
      if (!is_in(c)) continue;
      const char32_t start = c;
      while (c < last && is_in(c + 1)) ++c;
      append_range(out, start, c);
    }
  };
  if (any == 0) return out;
  for (const CharRange& r : kAddedIn15) add(r.first, r.last);
  for (const AddedRange& r : kAddedRanges) add(r.first, r.last);
  return out;
}

std::string category_set(const Category& c) {
  return fmt::format("\\p{{{}}}{}", c.name, additions(c.any, c.all, c.none));
}

std::string category_set(std::string_view name) {
  const auto* c = std::find_if(std::begin(kCategories), std::end(kCategories),
                               [&](const Category& x) { return x.name == name; });
  return category_set(*c);
}

std::string alphabetic_set() {
  return "\\p{Alphabetic}\\x{363}-\\x{36f}\\x{1dd3}-\\x{1de6}" + additions(kLetter, 0, 0);
}

// Marks, decimal and letter numbers, and circled letters; alone, outside of a set, also Latin-1's other numbers.
std::string word_set(bool in_set) {
  std::string out =
      category_set("L") + category_set("M") + category_set("Nd") +
      "\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
  if (!in_set) out += "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
  return out;
}

// What stands between the brackets of a set that holds the property.
std::string property_set(std::string_view given) {
  std::string name;
  for (char c : given) {
    if (c != '_' && c != '-' && c != ' ') name += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  for (const Category& c : kCategories) {
    std::string small(c.name);
    small[0] = static_cast<char>(small[0] + 32);
    if (name == small || name == c.long_name) return category_set(c);
  }
  if (name == "c" || name == "cn" || name == "other" || name == "unassigned" || name == "any" ||
      name == "assigned") {
    throw errorf("\\p{{{}}} is not supported", given);
  }
  if (name == "alpha" || name == "alphabetic") return alphabetic_set();
  if (name == "digit") return category_set("Nd");
  if (name == "alnum") return alphabetic_set() + category_set("Nd");
  if (name == "punct") return category_set("P");
  if (name == "space" || name == "whitespace") return std::string(kSpaces);
  if (name == "word") return word_set(true);
  if (name == "han") {  // as a script, and not where it may be used with others
    return "\\p{sc:Han}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
  }
  if (name == "upper" || name == "uppercase") return "\\p{Uppercase}" + additions(kUpper, 0, 0);
  if (name == "lower" || name == "lowercase") return "\\p{Lowercase}" + additions(kLower, 0, 0);
  if (name == "emoji") return "\\p{Emoji}";
  return fmt::format("\\p{{sc:{}}}", given);
}

std::string posix_set(std::string_view name) {
  if (name == "punct") return category_set("P") + category_set("S");
  if (name == "cntrl") return "\\p{Cc}";
  if (name == "xdigit") return std::string(kHexDigits);
  static constexpr std::string_view known[] = {"alpha", "digit", "alnum", "upper", "lower", "space", "word"};
  if (std::find(std::begin(known), std::end(known), name) == std::end(known)) {
    throw errorf("set '[:{}:]' is not supported", name);
  }
  return property_set(name);
}

// A set of characters, by the text between its brackets.
struct Set {
  std::string members;
  bool negated = false;
};

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : rest_(pattern) {}

  std::string run() {
    while (!rest_.empty()) {
      const char c = rest_[0];
      if (c == '\\') {
        outside_escape();
      } else if (c == '[') {
        out_ += set();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        repeat();
      } else {
        out_ += c;
        rest_.remove_prefix(1);
      }
    }
    return std::move(out_);
  }

 private:
  // \s, \W, \p{L} … as a set; nothing where the escape is something else.
  std::optional<Set> escaped_set(bool in_set) {
    if (rest_.size() < 2) return std::nullopt;
    const char c = rest_[1];
    Set found;
    switch (c) {
      case 's':
      case 'S': found = {std::string(kSpaces), c == 'S'}; break;
      case 'w':
      case 'W': found = {word_set(in_set), c == 'W'}; break;
      case 'd':
      case 'D': found = {category_set("Nd"), c == 'D'}; break;
      case 'h':
      case 'H': found = {std::string(kHexDigits), c == 'H'}; break;
      case 'p':
      case 'P': {
        if (rest_.size() < 3 || rest_[2] != '{') return std::nullopt;
        const size_t close = rest_.find('}');
        if (close == std::string_view::npos) throw errorf("'\\{}{{' is not closed", c);
        std::string_view name = rest_.substr(3, close - 3);
        found.negated = c == 'P';
        if (name.starts_with('^')) found.negated = !found.negated, name.remove_prefix(1);
        found.members = property_set(name);
        rest_.remove_prefix(close + 1);
        return found;
      }
      default: return std::nullopt;
    }
    rest_.remove_prefix(2);
    return found;
  }

  // An escape that means one character, or something that both engines read the same way.
  std::string plain_escape(bool in_set) {
    if (rest_.size() < 2) throw errorf("the expression ends in a backslash");
    const char c = rest_[1];
    std::string out = std::string(rest_.substr(0, 2));
    rest_.remove_prefix(2);
    if (c == 'u') {
      if (rest_.size() < 4) throw errorf("'\\u' needs four digits");
      out = fmt::format("\\x{{{}}}", rest_.substr(0, 4));
      rest_.remove_prefix(4);
    } else if (c == 'v') {
      out = "\\x0b";
    } else if (c == 'p' || c == 'P' || c == 'Q' || c == 'E') {
      out = c;
    } else if (c == 'O' && !in_set) {
      out = kAnything;
    } else if ((c == 'y' || c == 'Y') && !in_set) {
      throw errorf("'\\{}' is not supported", c);
    }
    return out;
  }

  void outside_escape() {
    if (const auto found = escaped_set(false)) {
      out_ += (found->negated ? "[^" : "[") + found->members + "]";
      return;
    }
    if (rest_.size() > 1 && (rest_[1] == 'b' || rest_[1] == 'B')) {
      const std::string word = "[" + word_set(false) + "]", no = rest_[1] == 'b' ? "" : "!";
      const std::string edge = fmt::format("(?<={0})(?!{0})|(?<!{0})(?={0})", word);
      out_ += no.empty() ? "(?:" + edge + ")" : "(?!" + edge + ")";
      rest_.remove_prefix(2);
      return;
    }
    out_ += plain_escape(false);
  }

  // rest_ starts with '['. A plain set stays one; with sets inside it becomes alternatives of one character each.
  std::string set() {
    rest_.remove_prefix(1);
    if (++depth_ > 50) throw errorf("sets are nested too deeply");
    const bool negated = rest_.starts_with('^');
    if (negated) rest_.remove_prefix(1);
    std::vector<std::string> parts;  // of an intersection
    std::string members, others;     // of the part at hand: what fits in brackets, and "|…" what does not
    bool first = true, after_set = false;
    const auto close_part = [&] {
      std::string part =
          members.empty() ? others.substr(others.empty() ? 0 : 1) : "[" + members + "]" + others;
      if (part.empty()) part = "(?!)";
      parts.push_back(others.empty() && !members.empty() ? part : "(?:" + part + ")");
    };
    for (;; first = false) {
      if (rest_.empty()) throw errorf("a set '[' is not closed");
      if (rest_[0] == ']' && !first) break;
      if (rest_.starts_with("[:")) {
        const size_t end = rest_.find(":]");
        if (end != std::string_view::npos) {
          const bool is_not = rest_.substr(2).starts_with('^');
          const std::string inner = posix_set(rest_.substr(is_not ? 3 : 2, end - (is_not ? 3 : 2)));
          is_not ? others += "|[^" + inner + "]" : members += inner;
          rest_.remove_prefix(end + 2);
          after_set = true;
          continue;
        }
      }
      if (rest_[0] == '[') {
        others += "|" + set();
      } else if (rest_.starts_with("&&")) {
        rest_.remove_prefix(2);
        close_part();
        members.clear(), others.clear();
      } else if (rest_[0] == '\\') {
        if (const auto found = escaped_set(true)) {
          found->negated ? others += "|[^" + found->members + "]" : members += found->members;
          after_set = true;
          continue;
        } else {
          members += plain_escape(true);
        }
      } else {
        // What would end, negate or (after \s and the like) stretch the set is a plain character here.
        if (rest_[0] == ']' || rest_[0] == '^' || (rest_[0] == '-' && after_set)) members += '\\';
        members += rest_[0];
        rest_.remove_prefix(1);
      }
      after_set = false;
    }
    rest_.remove_prefix(1);
    --depth_;
    if (parts.empty() && others.empty()) return (negated ? "[^" : "[") + members + "]";
    close_part();
    std::string all;
    for (size_t i = 1; i < parts.size(); ++i) all += "(?=" + parts[i] + ")";
    all += parts[0];
    return negated ? fmt::format("(?:(?!{}){})", all, kAnything) : "(?:" + all + ")";
  }

  // (?m) lets a dot match line ends, which PCRE2 calls (?s).
  void group() {
    const bool options = rest_.starts_with("(?") && rest_.size() > 2 &&
                         std::string_view("imx-").find(rest_[2]) != std::string_view::npos;
    const size_t end = options ? std::min(rest_.find_first_not_of("imx-", 2), rest_.size()) : 1;
    for (char c : rest_.substr(0, end)) out_ += options && c == 'm' ? 's' : c;
    rest_.remove_prefix(end);
  }

  // {,3} is {0,3}; {1,3}+ repeats the repetition, where PCRE2 would take it for a possessive one.
  void repeat() {
    const size_t end = std::min(rest_.find_first_not_of("0123456789,", 1), rest_.size());
    const bool closed = end > 1 && end < rest_.size() && rest_[end] == '}' && rest_.substr(1, end - 1) != ",";
    if (!closed) {
      out_ += "\\{";
      rest_.remove_prefix(1);
      return;
    }
    if (rest_.substr(end + 1).starts_with('+'))
      throw errorf("'{}' is not supported", rest_.substr(0, end + 2));
    out_ += rest_[1] == ',' ? "{0" : "{";
    out_ += rest_.substr(1, end);
    rest_.remove_prefix(end + 1);
  }

  std::string_view rest_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string to_pcre(std::string_view pattern) {
  try {
    return Rewriter(pattern).run();
  } catch (Error& e) {
    if (e.found().empty()) e.found(std::string(pattern));
    throw;
  }
}

}  // namespace anemone
