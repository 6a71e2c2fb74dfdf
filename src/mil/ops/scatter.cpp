// Elements put, or combined, by index: scatter, scatter_along_axis, scatter_nd. Updates to one place are
// applied in their order.
#include <algorithm>
#include <cstring>
#include <utility>

#include "mil/indices.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

enum class Mode { update, add, sub, mul, div, max, min };

Mode mode_of(const OpCall& c) {
  const std::string_view name = c.text("mode");
  static constexpr std::string_view kNames[] = {"update", "add", "sub", "mul", "div", "max", "min"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Mode>(i);
  throw errorf("unknown mode '{}'", name).expected("update, add, sub, mul, div, max or min");
}

void combine(Mode mode, float* to, const float* from, int64_t count) {
  switch (mode) {
    case Mode::update: std::copy_n(from, count, to); break;
    case Mode::add:
      for (int64_t i = 0; i < count; ++i) to[i] += from[i];
      break;
    case Mode::sub:
      for (int64_t i = 0; i < count; ++i) to[i] -= from[i];
      break;
    case Mode::mul:
      for (int64_t i = 0; i < count; ++i) to[i] *= from[i];
      break;
    case Mode::div:
      for (int64_t i = 0; i < count; ++i) to[i] /= from[i];
      break;
    case Mode::max:
      for (int64_t i = 0; i < count; ++i) to[i] = std::max(to[i], from[i]);
      break;
    case Mode::min:
      for (int64_t i = 0; i < count; ++i) to[i] = std::min(to[i], from[i]);
      break;
  }
}

// Integers wrap around; over zero they give 0, as in real_div.
int32_t combined(Mode mode, int64_t a, int64_t b) {
  int64_t out = b;
  switch (mode) {
    case Mode::update: break;
    case Mode::add: out = a + b; break;
    case Mode::sub: out = a - b; break;
    case Mode::mul: out = a * b; break;
    case Mode::div: out = b == 0 ? 0 : a / b; break;
    case Mode::max: out = std::max(a, b); break;
    case Mode::min: out = std::min(a, b); break;
  }
  return static_cast<int32_t>(static_cast<uint32_t>(out));
}

// Applies updates to slices of the output, which starts as a copy of `data`.
class Target {
 public:
  explicit Target(const OpCall& c) : mode_(mode_of(c)), is_float_(c.out_type().is_float()), out_(c.out()) {
    updates_ = c.data("updates");
    if (c.out_type().size())
      std::memcpy(c.out(), c.data("data"), static_cast<size_t>(c.out_type().size()) * 4);
  }

  void apply(int64_t to, int64_t from, int64_t count) const {
    if (is_float_)
      return combine(mode_, static_cast<float*>(out_) + to, static_cast<const float*>(updates_) + from,
                     count);
    int32_t* a = static_cast<int32_t*>(out_) + to;
    const int32_t* b = static_cast<const int32_t*>(updates_) + from;
    for (int64_t i = 0; i < count; ++i) a[i] = combined(mode_, a[i], b[i]);
  }

 private:
  Mode mode_;
  bool is_float_;
  void* out_;
  const void* updates_;
};

void check_updates(const OpCall& c, const Shape& expected) {
  const Type& updates = c.type("updates");
  if (!compatible(Type::tensor(updates.dtype, expected), updates))
    throw errorf("'updates' has the wrong shape").found(updates.text()).expected(shape_text(expected));
}

Types infer_scatter(const OpCall& c) {
  const Type& data = c.type("data");
  const Type& indices = c.type("indices");
  const int axis = normal_axis(c.integer("axis"), data.rank(), "axis");
  mode_of(c);
  Shape expected(data.shape.begin(), data.shape.begin() + axis);
  expected.insert(expected.end(), indices.shape.begin(), indices.shape.end());
  expected.insert(expected.end(), data.shape.begin() + axis + 1, data.shape.end());
  check_updates(c, expected);
  return {Type::tensor(data.dtype, data.shape)};
}

void run_scatter(const OpCall& c) {
  const Target target(c);
  if (c.type("updates").size() == 0) return;
  const std::vector<int64_t> dims = c.out_type().dims();
  const auto axis =
      static_cast<size_t>(normal_axis(c.integer("axis"), static_cast<int>(dims.size()), "axis"));
  const int64_t inner = span_size(dims, axis + 1, dims.size()), outer = span_size(dims, 0, axis);
  const int64_t count = c.type("indices").size();
  const int32_t* index = c.ints("indices");
  const bool wrap = wraps(c);
  c.pool().parallel_for(outer, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t i = 0; i < count; ++i)
        target.apply((o * dims[axis] + checked_index(index[i], dims[axis], wrap)) * inner,
                     (o * count + i) * inner, inner);
  });
}

Types infer_along_axis(const OpCall& c) {
  const Type& data = c.type("data");
  const Type& indices = c.type("indices");
  const int axis = normal_axis(c.integer("axis"), data.rank(), "axis");
  mode_of(c);
  if (data.rank() != indices.rank())
    throw errorf("'data' and 'indices' must have the same rank")
        .found(fmt::format("{} and {}", data.text(), indices.text()));
  for (int i = 0; i < data.rank(); ++i)
    if (i != axis && data.dim(i).known() && indices.dim(i).known() &&
        indices.dim(i).size() > data.dim(i).size())
      throw errorf("'indices' is larger than 'data' along dimension {}", i)
          .found(indices.dim(i).text())
          .expected(data.dim(i).text());
  check_updates(c, indices.shape);
  return {Type::tensor(data.dtype, data.shape)};
}

void run_along_axis(const OpCall& c) {
  const Target target(c);
  const int64_t total = c.type("indices").size();
  if (total == 0) return;
  const std::vector<int64_t> dims = c.out_type().dims(), index_dims = c.type("indices").dims();
  const auto axis =
      static_cast<size_t>(normal_axis(c.integer("axis"), static_cast<int>(dims.size()), "axis"));
  std::vector<int64_t> strides[] = {dense_strides(dims)};
  const int64_t step = std::exchange(strides[0][axis], 0);
  const int32_t* index = c.ints("indices");
  const bool wrap = wraps(c);
  // Positions before the axis never meet.
  const int64_t outer = span_size(index_dims, 0, axis), part = total / outer;
  c.pool().parallel_for(outer, std::max<int64_t>(1, kMapGrain / part), [&](int64_t begin, int64_t end) {
    Walker walk(index_dims, strides);
    walk.seek(begin * part);
    for (int64_t i = begin * part; i < end * part; ++i, walk.next())
      target.apply(walk.offset(0) + checked_index(index[i], dims[axis], wrap) * step, i, 1);
  });
}

Types infer_nd(const OpCall& c) {
  const Type& data = c.type("data");
  const Type& indices = c.type("indices");
  mode_of(c);
  const size_t depth = tuple_length(c, data.rank());
  Shape expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.insert(expected.end(), data.shape.begin() + static_cast<int64_t>(depth), data.shape.end());
  check_updates(c, expected);
  return {Type::tensor(data.dtype, data.shape)};
}

void run_nd(const OpCall& c) {
  const Target target(c);
  if (c.type("updates").size() == 0) return;
  const std::vector<int64_t> dims = c.out_type().dims(), indices = c.type("indices").dims();
  const auto depth = static_cast<size_t>(indices.back());
  const int64_t inner = span_size(dims, depth, dims.size()), rows = span_size(indices, 0, indices.size() - 1);
  const int32_t* index = c.ints("indices");
  const bool wrap = wraps(c);
  for (int64_t row = 0; row < rows; ++row)
    target.apply(tuple_offset(index + row * indices.back(), dims, 0, depth, wrap) * inner, row * inner,
                 inner);
}

const Param kData{"data", kNumberOrBool, 'T'}, kUpdates{"updates", kNumberOrBool, 'T'},
    kIndices{"indices", kIndex};
const Param kAxis{"axis", kInt32, 0, kOptional | kConst, int64_t{0}};
const Param kMode{"mode", kString, 0, kOptional | kConst, "add"};
const Param kValidate{"validate_indices", kBool, 0, kOptional | kConst, false};

const Op kOps[] = {
    {"scatter",
     {{Opset::ios15, {kData, kIndices, kUpdates, kAxis, kMode}},
      {Opset::ios17, {kData, kIndices, kUpdates, kAxis, kMode, kValidate}}},
     "data with the slices along `axis` that `indices` name combined with updates",
     infer_scatter,
     run_scatter},
    {"scatter_along_axis",
     {{Opset::ios15, {kData, kIndices, kUpdates, kAxis, kMode}},
      {Opset::ios17, {kData, kIndices, kUpdates, kAxis, kMode, kValidate}}},
     "data with each update combined at its own place but for `axis`",
     infer_along_axis,
     run_along_axis},
    {"scatter_nd",
     {{Opset::ios15, {kData, kIndices, kUpdates, kMode}},
      {Opset::ios17, {kData, kIndices, kUpdates, kMode, kValidate}}},
     "data with the slices that tuples of indices name combined with updates",
     infer_nd,
     run_nd},
};

}  // namespace

std::span<const Op> ops_scatter() { return kOps; }

}  // namespace anemone::ops
