#include "kernels/chains.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/all_targets.h"

using namespace anemone;

namespace {

std::vector<float> random_floats(int64_t count, std::mt19937& random, float size = 1) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = normal(random);
  return out;
}

bool close(float a, float b, float relative) {
  return a == b || std::abs(a - b) <= relative * std::abs(b) + 1e-30f;
}

}  // namespace

TEST_CASE("a norm agrees with its plain twin along lines and columns, on every target") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(1);
    for (const int64_t n : {1, 5, 16, 100, 576})
      for (const int64_t inner : {1, 2, 16, 37})
        for (const RmsRule& rule : {RmsRule{0x1p-14f, 3.2e-3f, 0, 0}, RmsRule{0, 0, 1e-5f, 1e-12f}}) {
          const auto x = random_floats(n * inner, random, 30), gain = random_floats(n, random);
          std::vector<float> a(x.size(), 7.0f), b = a;
          for (const float* g : {static_cast<const float*>(nullptr), gain.data()}) {
            const int64_t begin = inner > 2 ? 1 : 0;
            rms_norm(x.data(), a.data(), n, inner, begin, inner, g, rule);
            rms_norm_plain(x.data(), b.data(), n, inner, begin, inner, g, rule);
            for (size_t i = 0; i < a.size(); ++i) REQUIRE(close(a[i], b[i], 4e-7f));
          }
        }
  });
}

TEST_CASE("a token of zeros and a token whose squares leave fp16 keep their norms") {
  const RmsRule rule{0x1p-14f, std::sqrt(1e-5f), 0, 0};
  std::vector<float> zeros(64, 0.0f), large(64, 30000.0f), out(64);
  rms_norm(zeros.data(), out.data(), 64, 1, 0, 1, nullptr, rule);
  for (const float v : out) CHECK(v == 0);
  rms_norm(large.data(), out.data(), 64, 1, 0, 1, nullptr, rule);
  for (const float v : out) CHECK(v == doctest::Approx(1));
}

TEST_CASE("a rotation agrees with its plain twin") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(2);
    for (const int64_t pairs : {1, 7, 16, 32, 45}) {
      const auto x = random_floats(2 * pairs, random), cos = random_floats(pairs, random),
                 sin = random_floats(pairs, random);
      std::vector<float> a(x.size()), b(x.size());
      rotate(x.data(), cos.data(), sin.data(), pairs, a.data());
      rotate_plain(x.data(), cos.data(), sin.data(), pairs, b.data());
      // A product may go into its sum unrounded.
      for (size_t i = 0; i < a.size(); ++i) REQUIRE(std::abs(a[i] - b[i]) <= 2e-6f);
    }
  });
}

TEST_CASE("a gate agrees with its plain twin, also at its ends") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(3);
    auto x = random_floats(131, random, 20);
    const auto up = random_floats(131, random);
    const float ends[] = {0, -80, 80, -1000, 1000};
    for (size_t i = 0; i < 5; ++i) x[3 * i] = ends[i];
    std::vector<float> a(x.size()), b(x.size());
    for (const float* u : {up.data(), static_cast<const float*>(nullptr)}) {
      gate(x.data(), u, 131, a.data());
      gate_plain(x.data(), u, 131, b.data());
      // e^88 is where the fast one stops: what is smaller than that is smaller than 1e-35 in either.
      for (size_t i = 0; i < a.size(); ++i)
        REQUIRE((close(a[i], b[i], 1e-6f) || std::abs(a[i] - b[i]) < 1e-33f));
    }
    x[40] = std::nanf("");
    gate(x.data(), nullptr, 131, a.data());
    CHECK(std::isnan(a[40]));
  });
}
