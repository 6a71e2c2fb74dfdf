// select: one of two tensors, element by element.
#include <algorithm>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  const Shape both = broadcast(c.type("a").shape, c.type("b").shape);
  return {Type::tensor(c.type("a").dtype, broadcast(c.type("cond").shape, both))};
}

void run(const OpCall& c) {
  std::vector<int64_t> dims = c.out_type().dims();
  const int64_t count = c.out_type().size();
  if (count == 0) return;
  const int32_t* cond = c.ints("cond");
  const auto* a = static_cast<const uint32_t*>(c.data("a"));
  const auto* b = static_cast<const uint32_t*>(c.data("b"));
  auto* out = static_cast<uint32_t*>(c.out());
  std::vector<int64_t> strides[] = {broadcast_strides(c.type("cond").dims(), dims),
                                    broadcast_strides(c.type("a").dims(), dims),
                                    broadcast_strides(c.type("b").dims(), dims)};
  join_dims(dims, strides);
  const int64_t row = dims.empty() ? 1 : dims.back();
  int64_t step[3] = {};
  for (size_t s = 0; s < 3; ++s) step[s] = dims.empty() ? 0 : strides[s].back();
  c.pool().parallel_for(count / row, std::max<int64_t>(1, kMapGrain / row), [&](int64_t begin, int64_t end) {
    Walker walk(dims, strides);
    for (int64_t r = begin; r < end; ++r) {
      walk.seek(r * row);
      const int32_t* pc = cond + walk.offset(0);
      const uint32_t *pa = a + walk.offset(1), *pb = b + walk.offset(2);
      uint32_t* po = out + r * row;
      for (int64_t i = 0; i < row; ++i) po[i] = pc[i * step[0]] != 0 ? pa[i * step[1]] : pb[i * step[2]];
    }
  });
}

const Op kOps[] = {
    {"select",
     {{Opset::ios15, {{"cond", kBool}, {"a", kNumberOrBool, 'T'}, {"b", kNumberOrBool, 'T'}}}},
     "a where cond is true, b elsewhere; the three broadcast",
     infer,
     run},
};

}  // namespace

std::span<const Op> ops_select() { return kOps; }

}  // namespace anemone::ops
