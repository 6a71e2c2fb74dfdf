// Where a tensor is not zero.
#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// Calls f(position) for each element that is not zero; -0.0 is zero, NaN is not.
template <class F>
void for_non_zero(const OpCall& c, F f) {
  const Type& x = c.type("x");
  const int64_t count = x.size();
  const void* data = c.data("x");
  for (int64_t i = 0; i < count; ++i)
    if (x.is_float() ? static_cast<const float*>(data)[i] != 0 : static_cast<const int32_t*>(data)[i] != 0)
      f(i);
}

Types infer(const OpCall& c) {
  Dim count = Dim::unknown();
  if (c.known("x") && c.type("x").fixed()) {
    int64_t n = 0;
    for_non_zero(c, [&](int64_t) { ++n; });
    count = n;
  }
  return {Type::tensor(DType::int32, {count, Dim(c.type("x").rank())})};
}

void run(const OpCall& c) {
  const std::vector<int64_t> dims = c.type("x").dims();
  int32_t* out = c.out_ints();
  for_non_zero(c, [&](int64_t position) {
    for (size_t d = dims.size(); d-- > 0;) {
      out[d] = static_cast<int32_t>(position % dims[d]);
      position /= dims[d];
    }
    out += dims.size();
  });
}

const Op kOps[] = {{
    "non_zero",
    {{Opset::ios15, {{"x", kNumberOrBool, 'T'}}}},
    "the index of each element that is not zero, one a row, in row-major order",
    infer,
    run,
}};

}  // namespace

std::span<const Op> ops_non_zero() { return kOps; }

}  // namespace anemone::ops
