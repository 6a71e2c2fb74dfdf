// The tables of what templates can name: filters, tests, methods, globals; and how built-ins read their arguments.
//     const Params p(args, "replace", {"old", "new", "count"}, 2);
//     std::string with = rt.text(p[1]);
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace anemone::jinja {

using Filter = Value (*)(Runtime&, const Value&, const Args&);

struct Test {
  std::string_view name;
  size_t arguments;  // besides the value
  bool (*function)(Runtime&, const Value&, const Args&);

  bool operator()(Runtime& rt, const Value& v, const Args& args) const;
};
using Method = Value (*)(Runtime&, const Value& self, const Args&);

template <class F>
struct Named {
  std::string_view name;
  F function;
};

// Null where there is none of that name.
Filter find_filter(std::string_view name);
const Test* find_test(std::string_view name);
Method find_method(const Value& v, std::string_view name);
// A method that exists in Python but would change its object: the sandbox refuses it.
bool is_mutating_method(const Value& v, std::string_view name);

std::span<const Named<Filter>> text_filters();
std::span<const Named<Filter>> sequence_filters();
std::span<const Named<Filter>> value_filters();
std::span<const Named<Method>> string_methods();
std::span<const Named<Method>> string_search_methods();

// range, namespace, dict, cycler, joiner, raise_exception, strftime_now …
std::vector<std::pair<std::string_view, Value>> make_globals(Runtime& rt);

class Params {
 public:
  Params(const Args& args, std::string_view function, std::initializer_list<std::string_view> names,
         size_t required = 0);

  bool has(size_t i) const { return values_[i] != nullptr; }
  bool given(size_t i) const { return has(i) && !values_[i]->is_none(); }  // there, and not none
  const Value& operator[](size_t i) const { return *values_[i]; }
  Value get(size_t i) const { return has(i) ? *values_[i] : Value(); }
  bool flag(Runtime& rt, size_t i, bool fallback = false) const {
    return has(i) ? rt.truth(*values_[i]) : fallback;
  }
  int64_t integer(size_t i, int64_t fallback) const;  // throws where it is no integer
  const std::string& string(size_t i) const;          // throws where it is no string

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

// A value as a filter takes text: str() of anything.
std::string soft_text(Runtime& rt, const Value& v);
std::string escape_html(std::string_view text);
// Pays for looking for `needle` in `text`: the plain search can take the product of both sizes.
void charge_search(Runtime& rt, std::string_view text, std::string_view needle);

// format.cpp
std::string printf_format(Runtime& rt, const std::string& format, const Value& args);
std::string brace_format(Runtime& rt, const std::string& format, const Args& args);
std::string format_value(Runtime& rt, const Value& v, std::string_view spec);

// json.cpp
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};
std::string dump_json(Runtime& rt, const Value& v, const JsonStyle& style);

// methods_search.cpp: text.replace(old, with, limit), limit < 0 for all.
std::string replace_text(Runtime& rt, const std::string& text, const std::string& old,
                         const std::string& with, int64_t limit);

// methods_string.cpp
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// lookup.cpp: "a.b.0" as map, sort and their like take it.
std::vector<Value> attribute_path(const Value& attribute);
Value follow_path(Runtime& rt, Value v, const std::vector<Value>& path);

}  // namespace anemone::jinja
