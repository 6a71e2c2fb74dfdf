// layer_norm: normalisation over any axes.
#include <cmath>

#include "base/error.h"
#include "mil/reduce.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  const Type& x = c.type("x");
  Shape normalised;
  for (const int axis : axes_or_all(c)) normalised.push_back(x.dim(axis));
  const Type wanted = Type::tensor(x.dtype, normalised);
  for (const std::string_view param : {"gamma", "beta"})
    if (c.has(param) && !compatible(Type::tensor(x.dtype, c.type(param).shape), wanted))
      throw errorf("'{}' does not have the shape of the axes that are normalized", param)
          .found(shape_text(c.type(param).shape))
          .expected(shape_text(normalised));
  return {Type::tensor(x.dtype, x.shape)};
}

void run(const OpCall& c) {
  if (c.out_type().size() == 0) return;
  const Reduction reduction(c.out_type().dims(), axes_or_all(c));
  const float* x = c.floats("x");
  const float* gamma = c.has("gamma") ? c.floats("gamma") : nullptr;
  const float* beta = c.has("beta") ? c.floats("beta") : nullptr;
  const double epsilon = c.number("epsilon"), n = static_cast<double>(reduction.count());
  float* out = c.out_floats();
  using Columns = std::array<double, Reduction::kColumns>;
  const int64_t run = reduction.run();
  reduction.for_blocks(c.pool(), [&](int64_t, int64_t base, int64_t width) {
    Columns mean{}, squares{};
    // One of run and width is 1, so that i + j walks along what lies together.
    const auto each = [&](auto f) {
      reduction.walk([&](int64_t offset, int64_t index) {
        for (int64_t i = 0; i < run; ++i)
          for (int64_t j = 0; j < width; ++j) f(base + offset + i + j, index + i, static_cast<size_t>(j));
      });
    };
    each([&](int64_t at, int64_t, size_t j) { mean[j] += static_cast<double>(x[at]); });
    for (double& m : mean) m /= n;
    each([&](int64_t at, int64_t, size_t j) {
      const double d = static_cast<double>(x[at]) - mean[j];
      squares[j] += d * d;
    });
    Columns scale;
    for (size_t j = 0; j < scale.size(); ++j) scale[j] = 1 / std::sqrt(squares[j] / n + epsilon);
    each([&](int64_t at, int64_t k, size_t j) {
      const auto y = static_cast<float>((static_cast<double>(x[at]) - mean[j]) * scale[j]);
      out[at] = (gamma ? gamma[k] : 1.0f) * y + (beta ? beta[k] : 0.0f);
    });
  });
}

// As for the other normalisations, packages mix fp16 and fp32 here: a default epsilon is fp32.
const std::vector<Param> kParams = {{"x", kFloat},
                                    {"axes", kInt32, 0, kOptional | kConst},
                                    {"gamma", kFloat, 0, kOptional | kConst},
                                    {"beta", kFloat, 0, kOptional | kConst},
                                    {"epsilon", kFloat, 0, kOptional | kConst, 1e-5}};

const Op kOps[] = {
    {"layer_norm",
     {{Opset::ios15, kParams}, {Opset::ios17, kParams}},
     "gamma * (x - mean) / sqrt(variance + epsilon) + beta, the moments taken over the axes, or over all",
     infer,
     run},
};

}  // namespace

std::span<const Op> ops_layer_norm() { return kOps; }

}  // namespace anemone::ops
