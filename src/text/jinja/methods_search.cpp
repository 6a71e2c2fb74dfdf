// Methods of strings that look for text or ask what a string is made of; methods of lists, tuples, dicts, numbers.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/objects.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

using S = const Value&;
using A = const Args&;
using R = Runtime&;
using MethodTable = std::unordered_map<std::string_view, Method>;

Value text_like(R rt, S self, std::string text) { return rt.str(std::move(text), self.str().markup); }

// The window text[start:end] that find, count, startswith and their like take, in bytes.
struct Window {
  std::string_view text;
  size_t offset = 0;  // of the window, in code points
  bool valid = true;  // false: start lies past the end
};

Window window(R rt, S self, const Params& p, size_t first) {
  const std::string_view all = self.text();
  if (!p.given(first) && !p.given(first + 1)) return {all};
  rt.step(all.size() / 8);
  const auto n = static_cast<int64_t>(rt.need_length(self));
  const auto index = [&](size_t i, int64_t absent) {
    const int64_t v = p.given(i) ? p.integer(i, 0) : absent;
    return v < 0 ? std::max<int64_t>(0, std::max(v, -n) + n) : v;
  };
  const int64_t start = index(first, 0), end = std::min(index(first + 1, n), n);
  if (start > n) return {{}, 0, false};
  const size_t from = byte_offset(all, static_cast<size_t>(start));
  const size_t to = byte_offset(all, static_cast<size_t>(end));
  return {all.substr(from, to > from ? to - from : 0), static_cast<size_t>(start), start <= end};
}

int64_t find_in(R rt, S self, A args, const char* name, bool last) {
  const Params p(args, name, {"sub", "start", "end"}, 1);
  const std::string& needle = p.string(0);
  const Window w = window(rt, self, p, 1);
  if (!w.valid) return -1;
  charge_search(rt, w.text, needle);
  const size_t at = last ? w.text.rfind(needle) : w.text.find(needle);
  if (at == std::string_view::npos) return -1;
  return static_cast<int64_t>(w.offset + code_points(w.text.substr(0, at)));
}

int64_t index_in(R rt, S self, A args, const char* name, bool last) {
  const int64_t at = find_in(rt, self, args, name, last);
  if (at < 0) throw errorf("{}: the substring is not found", name);
  return at;
}

Value method_count(R rt, S self, A args) {
  const Params p(args, "count", {"sub", "start", "end"}, 1);
  const std::string& needle = p.string(0);
  const Window w = window(rt, self, p, 1);
  if (!w.valid) return Value(0);
  if (needle.empty()) return Value(static_cast<int64_t>(code_points(w.text)) + 1);
  charge_search(rt, w.text, needle);
  int64_t n = 0;
  for (size_t at = w.text.find(needle); at != std::string_view::npos;
       at = w.text.find(needle, at + needle.size()))
    ++n;
  return Value(n);
}

Value affix(R rt, S self, A args, const char* name, bool prefix) {
  const Params p(args, name, {"affix", "start", "end"}, 1);
  const Window w = window(rt, self, p, 1);
  const auto matches = [&](const Value& v) {
    refuse_undefined(v);
    if (!v.is_string()) throw errorf("{}: the first argument must be a string or a tuple of strings", name);
    return w.valid && (prefix ? w.text.starts_with(v.text()) : w.text.ends_with(v.text()));
  };
  if (!p[0].is_tuple()) return Value(matches(p[0]));
  return Value(std::any_of(p[0].items().begin(), p[0].items().end(), matches));
}

Value remove_affix(R rt, S self, A args, const char* name, bool prefix) {
  const Params p(args, name, {"affix"}, 1);
  const std::string_view text = self.text();
  const std::string& part = p.string(0);
  if (prefix && text.starts_with(part)) return text_like(rt, self, std::string(text.substr(part.size())));
  if (!prefix && text.ends_with(part)) {
    return text_like(rt, self, std::string(text.substr(0, text.size() - part.size())));
  }
  return self;
}

Value method_replace(R rt, S self, A args) {
  const Params p(args, "replace", {"old", "new", "count"}, 2);
  return text_like(rt, self, replace_text(rt, self.text(), p.string(0), p.string(1), p.integer(2, -1)));
}

Value partition(R rt, S self, A args, const char* name, bool last) {
  const Params p(args, name, {"sep"}, 1);
  const std::string& separator = p.string(0);
  if (separator.empty()) throw errorf("{}: empty separator", name);
  charge_search(rt, self.text(), separator);
  const std::string& s = self.text();
  const size_t at = last ? s.rfind(separator) : s.find(separator);
  const auto text = [&](std::string part) { return text_like(rt, self, std::move(part)); };
  if (at == std::string::npos) {
    return last ? rt.tuple({text(""), text(""), self}) : rt.tuple({self, text(""), text("")});
  }
  return rt.tuple({text(s.substr(0, at)), text(separator), text(s.substr(at + separator.size()))});
}

// Text with at least one character, all of which satisfy the predicate.
template <bool (*predicate)(char32_t)>
Value all_are(R rt, S self, A args) {
  const Params p(args, "this method", {});
  const std::string& s = self.text();
  rt.step(s.size() / 8);
  for (size_t i = 0; i < s.size();) {
    const CodePoint c = decode_at(s, i);
    if (c.value > 0x10ffff || !predicate(c.value)) return Value(false);
    i += c.bytes;
  }
  return Value(!s.empty());
}

bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

// isupper and islower: some letter of the case, none of the other.
template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
Value cased(R rt, S self, A) {
  rt.step(self.text().size() / 8);
  bool any = false;
  for (size_t i = 0; i < self.text().size();) {
    const CodePoint c = decode_at(self.text(), i);
    if (other(c.value) || is_title(c.value)) return Value(false);
    any |= wanted(c.value);
    i += c.bytes;
  }
  return Value(any);
}

Value method_istitle(R rt, S self, A) {
  rt.step(self.text().size() / 8);
  bool any = false, in_word = false;
  for (size_t i = 0; i < self.text().size();) {
    const CodePoint c = decode_at(self.text(), i);
    const bool big = is_upper(c.value) || is_title(c.value), small = is_lower(c.value);
    if ((big && in_word) || (small && !in_word)) return Value(false);
    any |= big || small;
    in_word = big || small;
    i += c.bytes;
  }
  return Value(any);
}

Value method_isidentifier(R, S self, A) {
  const std::string& s = self.text();
  for (size_t i = 0; i < s.size();) {
    const CodePoint c = decode_at(s, i);
    if (!is_word(c.value) || (i == 0 && is_numeric(c.value))) return Value(false);
    i += c.bytes;
  }
  return Value(!s.empty());
}

Value method_isascii(R, S self, A) { return Value(self.str().ascii); }
Value method_isprintable(R rt, S self, A args) {
  return self.text().empty() ? Value(true) : all_are<is_printable>(rt, self, args);
}

constexpr Named<Method> kStringMethods[] = {
    {"find", [](R rt, S s, A a) { return Value(find_in(rt, s, a, "find", false)); }},
    {"rfind", [](R rt, S s, A a) { return Value(find_in(rt, s, a, "rfind", true)); }},
    {"index", [](R rt, S s, A a) { return Value(index_in(rt, s, a, "index", false)); }},
    {"rindex", [](R rt, S s, A a) { return Value(index_in(rt, s, a, "rindex", true)); }},
    {"count", method_count},
    {"startswith", [](R rt, S s, A a) { return affix(rt, s, a, "startswith", true); }},
    {"endswith", [](R rt, S s, A a) { return affix(rt, s, a, "endswith", false); }},
    {"removeprefix", [](R rt, S s, A a) { return remove_affix(rt, s, a, "removeprefix", true); }},
    {"removesuffix", [](R rt, S s, A a) { return remove_affix(rt, s, a, "removesuffix", false); }},
    {"replace", method_replace},
    {"partition", [](R rt, S s, A a) { return partition(rt, s, a, "partition", false); }},
    {"rpartition", [](R rt, S s, A a) { return partition(rt, s, a, "rpartition", true); }},
    {"isalpha", all_are<is_alpha>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_decimal>},
    {"isnumeric", all_are<is_numeric>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<is_space>},
    {"isupper", cased<is_upper, is_lower>},
    {"islower", cased<is_lower, is_upper>},
    {"istitle", method_istitle},
    {"isascii", method_isascii},
    {"isidentifier", method_isidentifier},
    {"isprintable", method_isprintable},
};

Value sequence_index(R rt, S self, A args) {
  const Params p(args, "index", {"value", "start", "end"}, 1);
  const Value found = rt.slice(self, p.get(1), p.get(2), Value());
  const auto n = static_cast<int64_t>(self.items().size());
  const int64_t start = p.integer(1, 0);
  for (size_t i = 0; i < found.items().size(); ++i) {
    if (rt.equal(found.items()[i], p[0])) {
      return Value(static_cast<int64_t>(i) + (start < 0 ? std::max<int64_t>(0, start + n) : start));
    }
  }
  throw errorf("{} is not in the {}", rt.repr(p[0]), self.type_name());
}

Value sequence_count(R rt, S self, A args) {
  const Params p(args, "count", {"value"}, 1);
  int64_t n = 0;
  for (const Value& v : self.items()) n += rt.equal(v, p[0]) ? 1 : 0;
  return Value(n);
}

Value same(R, S self, A args) {
  const Params p(args, "copy", {});
  return self;
}

Value dict_view(R rt, S self, A args, std::string_view type) {
  const Params p(args, type, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries) {
    rt.push(items, type == "dict_items" ? rt.tuple({key, value}) : type == "dict_keys" ? key : value);
  }
  return Value(rt.make<DictView>(type, std::move(items)));
}

Value dict_get(R, S self, A args) {
  const Params p(args, "get", {"key", "default"}, 1);
  if (!hashable(p[0])) throw errorf("a {} cannot be the key of a dict", p[0].type_name());
  const Value* found = self.dict().find(p[0]);
  return found ? *found : p.get(1);
}

Value float_is_integer(R, S self, A args) {
  const Params p(args, "is_integer", {});
  return Value(!self.is_float() || std::floor(self.as_double()) == self.as_double());
}

Value int_bit_length(R, S self, A args) {
  const Params p(args, "bit_length", {});
  int n = 0;
  for (uint64_t u = self.as_int() < 0 ? 0 - static_cast<uint64_t>(self.as_int())
                                      : static_cast<uint64_t>(self.as_int());
       u > 0; u >>= 1) {
    ++n;
  }
  return Value(n);
}

MethodTable make_string_table() {
  MethodTable table;
  for (const auto& group : {string_methods(), string_search_methods()}) {
    for (const Named<Method>& m : group) table.emplace(m.name, m.function);
  }
  return table;
}

}  // namespace

std::span<const Named<Method>> string_search_methods() { return kStringMethods; }

std::string replace_text(Runtime& rt, const std::string& text, const std::string& old,
                         const std::string& with, int64_t limit) {
  std::string out;
  int64_t done = 0;
  const auto put = [&](std::string_view part) {
    rt.check_size(out.size() + part.size());
    rt.step(part.size() / 64);
    out += part;
  };
  if (old.empty()) {  // between all characters, and at both ends
    for (size_t i = 0; i <= text.size();) {
      if (limit < 0 || done < limit) put(with);
      ++done;
      if (i == text.size()) break;
      const size_t n = decode_at(text, i).bytes;
      put(std::string_view(text).substr(i, n));
      i += n;
    }
    return out;
  }
  charge_search(rt, text, old);
  size_t begin = 0;
  for (; limit < 0 || done < limit; ++done) {
    const size_t at = text.find(old, begin);
    if (at == std::string::npos) break;
    put(std::string_view(text).substr(begin, at - begin));
    put(with);
    begin = at + old.size();
  }
  put(std::string_view(text).substr(begin));
  return out;
}

Method find_method(const Value& v, std::string_view name) {
  static const MethodTable strings = make_string_table();
  static const MethodTable lists = {{"index", sequence_index}, {"count", sequence_count}, {"copy", same}};
  static const MethodTable tuples = {{"index", sequence_index}, {"count", sequence_count}};
  static const MethodTable dicts = {
      {"get", dict_get},
      {"copy", same},
      {"items", [](R rt, S s, A a) { return dict_view(rt, s, a, "dict_items"); }},
      {"keys", [](R rt, S s, A a) { return dict_view(rt, s, a, "dict_keys"); }},
      {"values", [](R rt, S s, A a) { return dict_view(rt, s, a, "dict_values"); }}};
  static const MethodTable ints = {{"bit_length", int_bit_length}};
  static const MethodTable floats = {{"is_integer", float_is_integer}};
  const MethodTable* table = nullptr;
  switch (v.type()) {
    case Type::string: table = &strings; break;
    case Type::sequence: table = v.is_list() ? &lists : &tuples; break;
    case Type::dict: table = &dicts; break;
    case Type::integer:
    case Type::boolean: table = &ints; break;
    case Type::floating: table = &floats; break;
    default: return nullptr;
  }
  const auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

bool is_mutating_method(const Value& v, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "clear", "pop",    "reverse",
                                               "insert", "sort",  "extend", "remove"};
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return (v.is_list() && among(kList)) || (v.is_dict() && among(kDict));
}

}  // namespace anemone::jinja
