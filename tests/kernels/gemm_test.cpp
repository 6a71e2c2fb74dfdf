#include "kernels/gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/all_targets.h"

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

TEST_CASE("a packed product gives the same bits however it is cut, and writes its own elements only") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    for (const auto& [m, n, k] :
         {std::array<int64_t, 3>{13, 45, 192}, {6, 64, 7}, {25, 3, 100}, {4, 16, 1}}) {
      const auto a = numbers(static_cast<size_t>(m * (k + 2)), 4), b = numbers(static_cast<size_t>(k * n), 5);
      const auto multiply = [&](int64_t row, int64_t rows, int64_t columns, float* c) {
        std::vector<float> packed(static_cast<size_t>(packed_size(columns, k)));
        pack_columns({b.data(), n, 1}, columns, k, packed.data());
        gemm_packed(rows, columns, k, a.data() + row * (k + 2), k + 2, packed.data(), c + row * (n + 1),
                    n + 1, true);
      };
      auto whole = numbers(static_cast<size_t>(m * (n + 1)), 6), plain = whole;
      const auto before = whole;
      multiply(0, m, n, whole.data());
      gemm_plain(m, n, k, {a.data(), k + 2, 1}, {b.data(), n, 1}, plain.data(), n + 1, true);
      for (const int64_t rows : {int64_t{1}, int64_t{4}, int64_t{7}})
        for (const int64_t columns : {n, n / 2 + 1}) {
          auto cut = before;
          for (int64_t r = 0; r < m; r += rows) multiply(r, std::min(rows, m - r), columns, cut.data());
          bool same = true, near = true;
          for (int64_t i = 0; i < m * (n + 1); ++i) {
            const auto at = static_cast<size_t>(i);
            same &= cut[at] == (i % (n + 1) < columns ? whole[at] : before[at]);
            near &= std::fabs(whole[at] - plain[at]) <= 1.2e-7f * static_cast<float>(k) + 1e-6f;
          }
          CHECK(same);
          CHECK(near);
        }
    }
  });
}

TEST_CASE("a packed product with an end gives the same bits however it is cut") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    const int64_t m = 61, n = 40, k = 90;
    const auto a = numbers(static_cast<size_t>(m * k), 4), b = numbers(static_cast<size_t>(k * n), 5);
    const auto scale = numbers(static_cast<size_t>(m), 6), bias = numbers(static_cast<size_t>(m), 7),
               add = numbers(static_cast<size_t>(m * n), 8);
    std::vector<float> packed(static_cast<size_t>(packed_size(n, k)));
    pack_columns({b.data(), n, 1}, n, k, packed.data());
    for (const bool scaled : {false, true})
      for (const bool biased : {false, true})
        for (const bool added : {false, true}) {
          const GemmEnd end{.scale = scaled ? scale.data() : nullptr,
                            .bias = biased ? bias.data() : nullptr,
                            .add = added ? add.data() : nullptr};
          const auto product = [&](int64_t rows) {
            std::vector<float> c(static_cast<size_t>(m * n));
            for (int64_t r = 0; r < m; r += rows) {
              const GemmEnd part = end.from(r, r * n);
              gemm_packed(std::min(rows, m - r), n, k, a.data() + r * k, k, packed.data(), c.data() + r * n,
                          n, false, &part);
            }
            return c;
          };
          const auto whole = product(m);
          for (const int64_t rows : {1, 4, 6, 7, 12, 24}) CHECK(product(rows) == whole);
        }
  });
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
