// Methods of strings that split, strip and change case; methods_search.cpp has those that look for text.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

using S = const Value&;
using A = const Args&;
using R = Runtime&;

Value text_like(R rt, S self, std::string text) { return rt.str(std::move(text), self.str().markup); }

bool in_set(const std::vector<char32_t>& set, char32_t c) {
  return std::find(set.begin(), set.end(), c) != set.end();
}

std::string_view strip_chars(std::string_view text, const std::string& chars, bool left, bool right) {
  std::vector<char32_t> set;
  for (size_t i = 0; i < chars.size();) {
    const CodePoint c = decode_at(chars, i);
    set.push_back(c.value);
    i += c.bytes;
  }
  while (left && !text.empty()) {
    const CodePoint c = decode_at(text, 0);
    if (!in_set(set, c.value)) break;
    text.remove_prefix(c.bytes);
  }
  while (right && !text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && (text[start] & 0xc0) == 0x80 && text.size() - start < 4) --start;
    CodePoint c = decode_at(text, start);
    if (start + c.bytes != text.size()) c = decode_at(text, text.size() - 1);
    if (!in_set(set, c.value)) break;
    text.remove_suffix(c.bytes);
  }
  return text;
}

Value strip(R rt, S self, A args, const char* name, bool left, bool right) {
  const Params p(args, name, {"chars"});
  std::string_view text = self.text();
  if (p.given(0)) {
    const std::string& chars = p.string(0);
    rt.step((text.size() * (chars.size() + 1)) / 64);
    text = strip_chars(text, chars, left, right);
  } else {
    if (left) text = strip_left(text);
    if (right) text = strip_right(text);
  }
  return text_like(rt, self, std::string(text));
}

// Splits at runs of whitespace; `limit` < 0: everywhere.
std::vector<std::string_view> split_blanks(std::string_view text, int64_t limit) {
  std::vector<std::string_view> out;
  text = strip_left(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(out.size()) >= limit) {
      out.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint c = decode_at(text, end);
      if (is_space(c.value)) break;
      end += c.bytes;
    }
    out.push_back(text.substr(0, end));
    text = strip_left(text.substr(end));
  }
  return out;
}

// The same from the right.
std::vector<std::string_view> rsplit_blanks(std::string_view text, int64_t limit) {
  if (limit < 0) return split_blanks(text, limit);
  std::vector<std::string_view> words = split_blanks(text, -1);
  if (static_cast<int64_t>(words.size()) <= limit) return words;
  const auto kept = static_cast<size_t>(limit);
  text = strip_right(text);
  for (size_t i = 0; i < kept; ++i)
    text = strip_right(text.substr(0, text.size() - words[words.size() - 1 - i].size()));
  std::vector<std::string_view> out(words.end() - static_cast<std::ptrdiff_t>(kept), words.end());
  if (!text.empty()) out.insert(out.begin(), text);
  return out;
}

std::vector<std::string_view> split_at(std::string_view text, const std::string& separator, int64_t limit,
                                       bool from_right) {
  std::vector<std::string_view> out;
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    out.push_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
  }
  out.push_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

Value list_of(R rt, S self, const std::vector<std::string_view>& parts) {
  std::vector<Value> out;
  out.reserve(parts.size());
  for (const std::string_view part : parts) out.push_back(text_like(rt, self, std::string(part)));
  return rt.list(std::move(out));
}

Value split(R rt, S self, A args, const char* name, bool from_right) {
  const Params p(args, name, {"sep", "maxsplit"});
  const int64_t limit = p.integer(1, -1);
  rt.charge(self.text().size() * 2);
  if (!p.given(0)) {
    return list_of(rt, self,
                   from_right ? rsplit_blanks(self.text(), limit) : split_blanks(self.text(), limit));
  }
  const std::string& separator = p.string(0);
  if (separator.empty()) throw errorf("{}: empty separator", name);
  charge_search(rt, self.text(), separator);
  return list_of(rt, self, split_at(self.text(), separator, limit, from_right));
}

Value method_splitlines(R rt, S self, A args) {
  const Params p(args, "splitlines", {"keepends"});
  rt.charge(self.text().size());
  return list_of(rt, self, split_lines(self.text(), p.flag(rt, 0)));
}

Value pad(R rt, S self, A args, const char* name, int where) {
  const Params p(args, name, {"width", "fillchar"}, 1);
  const std::string fill = p.has(1) ? p.string(1) : " ";
  if (code_points(fill) != 1) throw errorf("{}: the fill character must be exactly one character", name);
  const int64_t missing = p.integer(0, 0) - static_cast<int64_t>(rt.need_length(self));
  if (missing <= 0) return self;
  rt.check_size(static_cast<uint64_t>(missing) * fill.size());
  // Python puts the odd blank of center() on the left where the width is odd.
  const int64_t left = where < 0 ? 0 : where > 0 ? missing : missing / 2 + (missing & p.integer(0, 0) & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (int64_t i = left; i < missing; ++i) out += fill;
  return text_like(rt, self, std::move(out));
}

Value method_zfill(R rt, S self, A args) {
  const Params p(args, "zfill", {"width"}, 1);
  const int64_t missing = p.integer(0, 0) - static_cast<int64_t>(rt.need_length(self));
  if (missing <= 0) return self;
  rt.check_size(static_cast<uint64_t>(missing));
  const std::string& s = self.text();
  const size_t sign = !s.empty() && (s[0] == '-' || s[0] == '+') ? 1 : 0;
  return text_like(rt, self,
                   s.substr(0, sign) + std::string(static_cast<size_t>(missing), '0') + s.substr(sign));
}

Value method_join(R rt, S self, A args) {
  const Params p(args, "join", {"iterable"}, 1);
  std::string out;
  bool first = true;
  Iter it(rt, p[0]);
  for (Value item; it.next(item); first = false) {
    if (!item.is_string()) throw errorf("join: an item is of type {}, not a string", item.type_name());
    if (!first) out += self.text();
    out += item.text();
    rt.check_size(out.size());
    rt.step((self.text().size() + item.text().size()) / 64);
  }
  return text_like(rt, self, std::move(out));
}

Value method_expandtabs(R rt, S self, A args) {
  const Params p(args, "expandtabs", {"tabsize"});
  const int64_t size = std::clamp<int64_t>(p.integer(0, 8), 0, 1 << 16);
  std::string out;
  int64_t column = 0;
  for (const char c : self.text()) {
    if (c == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      rt.check_size(out.size());
      rt.step();
    } else {
      out += c;
      column = c == '\n' || c == '\r' ? 0 : column + ((c & 0xc0) != 0x80 ? 1 : 0);
    }
  }
  return text_like(rt, self, std::move(out));
}

template <std::string (*change)(std::string_view)>
Value change_case(R rt, S self, A args) {
  const Params p(args, "this method", {});
  rt.step(self.text().size() / 8);
  return text_like(rt, self, change(self.text()));
}

Value method_format(R rt, S self, A args) { return text_like(rt, self, brace_format(rt, self.text(), args)); }

Value method_format_map(R rt, S self, A args) {
  const Params p(args, "format_map", {"mapping"}, 1);
  if (!p[0].is_dict()) throw errorf("format_map needs a mapping, not {}", p[0].type_name());
  Args named;
  for (const auto& [key, value] : p[0].dict().entries) {
    if (key.is_string()) named.named.emplace_back(key.text(), value);
  }
  return text_like(rt, self, brace_format(rt, self.text(), named));
}

constexpr Named<Method> kMethods[] = {
    {"strip", [](R rt, S s, A a) { return strip(rt, s, a, "strip", true, true); }},
    {"lstrip", [](R rt, S s, A a) { return strip(rt, s, a, "lstrip", true, false); }},
    {"rstrip", [](R rt, S s, A a) { return strip(rt, s, a, "rstrip", false, true); }},
    {"split", [](R rt, S s, A a) { return split(rt, s, a, "split", false); }},
    {"rsplit", [](R rt, S s, A a) { return split(rt, s, a, "rsplit", true); }},
    {"splitlines", method_splitlines},
    {"ljust", [](R rt, S s, A a) { return pad(rt, s, a, "ljust", -1); }},
    {"rjust", [](R rt, S s, A a) { return pad(rt, s, a, "rjust", 1); }},
    {"center", [](R rt, S s, A a) { return pad(rt, s, a, "center", 0); }},
    {"zfill", method_zfill},
    {"join", method_join},
    {"expandtabs", method_expandtabs},
    {"upper", change_case<upper>},
    {"lower", change_case<lower>},
    {"title", change_case<title>},
    {"capitalize", change_case<capitalize>},
    {"swapcase", change_case<swapcase>},
    {"casefold", change_case<casefold>},
    {"format", method_format},
    {"format_map", method_format_map},
};

}  // namespace

std::span<const Named<Method>> string_methods() { return kMethods; }

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text, i);
    if (!is_line_break(c.value)) {
      i += c.bytes;
      continue;
    }
    const size_t end = i;
    i += c.bytes;
    if (c.value == '\r' && i < text.size() && text[i] == '\n') ++i;
    out.push_back(text.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

}  // namespace anemone::jinja
