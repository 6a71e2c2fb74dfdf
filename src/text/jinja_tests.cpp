// Tests: what can stand after `is`.
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

namespace anemone::jinja {
namespace {

const Value& operand(const Args& args, std::string_view name) {
  if (args.positional.size() != 1 || !args.named.empty()) throw errorf("the test '{}' takes one argument", name);
  return args.positional[0];
}

int64_t integer_of(Runtime& rt, const Value& v, int64_t divisor) {
  const Value rest = rt.binary(Op::mod, v, Value(divisor));
  return rest.is_number() && rest.as_double() == 0 ? 0 : 1;
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
  return rt.compare(op, v, operand(args, "comparison"));
}

using A = const Args&;
using V = const Value&;
using R = Runtime&;

constexpr Named<Test> kTests[] = {
    {"defined", [](R, V v, A) { return !v.is_undefined(); }},
    {"undefined", [](R, V v, A) { return v.is_undefined(); }},
    {"none", [](R, V v, A) { return v.is_none(); }},
    {"boolean", [](R, V v, A) { return v.is_bool(); }},
    {"true", [](R, V v, A) { return v.is_bool() && v.as_bool(); }},
    {"false", [](R, V v, A) { return v.is_bool() && !v.as_bool(); }},
    {"integer", [](R, V v, A) { return v.is_int(); }},
    {"float", [](R, V v, A) { return v.is_float(); }},
    {"number", [](R, V v, A) { return v.is_number(); }},
    {"string", [](R, V v, A) { return v.is_string(); }},
    {"mapping", [](R, V v, A) { return v.is_dict(); }},
    {"sequence", [](R rt, V v, A) { return is_sequence(rt, v); }},
    {"iterable", [](R rt, V v, A) { return rt.is_iterable(v); }},
    {"callable", [](R, V v, A) { return v.is_undefined() || (v.is_object() && v.object()->is_callable()); }},
    {"escaped", [](R, V v, A) { return v.is_string() && v.str().markup; }},
    {"odd", [](R rt, V v, A) { return integer_of(rt, v, 2) != 0; }},
    {"even", [](R rt, V v, A) { return integer_of(rt, v, 2) == 0; }},
    {"divisibleby",
     [](R rt, V v, A args) { return rt.equal(rt.binary(Op::mod, v, operand(args, "divisibleby")), Value(0)); }},
    {"lower", [](R rt, V v, A) { return is_case(rt, v, is_lower, is_upper); }},
    {"upper", [](R rt, V v, A) { return is_case(rt, v, is_upper, is_lower); }},
    {"sameas", [](R, V v, A args) { return same_object(v, operand(args, "sameas")); }},
    {"in", [](R rt, V v, A args) { return rt.contains(operand(args, "in"), v); }},
    {"filter", [](R, V v, A) { return v.is_string() && find_filter(v.text()) != nullptr; }},
    {"test", [](R, V v, A) { return v.is_string() && find_test(v.text()) != nullptr; }},
    {"==", comparison<Op::eq>},
    {"eq", comparison<Op::eq>},
    {"equalto", comparison<Op::eq>},
    {"!=", comparison<Op::ne>},
    {"ne", comparison<Op::ne>},
    {"<", comparison<Op::lt>},
    {"lt", comparison<Op::lt>},
    {"lessthan", comparison<Op::lt>},
    {"<=", comparison<Op::le>},
    {"le", comparison<Op::le>},
    {">", comparison<Op::gt>},
    {"gt", comparison<Op::gt>},
    {"greaterthan", comparison<Op::gt>},
    {">=", comparison<Op::ge>},
    {"ge", comparison<Op::ge>},
};

}  // namespace

Test find_test(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Test> all;
    for (const Named<Test>& t : kTests) all.emplace(t.name, t.function);
    return all;
  }();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace anemone::jinja
