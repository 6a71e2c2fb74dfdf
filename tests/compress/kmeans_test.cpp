#include "compress/kmeans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/codebook.h"
#include "compress/encoded.h"
#include "compress/vector_kmeans.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

// Random halves with repeats, as a histogram and as plain numbers.
struct Sample {
  std::vector<double> values;  // sorted
  Histogram histogram;
};

Sample sample(std::mt19937& random, int count, double spread, double mean = 0) {
  std::normal_distribution<double> normal(mean, spread);
  std::vector<uint16_t> halves;
  Sample out;
  for (int i = 0; i < count; ++i) {
    halves.push_back(half_from_float(static_cast<float>(normal(random))));
    out.values.push_back(static_cast<double>(half_to_float(halves.back())));
  }
  std::sort(out.values.begin(), out.values.end());
  HistogramBuilder builder(Grid::half);
  builder.add(halves.data(), count);
  out.histogram = builder.take();
  return out;
}

double spread_of(const std::vector<double>& v, size_t a, size_t b) {
  double mean = 0, out = 0;
  for (size_t i = a; i < b; ++i) mean += v[i] / static_cast<double>(b - a);
  for (size_t i = a; i < b; ++i) out += (v[i] - mean) * (v[i] - mean);
  return out;
}

// The least error of k clusters, by trying every partition of the sorted values.
double brute_force(const std::vector<double>& v, size_t from, int k) {
  if (k == 1 || from == v.size()) return from == v.size() ? 0 : spread_of(v, from, v.size());
  double best = std::numeric_limits<double>::infinity();
  for (size_t end = from + 1; end <= v.size(); ++end)
    best = std::min(best, spread_of(v, from, end) + brute_force(v, end, k - 1));
  return best;
}

double error_of(const Histogram& h, const std::vector<int64_t>& bounds) {
  double out = 0;
  for (size_t c = 0; c + 1 < bounds.size(); ++c)
    out += h.error(bounds[c], bounds[c + 1], h.mean(bounds[c], bounds[c + 1]));
  return out;
}

}  // namespace

TEST_CASE("clustering finds the least error that any partition has") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const int count = 2 + round % 13, k = 1 + round % 5;
    const Sample s = sample(random, count, round % 3 ? 1.0 : 1e-3, round % 4 ? 0 : 100);
    const double best = brute_force(s.values, 0, std::min(k, count));
    const double found = error_of(s.histogram, optimal_partition(s.histogram, k));
    CAPTURE(round);
    CHECK(found == doctest::Approx(best).epsilon(1e-9));
    CHECK(error_of(s.histogram, lloyd_partition(s.histogram, k)) >= found - 1e-12);
  }
}

TEST_CASE("clustering is exact on thousands of values, and Lloyd is near") {
  std::mt19937 random(5);
  const Sample s = sample(random, 20000, 0.02);
  const Histogram& h = s.histogram;
  for (const int k : {2, 4, 8}) {
    // The plain recursion of the textbook, over all splits.
    const auto n = static_cast<size_t>(h.size());
    std::vector<double> before(n + 1, 0), now(n + 1, 0);
    for (size_t j = 1; j <= n; ++j)
      before[j] = h.error(0, static_cast<int64_t>(j), h.mean(0, static_cast<int64_t>(j)));
    if (k == 2) {
      double best = std::numeric_limits<double>::infinity();
      for (size_t i = 1; i < n; ++i)
        best = std::min(best, before[i] + h.error(static_cast<int64_t>(i), h.size(),
                                                  h.mean(static_cast<int64_t>(i), h.size())));
      CHECK(error_of(h, optimal_partition(h, k)) == doctest::Approx(best).epsilon(1e-12));
    }
    const double exact = error_of(h, optimal_partition(h, k)), fast = error_of(h, lloyd_partition(h, k));
    CHECK(fast >= exact * (1 - 1e-12));
    CHECK(fast <= exact * 1.05);
    // Max 1960: the least error of k levels for a normal distribution, per unit of variance.
    const double known = k == 2 ? 0.3634 : k == 4 ? 0.1175 : 0.03454;
    CHECK(exact / (20000 * 0.02 * 0.02) == doctest::Approx(known).epsilon(0.03));
  }
}

TEST_CASE("tables hold every value when there is room, and repeat the last entry") {
  HistogramBuilder builder(Grid::half);
  const std::vector<uint16_t> halves = {half_from_float(-1), half_from_float(2), half_from_float(2), 0x8000,
                                        0};
  builder.add(halves.data(), 5);
  const Histogram h = builder.take();
  CHECK(h.values == std::vector<float>{-1, 0, 2});
  CHECK(h.total() == 5);
  CHECK(kmeans_table(h, 4, {}) == std::vector<float>{-1, 0, 2, 2});
  CHECK(kmeans_table(h, 1, {}) == std::vector<float>{round_to_half(0.6f)});
  CHECK(builder.take().size() == 0);
  const uint16_t infinite = 0x7c00;
  builder.add(&infinite, 1);
  CHECK(error_of([&] { builder.take(); }).find("not finite") != std::string::npos);
}

TEST_CASE("weights move the centres") {
  HistogramBuilder builder(Grid::half);
  const std::vector<uint16_t> halves = {half_from_float(0), half_from_float(1)};
  const std::vector<float> weights = {3, 1};
  builder.add(halves.data(), weights.data(), 2);
  CHECK(kmeans_table(builder.take(), 1, {}) == std::vector<float>{0.25f});
  HistogramBuilder wide(Grid::wide);
  const std::vector<float> values = {-2.5f, 1.0f / 3, 1.0f / 3, 7e-9f};
  wide.add(values.data(), 1.0, 4);
  const Histogram h = wide.take();
  CHECK(h.values == std::vector<float>{-2.5f, 7e-9f, 1.0f / 3});
  CHECK(h.total() == 4);
}

TEST_CASE("a codebook finds the nearest entry, for every half") {
  std::mt19937 random(9);
  for (const size_t entries : {1u, 2u, 5u, 16u, 64u, 256u}) {
    std::vector<float> table;
    std::normal_distribution<float> normal(0.1f, 1.0f);
    for (size_t i = 0; i < entries; ++i) table.push_back(round_to_half(normal(random)));
    const Codebook book(table);
    std::vector<uint8_t> all(65536);
    book.fill(all.data());
    int wrong = 0;
    for (uint32_t p = 0; p < 65536; ++p) {
      const float v = half_to_float(static_cast<uint16_t>(p));
      if (!std::isfinite(v)) continue;
      double best = std::numeric_limits<double>::infinity();
      for (const float t : table)
        best = std::min(best, std::abs(static_cast<double>(t) - static_cast<double>(v)));
      const auto off = [&](uint8_t code) {
        return std::abs(static_cast<double>(table[code]) - static_cast<double>(v));
      };
      wrong += off(all[p]) != best || off(book.find(v)) != best;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("uniform tables are evenly spaced") {
  HistogramBuilder builder(Grid::half);
  std::vector<uint16_t> halves;
  for (int i = 0; i < 16; ++i) halves.push_back(half_from_float(static_cast<float>(i) - 4));
  builder.add(halves.data(), 16);
  const std::vector<float> table = uniform_table(builder.take(), 16, true);
  for (int i = 0; i < 16; ++i) CHECK(table[static_cast<size_t>(i)] == static_cast<float>(i) - 4);
}

TEST_CASE("codes are packed from the lowest bit on") {
  const std::vector<uint8_t> codes = {1, 2, 3, 4, 5, 6, 7, 0, 1};
  std::vector<std::byte> out(9);
  pack_codes(codes.data(), 9, 3, out.data());
  // 001 010 011 100 101 110 111 000 001, the first in the lowest bits.
  CHECK(std::to_integer<int>(out[0]) == 0b11010001);
  CHECK(std::to_integer<int>(out[1]) == 0b01011000);
  CHECK(std::to_integer<int>(out[2]) == 0b00011111);
  CHECK(std::to_integer<int>(out[3]) == 0b00000001);
  pack_codes(codes.data(), 3, 4, out.data());
  CHECK(std::to_integer<int>(out[0]) == 0x21);
  CHECK(std::to_integer<int>(out[1]) == 0x03);
}

TEST_CASE("k-means of vectors finds clusters that lie apart, the same for any number of threads") {
  std::mt19937 random(2);
  std::normal_distribution<float> noise(0, 0.01f);
  std::vector<float> points;
  for (int i = 0; i < 4000; ++i) {
    points.push_back(static_cast<float>(i % 4) + noise(random));
    points.push_back(static_cast<float>(i % 4 * (i % 4)) + noise(random));
  }
  ThreadPool one(1), two(2);
  const std::vector<float> a = vector_kmeans(points, 2, 4, one), b = vector_kmeans(points, 2, 4, two);
  CHECK(a == b);
  for (int c = 0; c < 4; ++c) {
    double nearest = 9;
    for (size_t i = 0; i < 4; ++i)
      nearest = std::min(
          nearest, std::hypot(static_cast<double>(a[2 * i]) - c, static_cast<double>(a[2 * i + 1]) - c * c));
    CHECK(nearest < 0.002);
  }
}
