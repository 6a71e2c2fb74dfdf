// A tensor repeated along its dimensions.
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& reps = c.type("reps");
  if (reps.rank() != 1 || (reps.dim(0).known() && reps.dim(0) != Dim(x.rank())))
    throw errorf("'reps' must have one entry per dimension ({})", x.rank()).found(reps.text());
  if (!c.known("reps")) return {Type::tensor(x.dtype, Shape(x.shape.size(), Dim::unknown()))};
  Shape out;
  for (const int64_t rep : c.integers("reps")) {
    if (rep < 0) throw errorf("'reps' has a negative entry").found(fmt::format("{}", rep));
    out.push_back(scaled(x.shape[out.size()], rep));
  }
  return {Type::tensor(x.dtype, out)};
}

// Each dimension is walked as (repeat, position), where a repeat has stride 0. Dimensions of size 1 are left
// out so that the inner loop is as long as can be.
void run(const OpCall& c) {
  const std::vector<int64_t> dims = c.type("x").dims(), reps = c.integers("reps"),
                             dense = dense_strides(dims);
  std::vector<int64_t> sizes, strides;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (reps[i] != 1) {
      sizes.push_back(reps[i]);
      strides.push_back(0);
    }
    if (dims[i] != 1) {
      sizes.push_back(dims[i]);
      strides.push_back(dense[i]);
    }
  }
  copy_strided(c.pool(), c.data("x"), 0, strides, sizes, c.out());
}

const Op kOps[] = {{
    "tile",
    {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"reps", kInt32}}}},
    "x repeated reps[i] times along dimension i",
    infer,
    run,
}};

}  // namespace

std::span<const Op> ops_tile() { return kOps; }

}  // namespace anemone::ops
