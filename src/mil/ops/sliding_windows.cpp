// All windows of a tensor along an axis.
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  const Type& x = c.type("x");
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  const int64_t size = c.integer("size"), stride = c.integer("stride");
  if (size < 1 || stride < 1) throw errorf("'size' and 'stride' must be positive");
  const Dim length = x.dim(axis);
  if (length.known() && length.size() < size)
    throw errorf("a window of {} does not fit in dimension {} of size {}", size, axis, length.size());
  Shape out = x.shape;
  out[static_cast<size_t>(axis)] = length.known()             ? Dim((length.size() - size) / stride + 1)
                                   : size == 1 && stride == 1 ? length
                                                              : Dim::unknown();
  out.insert(out.begin() + axis + 1, Dim(size));
  return {Type::tensor(x.dtype, out)};
}

void run(const OpCall& c) {
  const Type& x = c.type("x");
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  std::vector<int64_t> strides = dense_strides(x.dims());
  const int64_t along = strides[static_cast<size_t>(axis)];
  strides[static_cast<size_t>(axis)] = along * c.integer("stride");
  strides.insert(strides.begin() + axis + 1, along);
  copy_strided(c.pool(), c.data("x"), 0, strides, c.out_type().dims(), c.out());
}

std::vector<Param> params(DTypes x) {
  return {{"x", x, 'T'},
          {"axis", kInt32, 0, kConst},
          {"size", kInt32, 0, kConst},
          {"stride", kInt32, 0, kOptional | kConst, int64_t{1}}};
}

const Op kOps[] = {{
    "sliding_windows",
    {{Opset::ios15, params(kNumber)}, {Opset::ios17, params(kWideOrBool)}},
    "the windows of `size` elements along an axis, `stride` apart, as a new dimension after it",
    infer,
    run,
}};

}  // namespace

std::span<const Op> ops_sliding_windows() { return kOps; }

}  // namespace anemone::ops
