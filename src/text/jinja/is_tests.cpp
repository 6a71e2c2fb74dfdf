// Tests: what can stand after `is`.
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

// v % divisor == rest; for text % formats, and the answer is no.
bool leaves(Runtime& rt, const Value& v, const Value& divisor, int rest) {
  return rt.equal(rt.binary(Op::mod, v, divisor), Value(rest));
}

// True for text with a cased character, all of which are of that case.
bool is_case(Runtime& rt, const Value& v, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
  const std::string text = rt.text(v);
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text, i);
    if (other(c.value) || is_title(c.value)) return false;
    any |= wanted(c.value);
    i += c.bytes;
  }
  return any;
}

bool same_object(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.is_none()) return true;
  if (a.is_bool()) return a.as_bool() == b.as_bool();
  if (a.is_int()) return a.as_int() == b.as_int();
  if (a.is_string() && a.text() == b.text()) return true;  // Python shares equal literals
  return a.identity() != nullptr && a.identity() == b.identity();
}

bool is_sequence(Runtime& rt, const Value& v) {
  if (v.is_object()) return v.object()->is_subscriptable() && rt.length(v);
  return v.is_undefined() || v.is_string() || v.is_sequence() || v.is_dict();
}

template <Op op>
bool comparison(Runtime& rt, const Value& v, const Args& args) {
  return rt.compare(op, v, args.positional[0]);
}

using A = const Args&;
using V = const Value&;
using R = Runtime&;

constexpr Test kTests[] = {
    {"defined", 0, [](R, V v, A) { return !v.is_undefined(); }},
    {"undefined", 0, [](R, V v, A) { return v.is_undefined(); }},
    {"none", 0, [](R, V v, A) { return v.is_none(); }},
    {"boolean", 0, [](R, V v, A) { return v.is_bool(); }},
    {"true", 0, [](R, V v, A) { return v.is_bool() && v.as_bool(); }},
    {"false", 0, [](R, V v, A) { return v.is_bool() && !v.as_bool(); }},
    {"integer", 0, [](R, V v, A) { return v.is_int(); }},
    {"float", 0, [](R, V v, A) { return v.is_float(); }},
    {"number", 0, [](R, V v, A) { return v.is_number(); }},
    {"string", 0, [](R, V v, A) { return v.is_string(); }},
    {"mapping", 0, [](R, V v, A) { return v.is_dict(); }},
    {"sequence", 0, [](R rt, V v, A) { return is_sequence(rt, v); }},
    {"iterable", 0, [](R rt, V v, A) { return rt.is_iterable(v); }},
    {"callable", 0,
     [](R, V v, A) { return v.is_undefined() || (v.is_object() && v.object()->is_callable()); }},
    {"escaped", 0, [](R, V v, A) { return v.is_string() && v.str().markup; }},
    {"odd", 0, [](R rt, V v, A) { return leaves(rt, v, Value(2), 1); }},
    {"even", 0, [](R rt, V v, A) { return leaves(rt, v, Value(2), 0); }},
    {"divisibleby", 1, [](R rt, V v, A args) { return leaves(rt, v, args.positional[0], 0); }},
    {"lower", 0, [](R rt, V v, A) { return is_case(rt, v, is_lower, is_upper); }},
    {"upper", 0, [](R rt, V v, A) { return is_case(rt, v, is_upper, is_lower); }},
    {"sameas", 1, [](R, V v, A args) { return same_object(v, args.positional[0]); }},
    {"in", 1, [](R rt, V v, A args) { return rt.contains(args.positional[0], v); }},
    {"filter", 0, [](R, V v, A) { return v.is_string() && find_filter(v.text()) != nullptr; }},
    {"test", 0, [](R, V v, A) { return v.is_string() && find_test(v.text()) != nullptr; }},
    {"==", 1, comparison<Op::eq>},
    {"eq", 1, comparison<Op::eq>},
    {"equalto", 1, comparison<Op::eq>},
    {"!=", 1, comparison<Op::ne>},
    {"ne", 1, comparison<Op::ne>},
    {"<", 1, comparison<Op::lt>},
    {"lt", 1, comparison<Op::lt>},
    {"lessthan", 1, comparison<Op::lt>},
    {"<=", 1, comparison<Op::le>},
    {"le", 1, comparison<Op::le>},
    {">", 1, comparison<Op::gt>},
    {"gt", 1, comparison<Op::gt>},
    {"greaterthan", 1, comparison<Op::gt>},
    {">=", 1, comparison<Op::ge>},
    {"ge", 1, comparison<Op::ge>},
};

}  // namespace

bool Test::operator()(Runtime& rt, const Value& v, const Args& args) const {
  if (args.positional.size() != arguments || !args.named.empty()) {
    throw errorf("the test '{}' takes {} argument(s), not {}", name, arguments,
                 args.positional.size() + args.named.size());
  }
  return function(rt, v, args);
}

const Test* find_test(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Test*> all;
    for (const Test& t : kTests) all.emplace(t.name, &t);
    return all;
  }();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace anemone::jinja
