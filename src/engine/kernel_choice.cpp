#include "engine/kernel_choice.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/op_kernels.h"
#include "engine/patterns.h"
#include "kernels/matvec.h"

namespace anemone {
namespace {

// A 1x1 convolution of a few positions, over the weight as it is stored.
void run_conv1x1(const OpCall& c) {
  const StoredTensor& stored = *c.tiles("weight").stored();
  const StoredTensor::Layout layout = stored.layout();
  const WeightKind kind = *weight_kind(&stored);
  const int64_t rows = stored.type().shape[0].size(), k = stored.type().shape[1].size();
  const int64_t positions = c.out_type().size() / rows;
  const int64_t bytes = weight_bits(kind) / 8;
  // Vectors one after the other: the input has its channels apart.
  const float* x = c.floats("x");
  std::vector<float> vectors;
  if (positions > 1) {
    vectors.resize(static_cast<size_t>(k * positions));
    for (int64_t i = 0; i < k; ++i)
      for (int64_t t = 0; t < positions; ++t) vectors[static_cast<size_t>(t * k + i)] = x[i * positions + t];
    x = vectors.data();
  }
  const float* bias = c.has("bias") ? c.floats("bias") : nullptr;
  float* out = c.out_floats();
  c.pool().parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    constexpr int64_t kRows = 64;
    float tile[kRows * kMostPositions];
    for (int64_t r = begin; r < end; r += kRows) {
      const int64_t n = std::min(kRows, end - r);
      for (int64_t t = 0; t < positions; t += kMostVectors)
        matvec(kind, layout.data + r * k * bytes, n, k, x + t * k, std::min(kMostVectors, positions - t),
               tile + t * kRows, kRows);
      for (int64_t i = 0; i < n; ++i) {
        const float scale = layout.scale ? layout.scale[(r + i) / layout.rows_per_scale] : 1.0f;
        const float add = bias ? bias[r + i] : 0.0f;
        for (int64_t t = 0; t < positions; ++t)
          out[(r + i) * positions + t] = scale * tile[t * kRows + i] + add;
      }
    }
  });
}

}  // namespace

std::optional<WeightKind> weight_kind(const StoredTensor* stored) {
  if (!stored) return std::nullopt;
  const StoredTensor::Layout layout = stored->layout();
  if (!layout.data || layout.offset || layout.indices() || layout.columns_per_scale > 0) return std::nullopt;
  if (layout.dtype == DType::fp16) return WeightKind::fp16;
  if (layout.dtype == DType::fp32) return WeightKind::fp32;
  if (layout.dtype == DType::int8) return WeightKind::int8;
  return std::nullopt;
}

const Operand* find_operand(const OpBinding& b, std::string_view name) {
  for (size_t p = 0; p < b.version->params.size(); ++p)
    if (b.version->params[p].name == name && b.ranges[p].count == 1) return &b.operands[b.ranges[p].begin];
  return nullptr;
}

bool is_conv1x1(const OpBinding& b, std::span<const Type> out) {
  if (b.op->name != "conv") return false;
  const Operand* weight = find_operand(b, "weight");
  const Operand* x = find_operand(b, "x");
  if (!weight || !x || !weight->stored) return false;
  const Shape& w = weight->type.shape;
  for (size_t i = 2; i < w.size(); ++i)
    if (w[i] != Dim(1)) return false;
  // One image, as many channels in as the weight has (one group), and positions unchanged (no stride, no
  // padding).
  if (x->type.dim(0) != Dim(1) || x->type.dim(1) != w[1]) return false;
  for (int i = 2; i < x->type.rank(); ++i)
    if (x->type.dim(i) != out[0].dim(i)) return false;
  // With padding, a stride can leave as many positions as there were.
  const Operand* strides = find_operand(b, "strides");
  if (!strides) return true;
  if (!strides->constant) return false;
  const std::vector<int32_t> steps = decode_ints(*stored_constant(*strides->constant));
  return std::all_of(steps.begin(), steps.end(), [](int32_t step) { return step == 1; });
}

void (*choose_kernel(const OpBinding& binding, std::span<const Type> out_types))(const OpCall&) {
  if (!binding.op->run) throw errorf("'{}' cannot be run here", binding.op->name);
  if (is_conv1x1(binding, out_types)) {
    const Operand* weight = find_operand(binding, "weight");
    const int64_t rows = weight->type.shape[0].size();
    if (rows > 0 && weight_kind(weight->stored.get()) && out_types[0].size() / rows <= kMostPositions)
      return run_conv1x1;
  }
  const auto faster = find_op_kernel(binding);
  return faster ? faster : binding.op->run;
}

void fuse_steps(PlanEdit& edit) {
  fuse_cache_writes(edit);
  fuse_attention(edit);
  if (!edit.half()) fuse_convolutions(edit);
  if (!edit.half()) fuse_chains(edit);
  fuse_projections(edit);
}

}  // namespace anemone
