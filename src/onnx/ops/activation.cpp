// Activations, and Clip.
#include <limits>

#include "base/error.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

void relu(OnnxCall& n) {
  Value* x = n.in(0);
  n.out(x->type.is_float() ? n.unary("relu", x) : n.op("maximum", {{"x", x}, {"y", n.i(0)}}));
}

void leaky_relu(OnnxCall& n) {
  n.out(n.op("leaky_relu", {{"x", n.in(0)}, {"alpha", n.f(n.node.number("alpha", 0.01f))}}));
}

Value* elu_of(OnnxCall& n, Value* x, float alpha) { return n.op("elu", {{"x", x}, {"alpha", n.f(alpha)}}); }

void elu(OnnxCall& n) { n.out(elu_of(n, n.in(0), n.node.number("alpha", 1.0f))); }

void selu(OnnxCall& n) {
  const float alpha = n.node.number("alpha", 1.67326319217681884765625f);
  const float gamma = n.node.number("gamma", 1.05070102214813232421875f);
  n.out(n.mul(elu_of(n, n.in(0), alpha), n.f(gamma)));
}

// max(0, x) + min(0, alpha (exp(x / alpha) - 1))
void celu(OnnxCall& n) {
  const float alpha = n.node.number("alpha", 1.0f);
  Value* y = elu_of(n, n.div(n.in(0), n.f(alpha)), 1.0f);
  n.out(n.mul(y, n.f(alpha)));
}

void prelu(OnnxCall& n) {
  Value* x = n.in(0);
  Value* zero = n.constant(n.one(x->type.dtype, 0));
  Value* down = n.mul(n.op("minimum", {{"x", x}, {"y", zero}}), n.in(1));
  n.out(n.add(n.op("maximum", {{"x", x}, {"y", zero}}), down));
}

void sigmoid(OnnxCall& n) { n.out(n.unary("sigmoid", n.in(0))); }
void softplus(OnnxCall& n) { n.out(n.unary("softplus", n.in(0))); }
void softsign(OnnxCall& n) { n.out(n.unary("softsign", n.in(0))); }

Value* hard(OnnxCall& n, Value* x, float alpha, float beta) {
  return n.op("sigmoid_hard", {{"x", x}, {"alpha", n.f(alpha)}, {"beta", n.f(beta)}});
}

void hard_sigmoid(OnnxCall& n) {
  n.out(hard(n, n.in(0), n.node.number("alpha", 0.2f), n.node.number("beta", 0.5f)));
}

void hard_swish(OnnxCall& n) {
  Value* x = n.in(0);
  n.out(n.mul(x, hard(n, x, 1.0f / 6, 0.5f)));
}

void thresholded_relu(OnnxCall& n) {
  Value* x = n.in(0);
  Value* above = n.op("greater", {{"x", x}, {"y", n.f(n.node.number("alpha", 1.0f))}});
  n.out(n.select(above, x, n.f(0)));
}

Value* gelu_of(OnnxCall& n, Value* x, std::string_view mode) {
  return n.op("gelu", {{"x", x}, {"mode", n.text(mode)}});
}

void gelu(OnnxCall& n) {
  const std::string_view kind = n.node.text("approximate", "none");
  if (kind != "none" && kind != "tanh")
    throw n.refused(fmt::format("Gelu with approximate '{}'", onnx_printable(kind)));
  n.out(gelu_of(n, n.in(0), kind == "tanh" ? "TANH_APPROXIMATION" : "EXACT"));
}

void bias_gelu(OnnxCall& n) { n.out(gelu_of(n, n.add(n.in(0), n.in(1)), "EXACT")); }

void fast_gelu(OnnxCall& n) {
  Value* x = n.has(1) ? n.add(n.in(0), n.in(1)) : n.in(0);
  n.out(gelu_of(n, x, "TANH_APPROXIMATION"));
}

Value* swish_of(OnnxCall& n, Value* x, float alpha) {
  if (alpha == 1.0f) return n.unary("silu", x);
  return n.mul(x, n.unary("sigmoid", n.mul(x, n.f(alpha))));
}

void swish(OnnxCall& n) { n.out(swish_of(n, n.in(0), n.node.number("alpha", 1.0f))); }
void quick_gelu(OnnxCall& n) { n.out(swish_of(n, n.in(0), n.node.number("alpha", 1.702f))); }

void mish(OnnxCall& n) {
  Value* x = n.in(0);
  n.out(n.mul(x, n.unary("tanh", n.unary("softplus", x))));
}

void shrink(OnnxCall& n) {
  Value* x = n.in(0);
  const DType dtype = x->type.dtype;
  const float bias = n.node.number("bias", 0), lambd = n.node.number("lambd", 0.5f);
  Value* zero = n.constant(n.one(dtype, 0));
  Value* low = n.op("less", {{"x", x}, {"y", n.one(dtype, -lambd)}});
  Value* high = n.op("greater", {{"x", x}, {"y", n.one(dtype, lambd)}});
  Value* up = n.select(low, n.add(x, n.one(dtype, bias)), zero);
  n.out(n.select(high, n.sub(x, n.one(dtype, bias)), up));
}

void clip(OnnxCall& n) {
  Value* x = n.in(0);
  const DType dtype = x->type.dtype;
  Value *low = nullptr, *high = nullptr;
  if (n.node.version < 11) {
    if (n.node.attribute("min")) low = n.constant(n.f(n.node.number("min", 0)));
    if (n.node.attribute("max")) high = n.constant(n.f(n.node.number("max", 0)));
  } else {
    low = n.maybe(1);
    high = n.maybe(2);
  }
  const auto least = known_floats(low), most = known_floats(high);
  if (dtype == DType::fp32 && low && high && least && most && least->at(0) <= most->at(0)) {
    n.out(n.op("clip", {{"x", x}, {"alpha", n.f(least->at(0))}, {"beta", n.f(most->at(0))}}));
    return;
  }
  if (low) x = n.op("maximum", {{"x", x}, {"y", low}});
  if (high) x = n.op("minimum", {{"x", x}, {"y", high}});
  n.out(x);
}

void swiglu(OnnxCall& n) { n.out(n.mul(swish_of(n, n.in(0), n.node.number("alpha", 1.0f)), n.in(1))); }

void dropout(OnnxCall& n) {
  // In use, nothing is dropped. Training mode with a ratio above zero draws random numbers.
  if (n.has(2)) {
    const bool training = n.ints(2).at(0) != 0;
    if (training && (!n.has(1) || !n.find_floats(1) || n.floats(1).at(0) != 0))
      throw n.refused("Dropout in training mode");
  }
  n.out_operand(0, n.operand(0));
  if (n.wants(1)) n.out(1, n.filled(n.dims(n.in(0)), 1, DType::boolean), OnnxType::boolean);
}

const OnnxOp kOps[] = {
    {"Relu", relu},
    {"LeakyRelu", leaky_relu},
    {"Elu", elu},
    {"Selu", selu},
    {"Celu", celu},
    {"PRelu", prelu},
    {"Sigmoid", sigmoid},
    {"Softplus", softplus},
    {"Softsign", softsign},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"ThresholdedRelu", thresholded_relu},
    {"Gelu", gelu},
    {"Gelu", gelu, "com.microsoft"},
    {"BiasGelu", bias_gelu, "com.microsoft"},
    {"FastGelu", fast_gelu, "com.microsoft"},
    {"QuickGelu", quick_gelu, "com.microsoft"},
    {"Swish", swish},
    {"Mish", mish},
    {"Shrink", shrink},
    {"Clip", clip},
    {"Dropout", dropout},
    {"SwiGLU", swiglu},
};

}  // namespace

std::span<const OnnxOp> onnx_activation() { return kOps; }

}  // namespace anemone::onnx_ops
