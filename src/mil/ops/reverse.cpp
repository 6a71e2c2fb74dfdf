// Elements in the opposite order along some dimensions.
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// Which dimensions are reversed; one named twice is back in its order.
std::vector<bool> reversed(const OpCall& c) {
  const Type& x = c.type("x");
  if (!c.has("axes")) return std::vector<bool>(x.shape.size(), true);
  std::vector<bool> out(x.shape.size(), false);
  for (const int64_t axis : c.integers("axes"))
    out[static_cast<size_t>(normal_axis(axis, x.rank(), "axes"))].flip();
  return out;
}

Types infer_reverse(const OpCall& c) {
  reversed(c);
  return {c.type("x")};
}

void run_reverse(const OpCall& c) {
  const std::vector<int64_t> dims = c.type("x").dims();
  if (c.type("x").size() == 0) return;
  std::vector<int64_t> strides = dense_strides(dims);
  const std::vector<bool> flip = reversed(c);
  int64_t base = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!flip[i]) continue;
    base += (dims[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  copy_strided(c.pool(), c.data("x"), base, strides, dims, c.out());
}

Types infer_sequence(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& lengths = c.type("lengths");
  const int seq = normal_axis(c.integer("seq_axis"), x.rank(), "seq_axis");
  const int batch = normal_axis(c.integer("batch_axis"), x.rank(), "batch_axis");
  if (seq == batch) throw errorf("'seq_axis' and 'batch_axis' must differ").found(fmt::format("{}", seq));
  if (lengths.rank() != 1) throw errorf("'lengths' must be a vector").found(lengths.text());
  merged(x.dim(batch), lengths.dim(0));
  return {x};
}

void run_sequence(const OpCall& c) {
  const Type& x = c.type("x");
  const std::vector<int64_t> dims = x.dims();
  const auto seq = static_cast<size_t>(normal_axis(c.integer("seq_axis"), x.rank(), "seq_axis"));
  const auto batch = static_cast<size_t>(normal_axis(c.integer("batch_axis"), x.rank(), "batch_axis"));
  const std::vector<int64_t> lengths = c.integers("lengths");
  for (const int64_t length : lengths)
    if (length < 0 || length > dims[seq])
      throw errorf("'lengths' has an entry outside the sequence")
          .found(fmt::format("{}", length))
          .expected(fmt::format("0 to {}", dims[seq]));
  const std::vector<int64_t> strides[] = {dense_strides(dims)};
  const auto* in = static_cast<const uint32_t*>(c.data("x"));
  auto* out = static_cast<uint32_t*>(c.out());
  c.pool().parallel_for(x.size(), kMapGrain, [&](int64_t begin, int64_t end) {
    Walker walk(dims, strides);
    walk.seek(begin);
    for (int64_t i = begin; i < end; ++i, walk.next()) {
      const int64_t at = walk.index()[seq], length = lengths[static_cast<size_t>(walk.index()[batch])];
      out[i] = in[at < length ? i + (length - 1 - 2 * at) * strides[0][seq] : i];
    }
  });
}

constexpr DTypes kLength = kInt32 | only(DType::int8) | only(DType::int16);

std::vector<Param> sequence_params(DTypes x, DTypes lengths) {
  return {{"x", x, 'T'},
          {"lengths", lengths, 'U'},
          {"seq_axis", kInt32, 0, kOptional | kConst, int64_t{0}},
          {"batch_axis", kInt32, 0, kOptional | kConst, int64_t{0}}};
}

const Op kOps[] = {
    {"reverse",
     {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"axes", kInt32, 0, kOptional | kConst}}},
      {Opset::ios17, {{"x", kWideOrBool, 'T'}, {"axes", kInt32, 0, kOptional | kConst}}}},
     "x backwards along the axes given, or along all",
     infer_reverse,
     run_reverse},
    {"reverse_sequence",
     {{Opset::ios15, sequence_params(kNumberOrBool, kInt32)},
      {Opset::ios17, sequence_params(kWideOrBool, kLength)}},
     "for each entry b of the batch the first lengths[b] elements backwards",
     infer_sequence,
     run_sequence},
};

}  // namespace

std::span<const Op> ops_reverse() { return kOps; }

}  // namespace anemone::ops
