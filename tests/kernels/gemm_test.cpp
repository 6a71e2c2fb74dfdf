#include "kernels/gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace anemone;

namespace {

std::vector<float> numbers(size_t count, uint32_t seed) {
  std::vector<float> out(count);
  for (float& v : out) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int32_t>(seed >> 8) % 2001 - 1000) / 1000.0f;
  }
  return out;
}

}  // namespace

TEST_CASE("gemm equals its plain twin for odd sizes, strides and misaligned starts") {
  const int64_t sizes[][3] = {{1, 1, 1},   {1, 37, 19},  {2, 3, 800},  {3, 50, 7},    {5, 17, 33},
                              {6, 16, 64}, {7, 31, 385}, {13, 1, 100}, {40, 530, 11}, {19, 33, 1000}};
  GemmScratch scratch;
  for (const auto& [m, n, k] : sizes)
    for (int kind = 0; kind < 8; ++kind) {
      const bool a_across = kind & 1, b_across = kind & 2, accumulate = kind & 4;
      const auto x = numbers(static_cast<size_t>(m * k + 1), 1),
                 y = numbers(static_cast<size_t>(n * k + 1), 2);
      const MatrixView a{x.data() + 1, a_across ? 1 : k, a_across ? m : 1};
      const MatrixView b{y.data() + 1, b_across ? 1 : n, b_across ? k : 1};
      auto fast = numbers(static_cast<size_t>(m * (n + 3)), 3), plain = fast;
      gemm(m, n, k, a, b, fast.data(), n + 3, accumulate, scratch);
      gemm_plain(m, n, k, a, b, plain.data(), n + 3, accumulate);
      // Sums of k products below 1, added in another order.
      const float tolerance = 1.2e-7f * static_cast<float>(k) + 1e-6f;
      bool equal = true;
      for (size_t i = 0; i < fast.size(); ++i) equal &= std::fabs(fast[i] - plain[i]) <= tolerance;
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      CAPTURE(kind);
      CHECK(equal);
    }
}

TEST_CASE("a product over nothing is zero") {
  GemmScratch scratch;
  float c[4] = {1, 2, 3, 4};
  gemm(2, 2, 0, {}, {}, c, 2, true, scratch);
  CHECK(c[3] == 4);
  gemm(2, 2, 0, {}, {}, c, 2, false, scratch);
  CHECK(c[0] == 0);
  CHECK(c[3] == 0);
}
