#include "text/tokenizer/scanner.h"

#include <string>

#include "text/unicode.h"

namespace anemone {
namespace {

using Bits = unsigned short;

constexpr Bits kUpperLike = kUpper | kTitle | kModifierLetter | kOtherLetter | kMark;
constexpr Bits kLowerLike = kLower | kModifierLetter | kOtherLetter | kMark;

// Classes of the character at p, which moves past it.
inline Bits next_class(const char*& p, const char* end) noexcept { return class_of(decode_utf8(p, end)); }

inline bool accepts(Bits c, Bits in, Bits out) noexcept {
  return (in == 0 || (c & in) != 0) && (c & out) == 0;
}

const char* skip(const char* p, const char* end, Bits in, Bits out) noexcept {
  while (p < end) {
    const char* next = p;
    if (!accepts(next_class(next, end), in, out)) break;
    p = next;
  }
  return p;
}

size_t match_contraction(const char* p, const char* end, bool any_case) noexcept {
  if (end - p < 2 || *p != '\'') return 0;
  const auto at = [&](int i) -> char {
    if (end - p <= i) return 0;
    return any_case && p[i] >= 'A' && p[i] <= 'Z' ? static_cast<char>(p[i] + 32) : p[i];
  };
  switch (at(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return at(2) == 'e' ? 3 : 0;
    case 'l': return at(2) == 'l' ? 3 : 0;
    default: break;
  }
  // U+017F, the long s, is an s when case is folded.
  return any_case && end - p > 2 && p[1] == '\xc5' && p[2] == '\xbf' ? 3 : 0;
}

// "\s*[\r\n]+" and "\s*[\r\n]": the white space up to the last line end of the run. \s* takes all of it at once.
size_t match_newlines(const char* p, const char* end) noexcept {
  const char* const start = p;
  const char* last = nullptr;
  while (p < end) {
    const Bits c = next_class(p, end);
    if (!(c & kSpace)) break;
    if (c & kNewline) last = p;
  }
  return last != nullptr ? static_cast<size_t>(last - start) : 0;
}

size_t match_spaces_before_end(const char* p, const char* end) noexcept {
  const char* const start = p;
  const char* before = p;  // start of the last white space
  while (p < end) {
    const char* next = p;
    if (!(next_class(next, end) & kSpace)) break;
    before = p;
    p = next;
  }
  return static_cast<size_t>((p == end ? p : before) - start);
}

// [upper-like]*[lower-like]+ : both classes share the uncased letters and marks, so the first run gives characters back
// until the second has one.
size_t match_upper_then_lower(const char* p, const char* end) noexcept {
  const char* const start = p;
  // After the last character of the first run that the second could also take.
  const char* shared_end = nullptr;
  const char* q = p;
  while (q < end) {
    const char* next = q;
    const Bits c = next_class(next, end);
    if (!(c & kUpperLike)) break;
    if (c & kLowerLike) shared_end = next;
    q = next;
  }
  const char* const after = skip(q, end, kLowerLike, 0);
  if (after > q) return static_cast<size_t>(after - start);
  return shared_end != nullptr ? static_cast<size_t>(shared_end - start) : 0;
}

size_t match_upper_run(const char* p, const char* end) noexcept {
  const char* const q = skip(p, end, kUpperLike, 0);
  return q == p ? 0 : static_cast<size_t>(skip(q, end, kLowerLike, 0) - p);
}

// "[^\r\n\p{L}\p{N}]?" before one of the above, then perhaps a contraction.
size_t match_cased(const char* p, const char* end, bool lower, bool suffix) noexcept {
  const auto word = lower ? match_upper_then_lower : match_upper_run;
  const char* body = p;
  size_t n = 0;
  if (!(next_class(body, end) & (kNewline | kLetter | kNumeral)) && body < end) n = word(body, end);
  if (n == 0) {
    body = p;
    n = word(body, end);
  }
  if (n == 0) return 0;
  const char* after = body + n;
  if (suffix && after < end) after += match_contraction(after, end, true);
  return static_cast<size_t>(after - p);
}

size_t match_punctuated(const char* p, const char* end) noexcept {
  const auto c = static_cast<unsigned char>(*p);
  const bool punctuation =
      (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  if (!punctuation) return 0;
  const char* q = p + 1;
  while (q < end && ((*q >= 'a' && *q <= 'z') || (*q >= 'A' && *q <= 'Z'))) ++q;
  return q - p > 1 ? static_cast<size_t>(q - p) : 0;
}

size_t match_cjk(const char* p, const char* end) noexcept {
  const char* q = p;
  while (q < end) {
    const char* next = q;
    const char32_t c = decode_utf8(next, end);
    if (!((c >= 0x4e00 && c <= 0x9fa5) || (c >= 0x3040 && c <= 0x30ff))) break;
    q = next;
  }
  return static_cast<size_t>(q - p);
}

// Line ends written as themselves become escapes, so that one spelling is enough below.
std::string unify(std::string_view regex) {
  std::string out;
  for (char c : regex) {
    if (c == '\r')
      out += "\\r";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::vector<std::string_view> split_alternatives(std::string_view regex) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool in_class = false;
  size_t start = 0;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    } else if (c == '|' && depth == 0) {
      parts.push_back(regex.substr(start, i - start));
      start = i + 1;
    }
  }
  parts.push_back(regex.substr(start));
  return parts;
}

constexpr std::string_view kUpperThenLower =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+";
constexpr std::string_view kUpperRun =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*";
constexpr std::string_view kContraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";

}  // namespace

std::optional<Scanner> Scanner::recognise(std::string_view regex) {
  const std::string unified = unify(regex);
  std::string_view rest = unified;
  Scanner scanner;
  constexpr std::string_view plain = "'s|'t|'re|'ve|'m|'ll|'d";
  if (rest.starts_with(plain) && rest.size() > plain.size() && rest[plain.size()] == '|') {
    scanner.rules_.push_back({Rule::contraction});
    rest.remove_prefix(plain.size() + 1);
  }
  for (std::string_view part : split_alternatives(rest)) {
    if (!add(part, scanner.rules_)) return std::nullopt;
  }
  return scanner;
}

bool Scanner::add(std::string_view s, std::vector<Alternative>& rules) {
  constexpr Bits other = kSpace | kLetter | kNumeral;
  constexpr Bits no_lead = kNewline | kLetter | kNumeral;
  struct Known {
    std::string_view text;
    Alternative rule;
  };
  static const Known known[] = {
      {kContraction, {Rule::contraction_any_case}},
      {"'(?i:[sdmt]|ll|ve|re)", {Rule::contraction_any_case}},
      {" ?\\p{L}+", {Rule::space_run, kLetter}},
      {" ?\\p{N}+", {Rule::space_run, kNumeral}},
      {" ?[^\\s\\p{L}\\p{N}]+", {Rule::space_run, 0, other}},
      {" ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*", {Rule::space_run, 0, other, 0, 0, 1}},
      {" ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*", {Rule::space_run, 0, other, 0, 0, 1}},
      {" ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*", {Rule::space_run, 0, other, 0, 0, 2}},
      {" ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*", {Rule::space_run, 0, other | kMark, 0, 0, 1}},
      {" ?[\\p{P}\\p{S}]+[\\r\\n]*", {Rule::space_run, kPunctuation | kSymbol, 0, 0, 0, 1}},
      {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+", {Rule::lead_run, kLetter, 0, no_lead}},
      {"[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+", {Rule::lead_run, kLetter, 0, no_lead}},
      {"[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+", {Rule::lead_run, kLetter | kMark, 0, no_lead}},
      {"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+",
       {Rule::lead_run, kLetter | kMark, 0, kNewline | kLetter | kPunctuation | kSymbol}},
      {"\\p{N}", {Rule::numbers, kNumeral, 0, 0, 1}},
      {"\\p{N}{1}", {Rule::numbers, kNumeral, 0, 0, 1}},
      {"\\p{N}{1,3}", {Rule::numbers, kNumeral, 0, 0, 3}},
      {"\\p{N}+", {Rule::numbers, kNumeral, 0, 0, 0}},
      {"\\p{L}+", {Rule::numbers, kLetter, 0, 0, 0}},
      {kUpperThenLower, {Rule::cased_lower}},
      {kUpperRun, {Rule::cased_upper}},
      {"\\s*[\\r\\n]+", {Rule::newlines}},
      {"\\s*[\\r\\n]", {Rule::newlines}},
      {"\\s+(?!\\S)", {Rule::spaces_before_end}},
      {"\\s+", {Rule::spaces}},
      {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+", {Rule::punctuated_ascii}},
      {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", {Rule::cjk}},
  };
  for (const Known& k : known) {
    if (k.text == s) {
      rules.push_back(k.rule);
      return true;
    }
  }
  const std::string optional_contraction = std::string(kContraction) + "?";
  if (s == std::string(kUpperThenLower) + optional_contraction) {
    rules.push_back({.rule = Rule::cased_lower, .suffix = true});
  } else if (s == std::string(kUpperRun) + optional_contraction) {
    rules.push_back({.rule = Rule::cased_upper, .suffix = true});
  } else {
    return false;
  }
  return true;
}

size_t Scanner::match(const char* p, const char* end) const noexcept {
  for (const Alternative& a : rules_) {
    if (const size_t n = apply(a, p, end)) return n;
  }
  return 0;
}

size_t Scanner::apply(const Alternative& a, const char* p, const char* end) noexcept {
  switch (a.rule) {
    case Rule::contraction: return match_contraction(p, end, false);
    case Rule::contraction_any_case: return match_contraction(p, end, true);
    case Rule::space_run: {
      const char* const from = p + (*p == ' ');
      const char* to = skip(from, end, a.in, a.out);
      if (to == from) return 0;
      while (a.tail != 0 && to < end && (*to == '\r' || *to == '\n' || (a.tail == 2 && *to == '/'))) ++to;
      return static_cast<size_t>(to - p);
    }
    case Rule::lead_run: {
      const char* from = p;
      const Bits c = next_class(from, end);
      const bool lead = (c & a.not_lead) == 0;
      const char* to = lead ? skip(from, end, a.in, a.out) : from;
      if (lead && to > from) return static_cast<size_t>(to - p);
      // No character, or none that the run could follow, leads: the run starts here.
      return accepts(c, a.in, a.out) ? static_cast<size_t>(skip(p, end, a.in, a.out) - p) : 0;
    }
    case Rule::numbers: {
      const char* to = p;
      for (int n = 0; to < end && (a.max == 0 || n < a.max); ++n) {
        const char* next = to;
        if (!(next_class(next, end) & a.in)) break;
        to = next;
      }
      return static_cast<size_t>(to - p);
    }
    case Rule::cased_lower: return match_cased(p, end, true, a.suffix);
    case Rule::cased_upper: return match_cased(p, end, false, a.suffix);
    case Rule::newlines: return match_newlines(p, end);
    case Rule::spaces_before_end: return match_spaces_before_end(p, end);
    case Rule::spaces: return static_cast<size_t>(skip(p, end, kSpace, 0) - p);
    case Rule::punctuated_ascii: return match_punctuated(p, end);
    case Rule::cjk: return match_cjk(p, end);
  }
  return 0;
}

}  // namespace anemone
