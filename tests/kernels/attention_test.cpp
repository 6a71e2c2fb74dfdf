#include "kernels/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/all_targets.h"
#include "support/random.h"

using namespace anemone;
using anemone::test::normal_floats;

namespace {}  // namespace

TEST_CASE("scores, softmax and values agree with their plain twins on every target") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(1);
    for (const int64_t rows : {1, 2, 3, 4, 7})
      for (const int64_t dim : {1, 8, 20, 64, 96})
        for (const int64_t columns : {1, 3, 17, 130}) {
          const int64_t stride = columns + 2;
          const auto q = normal_floats(rows * dim, random), k = normal_floats(columns * dim, random),
                     v = normal_floats(columns * dim, random);
          std::vector<float> a(static_cast<size_t>(rows * stride), 7.0f), b = a;
          attention_scores(q.data(), rows, dim, k.data(), columns, a.data(), stride);
          attention_scores_plain(q.data(), rows, dim, k.data(), columns, b.data(), stride);
          for (size_t i = 0; i < a.size(); ++i)
            REQUIRE(std::abs(a[i] - b[i]) <= 1e-6f * static_cast<float>(dim) + 1e-6f);
          a = b;
          for (int64_t r = 0; r < rows; ++r) {
            softmax(a.data() + r * stride, columns);
            softmax_plain(b.data() + r * stride, columns);
          }
          for (size_t i = 0; i < a.size(); ++i) REQUIRE(std::abs(a[i] - b[i]) <= 4e-7f * b[i] + 1e-30f);
          std::vector<float> x(static_cast<size_t>(rows * dim), 9.0f), y = x;
          const int64_t begin = dim / 3;
          attention_values(b.data(), stride, rows, v.data(), columns, dim, begin, dim, x.data());
          attention_values_plain(b.data(), stride, rows, v.data(), columns, dim, begin, dim, y.data());
          for (size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(x[i] - y[i]) <= 1e-5f);
        }
  });
}

TEST_CASE("softmax of far, infinite and undefined values is what the op gives") {
  const float infinity = std::numeric_limits<float>::infinity();
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::vector<float> x(40, -10000.0f);
    x[3] = 1;
    x[33] = -infinity;
    softmax(x.data(), 40);
    for (size_t i = 0; i < x.size(); ++i) CHECK(x[i] == (i == 3 ? 1.0f : 0.0f));
    for (const float odd : {infinity, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> y(40, 1.0f);
      y[5] = odd;
      softmax(y.data(), 40);
      CHECK(std::isnan(y[5]));
    }
    std::vector<float> z(40, -infinity);
    softmax(z.data(), 40);
    CHECK(std::isnan(z[0]));
  });
}

TEST_CASE("a mask is added, rounded where half is meant, and finite values are told from others") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::vector<float> x{1.0f / 3, 2, 3000.3f}, add{1, -10000, 0.1f};
    scale_and_add(x.data(), 0.5f, add.data(), 3, false);
    CHECK(x ==
          std::vector<float>{1.0f / 3 * 0.5f + 1, -9999, 3000.3f * 0.5f + 0.1f});  // the product is exact
    std::vector<float> y{2049};  // half counts by 2 there, and ties go to even
    const float none[] = {0};
    scale_and_add(y.data(), 1, none, 1, true);
    CHECK(y[0] == 2048);
    std::vector<float> finite(70, 1e38f);
    CHECK(all_finite(finite.data(), 70));
    for (const size_t at : {size_t{0}, size_t{31}, size_t{69}})
      for (const float odd : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        auto z = finite;
        z[at] = odd;
        CHECK_FALSE(all_finite(z.data(), 70));
      }
  });
}
