// One input, element by element.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

template <const char* kType>
void plain(OnnxCall& n) {
  n.out(n.unary(kType, n.in(0)));
}

constexpr char kAbs[] = "abs", kAcos[] = "acos", kAsin[] = "asin", kAtan[] = "atan", kAtanh[] = "atanh",
               kCeil[] = "ceil", kCos[] = "cos", kCosh[] = "cosh", kErf[] = "erf", kExp[] = "exp",
               kFloor[] = "floor", kRound[] = "round", kSign[] = "sign", kSin[] = "sin", kSinh[] = "sinh",
               kSqrt[] = "sqrt", kTan[] = "tan", kTanh[] = "tanh";

void identity(OnnxCall& n) { n.out_operand(0, n.operand(0)); }

void log(OnnxCall& n) {
  // MIL adds epsilon before the logarithm; the smallest number leaves every argument as it is, zero excepted.
  Value* x = n.in(0);
  Value* y = n.op("log", {{"x", x}, {"epsilon", n.f(0)}});
  n.out(y);
}

void neg(OnnxCall& n) {
  Value* x = n.in(0);
  n.out(n.wrap(n.mul(x, n.one(x->type.dtype, -1)), n.type(0)));
}

void logical_not(OnnxCall& n) { n.out(n.unary("logical_not", n.in(0))); }

void reciprocal(OnnxCall& n) { n.out(n.div(n.f(1), n.in(0))); }

// asinh(x) = sign(x) log(|x| + sqrt(x² + 1)), exact near zero too in the form log1p.
void asinh(OnnxCall& n) {
  Value* x = n.in(0);
  Value* size = n.unary("abs", x);
  Value* root = n.unary("sqrt", n.add(n.mul(x, x), n.f(1)));
  Value* y = n.op("log", {{"x", n.add(size, root)}, {"epsilon", n.f(0)}});
  n.out(n.mul(n.unary("sign", x), y));
}

void acosh(OnnxCall& n) {
  Value* x = n.in(0);
  Value* root = n.unary("sqrt", n.sub(n.mul(x, x), n.f(1)));
  n.out(n.op("log", {{"x", n.add(x, root)}, {"epsilon", n.f(0)}}));
}

void is_nan(OnnxCall& n) {
  Value* x = n.in(0);
  n.out(0, n.op("not_equal", {{"x", x}, {"y", x}}), OnnxType::boolean);
}

void is_inf(OnnxCall& n) {
  Value* x = n.in(0);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const bool up = n.node.integer("detect_positive", 1) != 0, down = n.node.integer("detect_negative", 1) != 0;
  Value* y = nullptr;
  if (up && down)
    y = n.op("equal", {{"x", n.unary("abs", x)}, {"y", n.f(kInf)}});
  else if (up || down)
    y = n.op("equal", {{"x", x}, {"y", n.f(up ? kInf : -kInf)}});
  else
    y = n.op("not_equal", {{"x", x}, {"y", n.select(n.op("not_equal", {{"x", x}, {"y", x}}), n.f(0), x)}});
  if (!up && !down) y = n.op("logical_and", {{"x", y}, {"y", n.unary("logical_not", y)}});
  n.out(0, y, OnnxType::boolean);
}

const OnnxOp kOps[] = {
    {"Abs", plain<kAbs>},
    {"Acos", plain<kAcos>},
    {"Acosh", acosh},
    {"Asin", plain<kAsin>},
    {"Asinh", asinh},
    {"Atan", plain<kAtan>},
    {"Atanh", plain<kAtanh>},
    {"Ceil", plain<kCeil>},
    {"Cos", plain<kCos>},
    {"Cosh", plain<kCosh>},
    {"Erf", plain<kErf>},
    {"Exp", plain<kExp>},
    {"Floor", plain<kFloor>},
    {"Identity", identity},
    {"IsInf", is_inf},
    {"IsNaN", is_nan},
    {"Log", log},
    {"Neg", neg},
    {"Not", logical_not},
    {"Reciprocal", reciprocal},
    {"Round", plain<kRound>},
    {"Sign", plain<kSign>},
    {"Sin", plain<kSin>},
    {"Sinh", plain<kSinh>},
    {"Sqrt", plain<kSqrt>},
    {"Tan", plain<kTan>},
    {"Tanh", plain<kTanh>},
};

}  // namespace

std::span<const OnnxOp> onnx_unary() { return kOps; }

}  // namespace anemone::onnx_ops
