// softmax along one axis.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

constexpr int64_t kColumns = 64;  // of the dimensions behind the axis, taken together

Types infer(const OpCall& c) {
  normal_axis(c.integer("axis"), c.type("x").rank(), "axis");
  return {Type::tensor(c.type("x").dtype, c.type("x").shape)};
}

// One row: the axis is the last dimension.
void softmax_row(const float* x, float* out, int64_t n) {
  float largest = x[0];
  for (int64_t i = 1; i < n; ++i) largest = std::max(largest, x[i]);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::exp(x[i] - largest);
    sum += static_cast<double>(out[i]);
  }
  const auto scale = static_cast<float>(1 / sum);
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

// `width` columns side by side, elements of one column `stride` apart.
void softmax_columns(const float* x, float* out, int64_t n, int64_t stride, int64_t width) {
  std::array<float, kColumns> largest;
  std::array<double, kColumns> sum{};
  std::copy_n(x, width, largest.begin());
  const auto at = [](auto& a, int64_t j) -> auto& { return a[static_cast<size_t>(j)]; };
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) at(largest, j) = std::max(at(largest, j), x[i * stride + j]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) {
      const float e = std::exp(x[i * stride + j] - at(largest, j));
      out[i * stride + j] = e;
      at(sum, j) += static_cast<double>(e);
    }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) out[i * stride + j] *= static_cast<float>(1 / at(sum, j));
}

void run(const OpCall& c) {
  const std::vector<int64_t> dims = c.out_type().dims();
  if (c.out_type().size() == 0) return;
  const int axis = normal_axis(c.integer("axis"), c.out_type().rank(), "axis");
  int64_t outer = 1, inner = 1;
  const int64_t n = dims[static_cast<size_t>(axis)];
  for (int i = 0; i < axis; ++i) outer *= dims[static_cast<size_t>(i)];
  for (size_t i = static_cast<size_t>(axis) + 1; i < dims.size(); ++i) inner *= dims[i];
  const float* x = c.floats("x");
  float* out = c.out_floats();
  if (inner == 1)
    return c.pool().parallel_for(outer, std::max<int64_t>(1, kMapGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) softmax_row(x + r * n, out + r * n, n);
    });
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  c.pool().parallel_for(outer * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t column = r % blocks * kColumns, base = r / blocks * n * inner + column;
      softmax_columns(x + base, out + base, n, inner, std::min(kColumns, inner - column));
    }
  });
}

const Op kOps[] = {
    {"softmax",
     {{Opset::ios15, {{"x", kFloat, 'T'}, {"axis", kInt32, 0, kOptional | kConst, int64_t{-1}}}}},
     "e^x over the sum of e^x along the axis",
     infer,
     run},
};

}  // namespace

std::span<const Op> ops_softmax() { return kOps; }

}  // namespace anemone::ops
