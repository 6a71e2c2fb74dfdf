// The band around the diagonal of each matrix.
#include <algorithm>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  if (c.type("x").rank() < 2) throw errorf("'x' must have at least 2 dimensions").found(c.type("x").text());
  return {c.type("x")};
}

void run(const OpCall& c) {
  const Type& x = c.type("x");
  const int64_t rows = x.dim(x.rank() - 2).size(), columns = x.dim(x.rank() - 1).size();
  if (x.size() == 0) return;
  const int64_t lower = c.integer("lower"), upper = c.integer("upper");
  const auto* in = static_cast<const uint32_t*>(c.data("x"));
  auto* out = static_cast<uint32_t*>(c.out());
  c.pool().parallel_for(
      x.size() / columns, std::max<int64_t>(1, kMapGrain / columns), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t m = r % rows;
          for (int64_t n = 0; n < columns; ++n) {
            const bool keep = (lower < 0 || m - n <= lower) && (upper < 0 || n - m <= upper);
            out[r * columns + n] = keep ? in[r * columns + n] : 0;  // the bits of 0 in every type
          }
        }
      });
}

const Op kOps[] = {{
    "band_part",
    {{Opset::ios15,
      {{"x", kNumberOrBool, 'T'},
       {"lower", kInt32, 0, kOptional | kConst, int64_t{-1}},
       {"upper", kInt32, 0, kOptional | kConst, int64_t{-1}}}}},
    "x with zeros outside `lower` diagonals below and `upper` above the main one; -1 keeps them all",
    infer,
    run,
}};

}  // namespace

std::span<const Op> ops_band_part() { return kOps; }

}  // namespace anemone::ops
