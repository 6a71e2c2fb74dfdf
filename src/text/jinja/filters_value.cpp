// Filters on single values: default, numbers, attributes, JSON.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"

namespace anemone::jinja {
namespace {

Value filter_default(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "default", {"default_value", "boolean"});
  if (!v.is_undefined() && !(p.flag(rt, 1) && !rt.truth(v))) return v;
  return p.has(0) ? p[0] : rt.str("");
}

// int(d), or nothing where it has no integer value.
std::optional<Value> truncated(double d) {
  if (!std::isfinite(d)) return std::nullopt;
  if (std::fabs(d) >= 9.2e18) throw errorf("the float {} does not fit an integer of 64 bits", float_repr(d));
  return Value(static_cast<int64_t>(d));
}

Value filter_int(Runtime&, const Value& v, const Args& args) {
  const Params p(args, "int", {"default", "base"});
  const Value fallback = p.has(0) ? p[0] : Value(0);
  refuse_undefined(v);
  if (v.is_integral()) return Value(v.as_int());
  if (v.is_float()) {
    if (std::isinf(v.as_double())) throw errorf("cannot convert infinity to an integer");
    return truncated(v.as_double()).value_or(fallback);
  }
  if (!v.is_string()) return fallback;
  const int64_t base = p.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) return fallback;
  if (const std::optional<int64_t> i = parse_python_int(v.text(), static_cast<int>(base))) return Value(*i);
  const std::optional<double> d = parse_python_float(v.text());
  return d ? truncated(*d).value_or(fallback) : fallback;
}

Value filter_float(Runtime&, const Value& v, const Args& args) {
  const Params p(args, "float", {"default"});
  refuse_undefined(v);
  if (v.is_number()) return Value(v.as_double());
  if (v.is_string()) {
    if (const std::optional<double> d = parse_python_float(v.text())) return Value(*d);
  }
  return p.has(0) ? p[0] : Value(0.0);
}

Value filter_abs(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "abs", {});
  refuse_undefined(v);
  if (v.is_float()) return Value(std::fabs(v.as_double()));
  if (!v.is_integral()) throw errorf("bad operand type for abs(): '{}'", v.type_name());
  return v.as_int() < 0 ? rt.negate(v, true) : Value(v.as_int());
}

// round(i, -n): to a multiple of 10^n, half to even.
Value round_integer(int64_t i, int64_t digits) {
  if (digits >= 0) return Value(i);
  if (digits < -18) return Value(0);
  int64_t unit = 1;
  for (int64_t k = 0; k < -digits; ++k) unit *= 10;
  int64_t quotient = i / unit;
  const int64_t rest = std::abs(i % unit);
  const bool up = rest > unit / 2 || (rest == unit / 2 && quotient % 2 != 0);
  if (up) quotient += i < 0 ? -1 : 1;
  int64_t result = 0;
  if (__builtin_mul_overflow(quotient, unit, &result)) throw errorf("an integer does not fit 64 bits");
  return Value(result);
}

Value filter_round(Runtime&, const Value& v, const Args& args) {
  const Params p(args, "round", {"precision", "method"});
  const std::string method = p.has(1) ? p.string(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    throw errorf("round: the method must be common, ceil or floor, not '{}'", method);
  }
  refuse_undefined(v);
  if (!v.is_number()) throw errorf("round: cannot round a {}", v.type_name());
  if (method == "common" && p.has(0) && p[0].is_none()) {  // round(v, None) gives an integer
    return v.is_float() ? truncated(round_decimal(v.as_double(), 0)).value_or(v) : Value(v.as_int());
  }
  const int64_t digits = p.integer(0, 0);
  if (method == "common") {
    return v.is_float() ? Value(round_decimal(v.as_double(), digits)) : round_integer(v.as_int(), digits);
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = v.as_double() * scale;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value filter_attr(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "attr", {"name"}, 1);
  refuse_undefined(v);
  if (std::optional<Value> found = rt.own_attribute(v, p.string(0))) return *std::move(found);
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_type(v), p.string(0)));
}

// As transformers defines it: json.dumps, without the HTML escapes of Jinja's own.
Value filter_tojson(Runtime& rt, const Value& v, const Args& args) {
  const Params p(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = p.flag(rt, 0);
  style.sort_keys = p.flag(rt, 3);
  if (p.given(1)) {
    style.multiline = true;
    style.item_separator = ",";
    if (p[1].is_string()) {
      style.indent = p[1].text();
    } else {
      const int64_t width = std::max<int64_t>(0, p.integer(1, 0));
      rt.check_size(static_cast<uint64_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (p.given(2)) {
    const std::vector<Value> pair = rt.to_vector(p[2]);
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      throw errorf("tojson: separators must be two strings").expected("(', ', ': ')");
    }
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  return rt.str(dump_json(rt, v, style));
}

Value filter_random(Runtime&, const Value&, const Args&) {
  throw errorf("the filter 'random' is not supported: a prompt is the same at every rendering");
}

constexpr Named<Filter> kFilters[] = {
    {"default", filter_default}, {"d", filter_default},     {"int", filter_int},
    {"float", filter_float},     {"abs", filter_abs},       {"round", filter_round},
    {"attr", filter_attr},       {"tojson", filter_tojson}, {"random", filter_random},
};

}  // namespace

std::span<const Named<Filter>> value_filters() { return kFilters; }

}  // namespace anemone::jinja
