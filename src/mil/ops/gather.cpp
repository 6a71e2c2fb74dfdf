// Elements picked by index: gather, gather_along_axis, gather_nd. x may be a stored weight, such as an
// embedding table: only the rows that are asked for are decoded.
#include <algorithm>
#include <cstring>
#include <utility>

#include "mil/indices.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// 4-byte elements of x, dense or stored.
void copy(const Tiles& x, int64_t begin, int64_t count, uint32_t* out) {
  if (x.stored())
    x.stored()->read(begin, begin + count, out);
  else
    std::memcpy(out, x.dense() + begin, static_cast<size_t>(count) * 4);
}

int64_t batch_dims(const OpCall& c, int most) {
  const int64_t b = c.since() == Opset::ios15 ? 0 : c.integer("batch_dims");
  if (b < 0 || b > most)
    throw errorf("'batch_dims' is out of range")
        .found(fmt::format("{}", b))
        .expected(fmt::format("0 to {}", most));
  return b;
}

void check_batch(const OpCall& c, int64_t count) {
  for (int i = 0; i < count; ++i)
    check_same(c.type("x").dim(i), c.type("indices").dim(i), "the batch dimensions of 'x' and 'indices'");
}

Types infer_gather(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& indices = c.type("indices");
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  const int64_t batch = batch_dims(c, std::min(axis, indices.rank()));
  check_batch(c, batch);
  Shape out(x.shape.begin(), x.shape.begin() + axis);
  out.insert(out.end(), indices.shape.begin() + batch, indices.shape.end());
  out.insert(out.end(), x.shape.begin() + axis + 1, x.shape.end());
  return {Type::tensor(x.dtype, out)};
}

void run_gather(const OpCall& c) {
  if (c.out_type().size() == 0) return;
  const std::vector<int64_t> x = c.type("x").dims(), indices = c.type("indices").dims();
  const auto axis = static_cast<size_t>(normal_axis(c.integer("axis"), static_cast<int>(x.size()), "axis"));
  const auto batch = static_cast<size_t>(batch_dims(c, static_cast<int>(std::min(axis, indices.size()))));
  const int64_t middle = span_size(x, batch, axis), inner = span_size(x, axis + 1, x.size());
  const int64_t count = span_size(indices, batch, indices.size()), rows = c.out_type().size() / inner;
  const Tiles tiles = c.tiles("x");
  const int32_t* index = c.ints("indices");
  const bool wrap = wraps(c);
  auto* out = static_cast<uint32_t*>(c.out());
  c.pool().parallel_for(rows, std::max<int64_t>(1, kMapGrain / inner), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t outer = row / count, i = row % count;
      const int64_t at = checked_index(index[outer / middle * count + i], x[axis], wrap);
      copy(tiles, (outer * x[axis] + at) * inner, inner, out + row * inner);
    }
  });
}

Types infer_along_axis(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& indices = c.type("indices");
  if (x.rank() != indices.rank())
    throw errorf("'x' and 'indices' must have the same rank")
        .found(fmt::format("{} and {}", x.text(), indices.text()));
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && x.dim(i).known() && indices.dim(i).known() && indices.dim(i).size() > x.dim(i).size())
      throw errorf("'indices' is larger than 'x' along dimension {}", i)
          .found(indices.dim(i).text())
          .expected(x.dim(i).text());
  return {Type::tensor(x.dtype, indices.shape)};
}

void run_along_axis(const OpCall& c) {
  if (c.out_type().size() == 0) return;
  const std::vector<int64_t> x = c.type("x").dims(), dims = c.out_type().dims();
  const auto axis = static_cast<size_t>(normal_axis(c.integer("axis"), static_cast<int>(x.size()), "axis"));
  std::vector<int64_t> strides[] = {dense_strides(x)};
  const int64_t step = std::exchange(strides[0][axis], 0);
  const Tiles tiles = c.tiles("x");
  const int32_t* index = c.ints("indices");
  const bool wrap = wraps(c);
  auto* out = static_cast<uint32_t*>(c.out());
  c.pool().parallel_for(c.out_type().size(), kMapGrain, [&](int64_t begin, int64_t end) {
    Walker walk(dims, strides);
    walk.seek(begin);
    for (int64_t i = begin; i < end; ++i, walk.next())
      copy(tiles, walk.offset(0) + checked_index(index[i], x[axis], wrap) * step, 1, out + i);
  });
}

Types infer_nd(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& indices = c.type("indices");
  const int64_t batch = batch_dims(c, std::min(x.rank(), std::max(0, indices.rank() - 1)));
  const size_t depth = tuple_length(c, x.rank() - static_cast<int>(batch));
  check_batch(c, batch);
  Shape out(indices.shape.begin(), indices.shape.end() - 1);
  out.insert(out.end(), x.shape.begin() + batch + static_cast<int64_t>(depth), x.shape.end());
  return {Type::tensor(x.dtype, out)};
}

void run_nd(const OpCall& c) {
  if (c.out_type().size() == 0) return;
  const std::vector<int64_t> x = c.type("x").dims(), indices = c.type("indices").dims();
  const auto batch =
      static_cast<size_t>(batch_dims(c, static_cast<int>(std::min(x.size(), indices.size() - 1))));
  const auto depth = static_cast<size_t>(indices.back());
  const int64_t slices = span_size(x, batch, batch + depth), inner = span_size(x, batch + depth, x.size());
  const int64_t per_batch = span_size(indices, batch, indices.size() - 1), rows = c.out_type().size() / inner;
  const Tiles tiles = c.tiles("x");
  const int32_t* index = c.ints("indices");
  const bool wrap = wraps(c);
  auto* out = static_cast<uint32_t*>(c.out());
  c.pool().parallel_for(rows, std::max<int64_t>(1, kMapGrain / inner), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = tuple_offset(index + row * static_cast<int64_t>(depth), x, batch, depth, wrap);
      copy(tiles, (row / per_batch * slices + at) * inner, inner, out + row * inner);
    }
  });
}

constexpr DTypes kIndices16 = kInt32 | kInt16;
const Param kX{"x", kNumberOrBool, 0, kStored}, kWideX{"x", kWideOrBool, 0, kStored};
const Param kAxis{"axis", kInt32, 0, kOptional | kConst, int64_t{0}};
const Param kBatchDims{"batch_dims", kInt32, 0, kOptional | kConst, int64_t{0}};
const Param kValidate{"validate_indices", kBool, 0, kOptional | kConst, false};

const Op kOps[] = {
    {"gather",
     {{Opset::ios15, {kX, {"indices", kInt32}, kAxis}},
      {Opset::ios16, {kX, {"indices", kIndices16}, kAxis, kBatchDims}},
      {Opset::ios17, {kWideX, {"indices", kIndex}, kAxis, kBatchDims, kValidate}}},
     "the slices of x along `axis` that `indices` name",
     infer_gather,
     run_gather},
    {"gather_along_axis",
     {{Opset::ios15, {kX, {"indices", kInt32}, kAxis}},
      {Opset::ios16, {kX, {"indices", kIndices16}, kAxis}},
      {Opset::ios17, {kWideX, {"indices", kIndex}, kAxis, kValidate}}},
     "for each index, the element of x at its own place but for `axis`",
     infer_along_axis,
     run_along_axis},
    {"gather_nd",
     {{Opset::ios15, {kX, {"indices", kInt32}}},
      {Opset::ios16, {kX, {"indices", kIndices16}, kBatchDims}},
      {Opset::ios17, {kWideX, {"indices", kIndex}, kBatchDims, kValidate}}},
     "the slices of x that tuples of indices name",
     infer_nd,
     run_nd},
};

}  // namespace

std::span<const Op> ops_gather() { return kOps; }

}  // namespace anemone::ops
