// Operators, truth, length and iteration, with Python's rules.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

std::string_view symbol(Op op) {
  switch (op) {
    case Op::add: return "+";
    case Op::sub: return "-";
    case Op::mul: return "*";
    case Op::div: return "/";
    case Op::floordiv: return "//";
    case Op::mod: return "%";
    case Op::pow: return "**";
    case Op::lt: return "<";
    case Op::le: return "<=";
    case Op::gt: return ">";
    case Op::ge: return ">=";
    default: return "?";
  }
}

Error unsupported(Op op, const Value& a, const Value& b) {
  return errorf("unsupported operand types for {}: '{}' and '{}'", symbol(op), a.type_name(), b.type_name());
}

Error overflow() { return errorf("an integer does not fit 64 bits"); }

double float_mod(double a, double b) {
  double m = std::fmod(a, b);
  if (m != 0) {
    if ((b < 0) != (m < 0)) m += b;
  } else {
    m = std::copysign(0.0, b);
  }
  return m;
}

double float_floordiv(double a, double b) {
  const double m = float_mod(a, b);
  const double q = (a - m) / b;
  if (q == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(q);
  return q - floor > 0.5 ? floor + 1 : floor;
}

Value integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool square_fits = true;
  for (int64_t e = exponent; e > 0; e >>= 1) {
    if (e & 1) {
      if (!square_fits || __builtin_mul_overflow(result, base, &result)) throw overflow();
    }
    if (e > 1 && square_fits) square_fits = !__builtin_mul_overflow(base, base, &base);
  }
  return Value(result);
}

Value float_op(Op op, double a, double b) {
  switch (op) {
    case Op::add: return Value(a + b);
    case Op::sub: return Value(a - b);
    case Op::mul: return Value(a * b);
    case Op::pow: {
      if (a == 0 && b < 0) throw errorf("0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(b) && b != std::floor(b))
        throw errorf("a complex result of ** is not supported");
      const double p = std::pow(a, b);
      if (std::isinf(p) && std::isfinite(a) && std::isfinite(b))
        throw errorf("the result of ** is too large");
      return Value(p);
    }
    default: break;
  }
  if (b == 0) throw errorf("division by zero");
  if (op == Op::div) return Value(a / b);
  return Value(op == Op::mod ? float_mod(a, b) : float_floordiv(a, b));
}

Value integer_op(Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &r)) throw overflow();
      return Value(r);
    case Op::sub:
      if (__builtin_sub_overflow(a, b, &r)) throw overflow();
      return Value(r);
    case Op::mul:
      if (__builtin_mul_overflow(a, b, &r)) throw overflow();
      return Value(r);
    case Op::pow:
      return b < 0 ? float_op(op, static_cast<double>(a), static_cast<double>(b)) : integer_power(a, b);
    default: break;
  }
  if (b == 0) throw errorf("division by zero");
  if (op == Op::div) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {
    if (op == Op::mod) return Value(0);
    if (__builtin_sub_overflow(int64_t{0}, a, &r)) throw overflow();
    return Value(r);
  }
  const int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == Op::mod) return Value(adjust ? remainder + b : remainder);
  return Value(a / b - (adjust ? 1 : 0));
}

// text * n and list * n.
Value repeat(Runtime& rt, const Value& v, int64_t n) {
  const auto count = static_cast<uint64_t>(std::max<int64_t>(n, 0));
  const uint64_t unit = v.is_string() ? v.text().size() : v.items().size() * 16;
  if (unit > 0 && count > rt.limits().value_bytes / unit) rt.check_size(rt.limits().value_bytes + 1);
  if (v.is_string()) {
    std::string out;
    out.reserve(unit * count);
    if (unit > 0) {
      for (uint64_t i = 0; i < count; ++i) out += v.text();
    }
    return rt.str(std::move(out), v.str().markup);
  }
  std::vector<Value> out;
  rt.charge(unit * count);
  if (unit > 0) {
    for (uint64_t i = 0; i < count; ++i) out.insert(out.end(), v.items().begin(), v.items().end());
  }
  return rt.sequence(std::move(out), v.is_list() ? Sequence::Kind::list : Sequence::Kind::tuple);
}

Value add_strings(Runtime& rt, const Value& a, const Value& b) {
  const bool markup = a.str().markup || b.str().markup;
  const auto part = [&](const Value& v) {
    return markup && !v.str().markup ? escape_html(v.text()) : v.text();
  };
  rt.check_size(a.text().size() + b.text().size());
  return rt.str(part(a) + part(b), markup);
}

Value add_sequences(Runtime& rt, const Value& a, const Value& b) {
  rt.check_size((a.items().size() + b.items().size()) * 16);
  std::vector<Value> out = a.items();
  out.insert(out.end(), b.items().begin(), b.items().end());
  return rt.sequence(std::move(out), a.is_list() ? Sequence::Kind::list : Sequence::Kind::tuple);
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    rt.step();
    const Value* other = b.find(entry.first);
    return other && rt.equal(entry.second, *other);
  });
}

}  // namespace

bool Runtime::truth(const Value& v) const {
  switch (v.type()) {
    case Type::undefined:
    case Type::none: return false;
    case Type::boolean: return v.as_bool();
    case Type::integer: return v.as_int() != 0;
    case Type::floating: return v.as_double() != 0;
    default: break;
  }
  const std::optional<size_t> n = length(v);
  return !n || *n > 0;
}

std::optional<size_t> Runtime::length(const Value& v) const {
  switch (v.type()) {
    case Type::undefined: return 0;
    case Type::string: return v.str().ascii ? v.text().size() : code_points(v.text());
    case Type::sequence: return v.items().size();
    case Type::dict: return v.dict().entries.size();
    case Type::object:
      if (const std::vector<Value>* elements = v.object()->elements()) return elements->size();
      return std::nullopt;
    default: return std::nullopt;
  }
}

size_t Runtime::need_length(const Value& v) const {
  const std::optional<size_t> n = length(v);
  if (!n) throw errorf("object of type '{}' has no length", v.type_name());
  return *n;
}

bool Runtime::is_iterable(const Value& v) const {
  if (v.is_object()) return v.object()->is_iterator() || v.object()->elements() != nullptr;
  return v.is_undefined() || v.is_string() || v.is_sequence() || v.is_dict();
}

std::vector<Value> Runtime::to_vector(const Value& v) {
  std::vector<Value> out;
  Iter it(*this, v);
  for (Value item; it.next(item);) push(out, std::move(item));
  return out;
}

bool Runtime::equal(const Value& a, const Value& b) {
  step();
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::undefined:
    case Type::none: return true;
    case Type::string: return a.text() == b.text();
    case Type::sequence:
      if (a.is_list() != b.is_list() || a.items().size() != b.items().size()) return false;
      for (size_t i = 0; i < a.items().size(); ++i) {
        if (!equal(a.items()[i], b.items()[i])) return false;
      }
      return true;
    case Type::dict: return equal_dicts(*this, a.dict(), b.dict());
    default: break;
  }
  if (a.object() == b.object()) return true;
  if (a.object()->type_name() != b.object()->type_name() || !a.object()->elements() ||
      !b.object()->elements()) {
    return false;
  }
  const std::vector<Value>& x = *a.object()->elements();
  const std::vector<Value>& y = *b.object()->elements();
  const Deeper deeper(*this);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [&](const Value& p, const Value& q) { return equal(p, q); });
}

bool Runtime::less(const Value& a, const Value& b, std::string_view op) {
  step();
  refuse_undefined(a);
  refuse_undefined(b);
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() < b.as_double();
  if (a.is_string() && b.is_string()) return a.text() < b.text();  // byte order of UTF-8 is code point order
  if (a.is_sequence() && b.is_sequence() && a.is_list() == b.is_list()) {
    const size_t n = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < n; ++i) {
      if (!equal(a.items()[i], b.items()[i])) return less(a.items()[i], b.items()[i], op);
    }
    return a.items().size() < b.items().size();
  }
  throw errorf("'{}' not supported between '{}' and '{}'", op, a.type_name(), b.type_name());
}

bool Runtime::contains(const Value& container, const Value& v) {
  if (container.is_string()) {
    refuse_undefined(v);
    if (!v.is_string()) throw errorf("'in <string>' requires a string on its left, not {}", v.type_name());
    charge_search(*this, container.text(), v.text());
    return container.text().find(v.text()) != std::string::npos;
  }
  if (container.is_dict()) {
    if (!hashable(v)) throw errorf("a {} cannot be the key of a dict", v.type_name());
    step();
    return container.dict().find(v) != nullptr;
  }
  if (!is_iterable(container)) throw errorf("argument of type '{}' is not iterable", container.type_name());
  Iter it(*this, container);
  for (Value item; it.next(item);) {
    if (equal(item, v)) return true;
  }
  return false;
}

bool Runtime::compare(Op op, const Value& a, const Value& b) {
  // NaN is neither less nor equal, so <= cannot be written as "not >".
  const auto less_or_equal = [&](const Value& x, const Value& y) {
    if (x.is_number() && y.is_number()) return less(x, y) || equal(x, y);
    return !less(y, x, symbol(op));
  };
  switch (op) {
    case Op::eq: return equal(a, b);
    case Op::ne: return !equal(a, b);
    case Op::lt: return less(a, b, "<");
    case Op::gt: return less(b, a, ">");
    case Op::le: return less_or_equal(a, b);
    case Op::ge: return less_or_equal(b, a);
    case Op::in: return contains(b, a);
    default: return !contains(b, a);
  }
}

Value Runtime::binary(Op op, const Value& a, const Value& b) {
  step();
  if (a.is_integral() && b.is_integral()) return integer_op(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return float_op(op, a.as_double(), b.as_double());
  if (op == Op::mod && a.is_string()) return str(printf_format(*this, a.text(), b), a.str().markup);
  refuse_undefined(a);
  refuse_undefined(b);
  if (op == Op::add) {
    if (a.is_string() && b.is_string()) return add_strings(*this, a, b);
    if (a.is_sequence() && b.is_sequence() && a.is_list() == b.is_list()) return add_sequences(*this, a, b);
    if (a.is_string() || a.is_sequence()) {
      throw errorf("can only concatenate {} (not \"{}\") to {}", a.type_name(), b.type_name(), a.type_name());
    }
  }
  if (op == Op::mul) {
    if ((a.is_string() || a.is_sequence()) && b.is_integral()) return repeat(*this, a, b.as_int());
    if ((b.is_string() || b.is_sequence()) && a.is_integral()) return repeat(*this, b, a.as_int());
  }
  throw unsupported(op, a, b);
}

Value Runtime::negate(const Value& v, bool minus) {
  refuse_undefined(v);
  if (v.is_float()) return Value(minus ? -v.as_double() : v.as_double());
  if (!v.is_integral()) throw errorf("bad operand type for unary {}: '{}'", minus ? '-' : '+', v.type_name());
  return minus ? integer_op(Op::sub, 0, v.as_int()) : Value(v.as_int());
}

}  // namespace anemone::jinja
