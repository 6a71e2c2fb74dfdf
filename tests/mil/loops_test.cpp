#include "mil/loops.h"

#include <doctest/doctest.h>

#include <random>

#include "base/shape.h"

using namespace anemone;

TEST_CASE("join_dims: fewer dimensions, and the same places in the same order") {
  std::mt19937 random(3);
  size_t joined = 0;
  for (int n = 0; n < 500; ++n) {
    std::vector<int64_t> dims(random() % 6);
    for (int64_t& d : dims) d = 1 + static_cast<int64_t>(random() % 4);
    // Shapes that broadcast to `dims`: some of its sizes are 1, and the first ones may be missing.
    const auto input = [&] {
      std::vector<int64_t> in(
          dims.begin() + static_cast<ptrdiff_t>(dims.empty() ? 0 : random() % dims.size()), dims.end());
      for (int64_t& d : in)
        if (random() % 3 == 0) d = 1;
      return broadcast_strides(in, dims);
    };
    const std::vector<int64_t> given[] = {input(), input()};
    std::vector<int64_t> fewer = dims, strides[] = {given[0], given[1]};
    join_dims(fewer, strides);
    joined += fewer.size() < dims.size();
    CHECK(std::count(fewer.begin(), fewer.end(), 1) == 0);
    Walker before(dims, given), after(fewer, strides);
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    for (int64_t i = 0; i < count; ++i) {
      before.seek(i);
      after.seek(i);
      CHECK(before.offset(0) == after.offset(0));
      CHECK(before.offset(1) == after.offset(1));
    }
  }
  CHECK(joined > 200);
  std::vector<int64_t> dims = {1, 128, 64, 1}, strides[] = {broadcast_strides(dims, dims), {0, 0, 1, 0}};
  join_dims(dims, strides);
  CHECK(dims == std::vector<int64_t>{128, 64});
  CHECK(strides[1] == std::vector<int64_t>{0, 1});
}
