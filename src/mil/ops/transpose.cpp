// Another order of the dimensions.
#include <algorithm>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

std::vector<int> permutation(const OpCall& c) {
  const int rank = c.type("x").rank();
  std::vector<int> perm;
  for (const int64_t axis : c.integers("perm")) perm.push_back(normal_axis(axis, rank, "perm"));
  std::vector<int> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (perm.size() != static_cast<size_t>(rank) ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw errorf("'perm' must name each of the {} dimensions once", rank)
        .found(fmt::format("{} entries", perm.size()));
  return perm;
}

Types infer(const OpCall& c) {
  Shape out;
  for (const int axis : permutation(c)) out.push_back(c.type("x").dim(axis));
  return {Type::tensor(c.type("x").dtype, out)};
}

void run(const OpCall& c) {
  const std::vector<int64_t> dense = dense_strides(c.type("x").dims());
  std::vector<int64_t> strides;
  for (const int axis : permutation(c)) strides.push_back(dense[static_cast<size_t>(axis)]);
  copy_strided(c.pool(), c.data("x"), 0, strides, c.out_type().dims(), c.out());
}

// Only dimensions of one element change places: nothing moves.
std::optional<int64_t> view_at(const OpCall& c) {
  int before = -1;
  for (const int axis : permutation(c)) {
    if (c.type("x").dim(axis) == Dim(1)) continue;
    if (axis < before) return std::nullopt;
    before = axis;
  }
  return 0;
}

const Op kOps[] = {{
    .name = "transpose",
    .versions = {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"perm", kInt32, 0, kConst}}},
                 {Opset::ios17, {{"x", kWideOrBool, 'T'}, {"perm", kInt32, 0, kConst}}}},
    .doc = "x with dimension perm[i] as the i-th",
    .infer = infer,
    .run = run,
    .view_of = "x",
    .view_at = view_at,
}};

}  // namespace

std::span<const Op> ops_transpose() { return kOps; }

}  // namespace anemone::ops
