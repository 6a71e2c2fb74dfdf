// Two or more inputs, element by element, with numpy's broadcasting.
#include <algorithm>

#include "base/error.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

void arithmetic(OnnxCall& n, std::string_view kind) {
  Value* y = n.op(kind, {{"x", n.in(0)}, {"y", n.in(1)}});
  n.out(n.wrap(y, n.type(0)));
}

void add(OnnxCall& n) { arithmetic(n, "add"); }
void sub(OnnxCall& n) { arithmetic(n, "sub"); }
void mul(OnnxCall& n) { arithmetic(n, "mul"); }
void div(OnnxCall& n) { arithmetic(n, "real_div"); }

void compare(OnnxCall& n, std::string_view kind) {
  n.out(0, n.op(kind, {{"x", n.in(0)}, {"y", n.in(1)}}), OnnxType::boolean);
}

void equal(OnnxCall& n) { compare(n, "equal"); }
void less(OnnxCall& n) { compare(n, "less"); }
void less_or_equal(OnnxCall& n) { compare(n, "less_equal"); }
void greater(OnnxCall& n) { compare(n, "greater"); }
void greater_or_equal(OnnxCall& n) { compare(n, "greater_equal"); }
void logical_and(OnnxCall& n) { compare(n, "logical_and"); }
void logical_or(OnnxCall& n) { compare(n, "logical_or"); }
void logical_xor(OnnxCall& n) { compare(n, "logical_xor"); }

// The two may have different types: the result has that of the base.
void pow(OnnxCall& n) {
  Value *x = n.in(0), *y = n.in(1);
  const DType dtype = x->type.dtype;
  if (dtype == DType::int32 && y->type.dtype == DType::int32) {
    n.out(n.wrap(n.op("pow", {{"x", x}, {"y", y}}), n.type(0)));
    return;
  }
  if (const auto exponent = known_floats(y); exponent && exponent->size() == 1 && y->type.rank() == 0 &&
                                             dtype == DType::fp32 && exponent->at(0) == 2.0f) {
    n.out(n.unary("square", x));
    return;
  }
  Value* z = n.op("pow", {{"x", n.cast(x, DType::fp32)}, {"y", n.cast(y, DType::fp32)}});
  n.out(n.wrap(n.cast(z, dtype), n.type(0)));
}

void mod(OnnxCall& n) {
  Value *x = n.in(0), *y = n.in(1);
  if (n.node.integer("fmod", 0) == 0) {
    n.out(n.op("mod", {{"x", x}, {"y", y}}));
    return;
  }
  // The sign of the dividend.
  Value* rest = n.op("mod", {{"x", n.unary("abs", x)}, {"y", n.unary("abs", y)}});
  n.out(n.mul(n.unary("sign", x), rest));
}

void fold_all(OnnxCall& n, std::string_view kind) {
  Value* sum = n.in(0);
  for (size_t k = 1; k < n.count(); ++k) sum = n.op(kind, {{"x", sum}, {"y", n.in(k)}});
  if (n.count() == 1) return n.out_operand(0, n.operand(0));
  n.out(sum);
}

void max(OnnxCall& n) { fold_all(n, "maximum"); }
void min(OnnxCall& n) { fold_all(n, "minimum"); }
void sum(OnnxCall& n) { fold_all(n, "add"); }

void mean(OnnxCall& n) {
  Value* all = n.in(0);
  for (size_t k = 1; k < n.count(); ++k) all = n.add(all, n.in(k));
  n.out(n.div(all, n.f(static_cast<float>(n.count()))));
}

void where(OnnxCall& n) {
  Value *cond = n.in(0), *a = n.in(1), *b = n.in(2);
  n.out(0, n.select(cond, a, b), n.type(1));
}

// Shifts are products and divisions by powers of two; the products wrap around.
void bit_shift(OnnxCall& n) {
  Value* power = n.op("pow", {{"x", n.i(2)}, {"y", n.in(1)}});
  if (n.node.text("direction", "") == "LEFT") {
    const int bits = onnx_type_info(n.type(0)).bits;
    if (bits < 32) return n.out(n.wrap(n.mul(n.in(0), power), n.type(0)));
    return n.out(n.mul(n.in(0), power));
  }
  // Past the width, only the sign is left.
  Value* y = n.op("floor_div", {{"x", n.in(0)}, {"y", power}});
  const int64_t bits = onnx_type_info(n.type(0)).bits;
  Value* inside =
      n.op("logical_and", {{"x", n.op("greater_equal", {{"x", n.in(1)}, {"y", n.i(0)}})},
                           {"y", n.op("less", {{"x", n.in(1)}, {"y", n.i(std::min<int64_t>(bits, 31))}})}});
  Value* sign = n.cast(n.op("less", {{"x", n.in(0)}, {"y", n.i(0)}}), DType::int32);
  n.out(n.select(inside, y, n.mul(sign, n.i(-1))));
}

// Bit by bit: Core ML has no operations on bits. Numbers are taken apart into as many bits as their type has.
Value* bitwise(OnnxCall& n, Value* x, Value* y, std::string_view kind, OnnxType type) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  const int bits = std::min(info.bits, 32);
  const auto bit = [&](Value* v, int k) {
    Value* shifted = k ? n.op("floor_div", {{"x", v}, {"y", n.i(int64_t{1} << k)}}) : v;
    return n.op("mod", {{"x", shifted}, {"y", n.i(2)}});
  };
  Value* all = nullptr;
  for (int k = 0; k < std::min(bits, 31); ++k) {
    Value *a = bit(x, k), *b = bit(y, k), *r = nullptr;
    if (kind == "and")
      r = n.mul(a, b);
    else if (kind == "or")
      r = n.op("maximum", {{"x", a}, {"y", b}});
    else
      r = n.op("not_equal", {{"x", a}, {"y", b}});
    r = n.mul(n.cast(r, DType::int32), n.i(int64_t{1} << k));
    all = all ? n.add(all, r) : r;
  }
  if (bits < 32) return n.wrap(all, type);
  // The sign is bit 31.
  const auto negative = [&](Value* v) { return n.op("less", {{"x", v}, {"y", n.i(0)}}); };
  Value* sign = n.op(fmt::format("logical_{}", kind), {{"x", negative(x)}, {"y", negative(y)}});
  const int64_t low = -(int64_t{1} << 31);
  return n.select(sign, n.add(all, n.i(low)), all);
}

void bitwise_and(OnnxCall& n) { n.out(bitwise(n, n.in(0), n.in(1), "and", n.type(0))); }
void bitwise_or(OnnxCall& n) { n.out(bitwise(n, n.in(0), n.in(1), "or", n.type(0))); }
void bitwise_xor(OnnxCall& n) { n.out(bitwise(n, n.in(0), n.in(1), "xor", n.type(0))); }

// -1 - x, in the bits of the type.
void bitwise_not(OnnxCall& n) { n.out(n.wrap(n.sub(n.i(-1), n.in(0)), n.type(0))); }

const OnnxOp kOps[] = {
    {"Add", add},
    {"Sub", sub},
    {"Mul", mul},
    {"Div", div},
    {"Equal", equal},
    {"Less", less},
    {"LessOrEqual", less_or_equal},
    {"Greater", greater},
    {"GreaterOrEqual", greater_or_equal},
    {"And", logical_and},
    {"Or", logical_or},
    {"Xor", logical_xor},
    {"Pow", pow},
    {"Mod", mod},
    {"Max", max},
    {"Min", min},
    {"Sum", sum},
    {"Mean", mean},
    {"Where", where},
    {"BitShift", bit_shift},
    {"BitwiseAnd", bitwise_and},
    {"BitwiseOr", bitwise_or},
    {"BitwiseXor", bitwise_xor},
    {"BitwiseNot", bitwise_not},
};

}  // namespace

std::span<const OnnxOp> onnx_binary() { return kOps; }

}  // namespace anemone::onnx_ops
