#include "kernels/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/all_targets.h"
#include "kernels/convert.h"
#include "support/random.h"

using namespace anemone;
using anemone::test::normal_floats;

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

TEST_CASE("keys and values that are halves give what they give as floats, on every target") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(2);
    for (const int64_t rows : {1, 3, 5, 8})
      for (const int64_t dim : {1, 7, 20, 64, 128})
        for (const int64_t columns : {1, 5, 33, 128}) {
          const auto q = normal_floats(rows * dim, random);
          auto k = normal_floats(columns * dim, random);
          k[0] = 1e-7f;  // below the normal halves
          std::vector<uint16_t> halves(k.size());
          floats_to_halves(k.data(), static_cast<int64_t>(k.size()), halves.data());
          round_halves(k.data(), static_cast<int64_t>(k.size()));
          std::vector<float> a(static_cast<size_t>(rows * columns)), b = a, plain = a;
          attention_scores(q.data(), rows, dim, halves.data(), columns, a.data(), columns);
          attention_scores(q.data(), rows, dim, k.data(), columns, b.data(), columns);
          attention_scores_plain(q.data(), rows, dim, halves.data(), columns, plain.data(), columns);
          for (size_t i = 0; i < a.size(); ++i)
            REQUIRE(std::abs(a[i] - plain[i]) <= 1e-6f * static_cast<float>(dim) + 1e-6f);
          CHECK(a == b);
          std::vector<float> x(static_cast<size_t>(rows * dim)), y = x, z = x;
          attention_values(a.data(), columns, rows, halves.data(), columns, dim, 0, dim, x.data());
          attention_values(a.data(), columns, rows, k.data(), columns, dim, 0, dim, y.data());
          attention_values_plain(a.data(), columns, rows, halves.data(), columns, dim, 0, dim, z.data());
          CHECK(x == y);
          for (size_t i = 0; i < x.size(); ++i)
            REQUIRE(std::abs(x[i] - z[i]) <= 1e-5f * static_cast<float>(dim + columns));
        }
  });
}

TEST_CASE("parts of a row that are joined give the softmax of all of it, on every target") {
  const float infinity = std::numeric_limits<float>::infinity();
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(3);
    const int64_t dim = 20;
    for (const int64_t part : {1, 7, 64})
      for (const int64_t columns : {1, 9, 130})
        for (const int odd : {0, 1, 2, 3}) {
          auto scores = normal_floats(columns, random);
          const auto values = normal_floats(columns * dim, random);
          for (float& s : scores) s *= 20;
          if (odd == 1)  // a part that sees nothing
            for (int64_t i = 0; i < std::min(part, columns - 1); ++i)
              scores[static_cast<size_t>(i)] = -infinity;
          if (odd == 2) std::fill(scores.begin(), scores.end(), -infinity);
          if (odd == 3) scores[static_cast<size_t>(columns / 2)] = std::nanf("");
          CAPTURE(part);
          CAPTURE(columns);
          CAPTURE(odd);
          const int64_t parts = (columns + part - 1) / part;
          std::vector<SoftmaxPart> stats;
          std::vector<float> x = scores, sums(static_cast<size_t>(parts * dim)),
                             got(static_cast<size_t>(dim)), expected = got;
          for (int64_t p = 0; p < parts; ++p) {
            const int64_t n = std::min(part, columns - p * part);
            stats.push_back(softmax_part(x.data() + p * part, n));
            attention_values(x.data() + p * part, n, 1, values.data() + p * part * dim, n, dim, 0, dim,
                             sums.data() + p * dim);
          }
          join_parts(stats.data(), sums.data(), parts, 1, dim, dim, got.data());
          softmax_plain(scores.data(), columns);
          attention_values_plain(scores.data(), columns, 1, values.data(), columns, dim, 0, dim,
                                 expected.data());
          for (size_t i = 0; i < got.size(); ++i) {
            if (odd >= 2)
              CHECK(std::isnan(got[i]));
            else
              CHECK(std::abs(got[i] - expected[i]) <= 2e-6f);
          }
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
