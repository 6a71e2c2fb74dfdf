#include "engine/op_kernels.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "engine/convolution.h"
#include "engine/kernel_choice.h"
#include "engine/packed_product.h"
#include "engine/weight_rows.h"
#include "kernels/attention.h"
#include "kernels/chains.h"
#include "kernels/gemm.h"
#include "kernels/matvec.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
#include "mil/loops.h"
#include "mil/reduce.h"
#include "mil/rules.h"

namespace anemone {
namespace {

// out = f(x), a stretch at a time.
template <class F>
void map_stretches(const OpCall& c, F f) {
  const float* x = c.floats("x");
  float* out = c.out_floats();
  c.pool().parallel_for(c.out_type().size(), kMapGrain,
                        [&](int64_t begin, int64_t end) { f(x + begin, end - begin, out + begin); });
}

void run_gelu(const OpCall& c) {
  const GeluMode mode = gelu_mode(c.text("mode"));
  map_stretches(c, [mode](const float* x, int64_t n, float* out) { map_gelu(mode, x, n, out); });
}

void run_sigmoid(const OpCall& c) {
  map_stretches(c, [](const float* x, int64_t n, float* out) { map_sigmoid(x, n, out); });
}

void run_tanh(const OpCall& c) {
  map_stretches(c, [](const float* x, int64_t n, float* out) { map_tanh(x, n, out); });
}

void run_silu(const OpCall& c) {
  map_stretches(c, [](const float* x, int64_t n, float* out) { gate(x, nullptr, n, out); });
}

void run_relu(const OpCall& c) {
  constexpr float kMost = std::numeric_limits<float>::infinity();
  map_stretches(c, [](const float* x, int64_t n, float* out) { map_clamp(x, n, 0, kMost, out); });
}

void run_relu6(const OpCall& c) {
  map_stretches(c, [](const float* x, int64_t n, float* out) { map_clamp(x, n, 0, 6, out); });
}

void run_softmax(const OpCall& c) {
  const int64_t axis = c.integer("axis"), rank = c.out_type().rank();
  if (axis != -1 && axis != rank - 1) return find_op("softmax")->run(c);
  if (c.out_type().size() == 0) return;
  const int64_t n = c.out_type().shape.back().size();
  const float* x = c.floats("x");
  float* out = c.out_floats();
  c.pool().parallel_for(c.out_type().size() / n, std::max<int64_t>(1, kMapGrain / n),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            std::copy_n(x + r * n, n, out + r * n);
                            softmax(out + r * n, n);
                          }
                        });
}

// The rows that are normalized lie together: the axes are the last ones.
void run_layer_norm(const OpCall& c) {
  const std::vector<int64_t> dims = c.out_type().dims();
  std::vector<int> axes = axes_or_all(c);
  std::sort(axes.begin(), axes.end());
  int64_t n = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int>(dims.size() - axes.size() + i)) return find_op("layer_norm")->run(c);
    n *= dims[static_cast<size_t>(axes[i])];
  }
  if (c.out_type().size() == 0) return;
  const float* x = c.floats("x");
  const float* gamma = c.has("gamma") ? c.floats("gamma") : nullptr;
  const float* beta = c.has("beta") ? c.floats("beta") : nullptr;
  const double epsilon = c.number("epsilon");
  float* out = c.out_floats();
  c.pool().parallel_for(c.out_type().size() / n, std::max<int64_t>(1, kMapGrain / n),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r)
                            layer_norm(x + r * n, n, gamma, beta, epsilon, out + r * n);
                        });
}

void run_max_pool(const OpCall& c) {
  const std::vector<int64_t> x = c.type("x").dims(), out = c.out_type().dims();
  if (x.size() != 4) return find_op("max_pool")->run(c);
  if (c.out_type().size() == 0) return;
  std::string pad_type(c.text("pad_type"));
  for (char& ch : pad_type) ch = ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch + 32) : ch;
  const std::vector<int64_t> kernel = c.integers("kernel_sizes"), strides = c.integers_or("strides", 2, 1),
                             pad = c.integers_or("pad", 4, 0), dilations = {1, 1};
  const Window sides = sliding_window(std::span(c.type("x").shape).subspan(2), pad_type, kernel, strides,
                                      dilations, pad, c.flag("ceil_mode"));
  const DepthwisePlane plane{.height = x[2],
                             .width = x[3],
                             .out_height = out[2],
                             .out_width = out[3],
                             .kernel = {kernel[0], kernel[1]},
                             .stride = {strides[0], strides[1]},
                             .before = {sides.before[0], sides.before[1]}};
  c.pool().parallel_for(x[0] * x[1], 1, [&](int64_t begin, int64_t end) {
    thread_local DepthwiseRoom room;
    for (int64_t i = begin; i < end; ++i)
      max_pool(plane, c.floats("x") + i * x[2] * x[3], room, c.out_floats() + i * out[2] * out[3]);
  });
}

void run_convolution(const OpCall& c) {
  if (c.out_type().size() == 0) return;
  Convolution(c, c.out_type(), false)
      .run(c.pool(), c.floats("x"), c.has("bias") ? c.floats("bias") : nullptr, nullptr, {}, c.out_floats());
}

// A few positions over the rows of the weight as they are stored.
void run_few(const OpCall& c, const WeightRows& weight, int64_t k, int64_t positions) {
  const float* bias = c.has("bias") ? c.floats("bias") : nullptr;
  const int64_t rows = weight.rows();
  c.pool().parallel_for(rows, WeightRows::kMost, [&](int64_t begin, int64_t end) {
    WeightRows::Room room;
    float tile[WeightRows::kMost * kMostPositions];
    for (int64_t row = begin; row < end; row += WeightRows::kMost) {
      const int64_t count = std::min(WeightRows::kMost, end - row);
      weight.prepare(row, count, room);
      for (int64_t t = 0; t < positions; t += kMostVectors)
        weight.multiply(room, count, c.floats("x") + t * k, std::min(kMostVectors, positions - t),
                        tile + t * WeightRows::kMost, WeightRows::kMost);
      for (int64_t t = 0; t < positions; ++t)
        for (int64_t i = 0; i < count; ++i) {
          const float sum =
              tile[t * WeightRows::kMost + i] * (weight.scaled() ? weight.scale(row + i) : 1.0f);
          c.out_floats()[t * rows + row + i] = sum + (bias ? bias[row + i] : 0.0f);
        }
    }
  });
}

// x [positions, k] times the weight's rows; results lie as [positions, rows].
void run_linear(const OpCall& c) {
  const std::vector<int64_t> w = c.type("weight").dims();
  const std::shared_ptr<const StoredTensor>& stored = c.stored("weight");
  const int64_t rows = w[0], k = w[1], positions = rows == 0 ? 0 : c.out_type().size() / rows;
  if (!stored || k == 0 || positions == 0 || !c.type("x").is_float() || !c.type("weight").is_float())
    return find_op("linear")->run(c);
  if (positions <= kMostPositions) {
    const WeightRows weight(stored, rows, k);
    return weight.in_place() ? run_few(c, weight, k, positions) : find_op("linear")->run(c);
  }
  const float* x = c.floats("x");
  const float* bias = c.has("bias") ? c.floats("bias") : nullptr;
  float* out = c.out_floats();
  PackedProduct(stored, rows, k)
      .run(
          c.pool(), positions,
          [&](int64_t from, int64_t depth, int64_t first, int64_t count, float* packed) {
            pack_columns({x + first * k + from, 1, k}, count, depth, packed);
          },
          [&](int64_t row, int64_t n, int64_t first, int64_t count, const float* results, int64_t stride) {
            transpose(results, stride, n, count, bias ? bias + row : nullptr, out + first * rows + row, rows);
          });
}

}  // namespace

GeluMode gelu_mode(std::string_view name) {
  if (name == "EXACT") return GeluMode::exact;
  return name == "TANH_APPROXIMATION" ? GeluMode::tanh : GeluMode::sigmoid;
}

void (*find_op_kernel(const OpBinding& binding))(const OpCall&) {
  static const std::map<std::string_view, void (*)(const OpCall&)> kKernels = {
      {"gelu", run_gelu},         {"sigmoid", run_sigmoid},
      {"tanh", run_tanh},         {"silu", run_silu},
      {"relu", run_relu},         {"relu6", run_relu6},
      {"softmax", run_softmax},   {"linear", run_linear},
      {"max_pool", run_max_pool}, {"layer_norm", run_layer_norm},
  };
  if (Convolution::takes(binding)) return run_convolution;
  const auto it = kKernels.find(binding.op->name);
  return it == kKernels.end() ? nullptr : it->second;
}

}  // namespace anemone
