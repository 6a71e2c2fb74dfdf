// Activation functions, element by element; some with one parameter per channel (dimension 1).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer_same(const OpCall& c) { return {Type::tensor(c.type("x").dtype, c.type("x").shape)}; }

float alpha(const OpCall& c) { return static_cast<float>(c.number("alpha")); }
float beta(const OpCall& c) { return static_cast<float>(c.number("beta")); }

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
// Neither overflows for large x nor loses the small values of very negative x.
float softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))); }

float gelu_exact(float x) { return 0.5f * x * (1 + std::erf(x * 0.70710678118654752f)); }
float gelu_tanh(float x) {
  const float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);  // sqrt(2 / pi)
  return 0.5f * x * (1 + std::tanh(inner));
}
float gelu_sigmoid(float x) { return x * sigmoid(1.702f * x); }

using Function = float (*)(float);

Function gelu_mode(const OpCall& c) {
  const std::string_view mode = c.text("mode");
  if (mode == "EXACT") return gelu_exact;
  if (mode == "TANH_APPROXIMATION") return gelu_tanh;
  if (mode == "SIGMOID_APPROXIMATION") return gelu_sigmoid;
  throw errorf("unknown mode '{}'", mode).expected("EXACT, TANH_APPROXIMATION or SIGMOID_APPROXIMATION");
}

Types infer_gelu(const OpCall& c) {
  gelu_mode(c);
  return infer_same(c);
}

void check_channels(const OpCall& c, std::string_view param) {
  const Type& x = c.type("x");
  const Type& p = c.type(param);
  if (x.rank() < 2) throw errorf("'x' needs a channel dimension").found(x.text());
  if (p.rank() != 1 || (p.dim(0).known() && x.dim(1).known() && p.dim(0) != x.dim(1)))
    throw errorf("'{}' must have one entry per channel of {}", param, x.text()).found(p.text());
}

Types infer_prelu(const OpCall& c) {
  check_channels(c, "alpha");
  return infer_same(c);
}

Types infer_softplus_parametric(const OpCall& c) {
  check_channels(c, "alpha");
  check_channels(c, "beta");
  return infer_same(c);
}

// out = f(x, channel): dimension 1 is the channel, what follows it lies together.
template <class F>
void map_channels(const OpCall& c, F f) {
  const std::vector<int64_t> dims = c.out_type().dims();
  const int64_t count = c.out_type().size();
  if (count == 0) return;
  const int64_t channels = dims[1], row = count / (dims[0] * channels);
  const float* x = c.floats("x");
  float* out = c.out_floats();
  c.pool().parallel_for(dims[0] * channels, std::max<int64_t>(1, kMapGrain / row),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r)
                            for (int64_t i = r * row; i < (r + 1) * row; ++i) out[i] = f(x[i], r % channels);
                        });
}

void run_prelu(const OpCall& c) {
  const float* slope = c.floats("alpha");
  map_channels(c, [=](float x, int64_t channel) { return x < 0 ? slope[channel] * x : x; });
}

void run_softplus_parametric(const OpCall& c) {
  const float *scale = c.floats("alpha"), *inner = c.floats("beta");
  map_channels(c, [=](float x, int64_t channel) { return scale[channel] * softplus(inner[channel] * x); });
}

const std::vector<OpVersion> kPlain = {{Opset::ios15, {{"x", kFloat, 'T'}}}};
const std::vector<OpVersion> kAlpha = {{Opset::ios15, {{"x", kFloat, 'T'}, {"alpha", kFloat, 'T', kConst}}},
                                       {Opset::ios17, {{"x", kFloat, 'T'}, {"alpha", kFloat, 'U', kConst}}}};
const std::vector<OpVersion> kAlphaBeta = {
    {Opset::ios15, {{"x", kFloat, 'T'}, {"alpha", kFloat, 'T', kConst}, {"beta", kFloat, 'T', kConst}}},
    {Opset::ios17, {{"x", kFloat, 'T'}, {"alpha", kFloat, 'U', kConst}, {"beta", kFloat, 'U', kConst}}}};

const Op kOps[] = {
    {"clamped_relu", kAlphaBeta, "min(beta, x) where x is not negative, else min(beta, alpha * x)",
     infer_same,
     [](const OpCall& c) {
       map_float(c, "x", [a = alpha(c), b = beta(c)](float x) { return std::min(x < 0 ? a * x : x, b); });
     }},
    {"elu", kAlpha, "x where it is positive, else alpha * (e^x - 1)", infer_same,
     [](const OpCall& c) {
       map_float(c, "x", [a = alpha(c)](float x) { return x < 0 ? a * std::expm1(x) : x; });
     }},
    {"gelu",
     {{Opset::ios15, {{"x", kFloat, 'T'}, {"mode", kString, 0, kOptional | kConst, "EXACT"}}}},
     "x times the normal distribution function of x, exact or in one of two approximations",
     infer_gelu,
     [](const OpCall& c) { map_float(c, "x", gelu_mode(c)); }},
    {"leaky_relu", kAlpha, "x where it is not negative, else alpha * x", infer_same,
     [](const OpCall& c) { map_float(c, "x", [a = alpha(c)](float x) { return x < 0 ? a * x : x; }); }},
    {"linear_activation", kAlphaBeta, "alpha * x + beta", infer_same,
     [](const OpCall& c) { map_float(c, "x", [a = alpha(c), b = beta(c)](float x) { return a * x + b; }); }},
    {"prelu", kAlpha, "leaky_relu with one alpha per channel", infer_prelu, run_prelu},
    {"relu", kPlain, "max(x, 0)", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return x < 0 ? 0.0f : x; }); }},
    {"relu6", kPlain, "min(max(x, 0), 6)", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return x < 0   ? 0.0f
                                                                  : x > 6 ? 6.0f
                                                                          : x; }); }},
    {"scaled_tanh", kAlphaBeta, "alpha * tanh(beta * x)", infer_same,
     [](const OpCall& c) {
       map_float(c, "x", [a = alpha(c), b = beta(c)](float x) { return a * std::tanh(b * x); });
     }},
    {"sigmoid", kPlain, "1 / (1 + e^-x)", infer_same, [](const OpCall& c) { map_float(c, "x", sigmoid); }},
    {"sigmoid_hard", kAlphaBeta, "min(max(alpha * x + beta, 0), 1)", infer_same,
     [](const OpCall& c) {
       map_float(c, "x", [a = alpha(c), b = beta(c)](float x) {
         const float y = a * x + b;
         return y < 0 ? 0.0f : y > 1 ? 1.0f : y;
       });
     }},
    {"silu", kPlain, "x * sigmoid(x)", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return x / (1 + std::exp(-x)); }); }},
    {"softplus", kPlain, "log(1 + e^x)", infer_same, [](const OpCall& c) { map_float(c, "x", softplus); }},
    {"softplus_parametric", kAlphaBeta, "alpha * log(1 + e^(beta * x)) with one alpha and beta per channel",
     infer_softplus_parametric, run_softplus_parametric},
    {"softsign", kPlain, "x / (1 + |x|)", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return x / (1 + std::fabs(x)); }); }},
    {"thresholded_relu", kAlpha, "x where it is at least alpha, else 0", infer_same,
     [](const OpCall& c) { map_float(c, "x", [a = alpha(c)](float x) { return x < a ? 0.0f : x; }); }},
};

}  // namespace

std::span<const Op> ops_activation() { return kOps; }

}  // namespace anemone::ops
