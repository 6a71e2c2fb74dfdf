// cumsum: running sums along an axis.
#include <algorithm>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  normal_axis(c.integer("axis"), c.type("x").rank(), "axis");
  return {Type::tensor(c.type("x").dtype, c.type("x").shape)};
}

// One line of n elements, `stride` apart; Sum is double, or unsigned so that integers wrap around.
template <class Sum, class T>
void sum_line(const T* x, T* out, int64_t n, int64_t stride, bool exclusive, bool reverse) {
  Sum sum{};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (reverse ? n - 1 - i : i) * stride;
    const T value = x[at];
    if (exclusive) out[at] = static_cast<T>(sum);
    sum += static_cast<Sum>(value);
    if (!exclusive) out[at] = static_cast<T>(sum);
  }
}

void run(const OpCall& c) {
  const std::vector<int64_t> dims = c.out_type().dims();
  const int64_t count = c.out_type().size();
  if (count == 0) return;
  const auto axis = static_cast<size_t>(normal_axis(c.integer("axis"), c.out_type().rank(), "axis"));
  const int64_t n = dims[axis], stride = dense_strides(dims)[axis];
  const bool exclusive = c.flag("exclusive"), reverse = c.flag("reverse"), is_float = c.out_type().is_float();
  c.pool().parallel_for(count / n, std::max<int64_t>(1, kMapGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t base = line / stride * stride * n + line % stride;
      if (is_float)
        sum_line<double>(c.floats("x") + base, c.out_floats() + base, n, stride, exclusive, reverse);
      else
        sum_line<uint32_t>(c.ints("x") + base, c.out_ints() + base, n, stride, exclusive, reverse);
    }
  });
}

const Op kOps[] = {
    {"cumsum",
     {{Opset::ios15,
       {{"x", kNumber, 'T'},
        {"axis", kInt32, 0, kOptional | kConst, int64_t{0}},
        {"exclusive", kBool, 0, kOptional | kConst, false},
        {"reverse", kBool, 0, kOptional | kConst, false}}}},
     "sums of the elements up to each place along the axis, that place included or not, from either end",
     infer,
     run},
};

}  // namespace

std::span<const Op> ops_cumsum() { return kOps; }

}  // namespace anemone::ops
