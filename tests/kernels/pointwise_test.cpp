#include "kernels/pointwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/all_targets.h"

using namespace anemone;

namespace {

std::vector<float> some_floats(int64_t count, std::mt19937& random, float size) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = normal(random);
  return out;
}

// A few units in the last place of the result, or of the smallest normal number.
void check_close(const std::vector<float>& a, const std::vector<float>& b, float relative,
                 float absolute = 1e-30f) {
  for (size_t i = 0; i < a.size(); ++i)
    REQUIRE_MESSAGE(std::abs(a[i] - b[i]) <= relative * std::abs(b[i]) + absolute, a[i] << " and " << b[i]);
}

}  // namespace

TEST_CASE("activations agree with their plain twins on every target, for any length and size") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(3);
    for (const int64_t n : {0, 1, 3, 16, 37, 1000})
      for (const float size : {1e-6f, 0.1f, 1.0f, 5.0f, 40.0f}) {
        const auto x = some_floats(n, random, size);
        std::vector<float> a(x.size()), b(x.size());
        for (const GeluMode mode : {GeluMode::exact, GeluMode::tanh, GeluMode::sigmoid}) {
          map_gelu(mode, x.data(), n, a.data());
          map_gelu_plain(mode, x.data(), n, b.data());
          // 1 + tanh loses what is left of small results, as the operation does. The exponent of a far tail is
          // large, and so is what its rounding does to the power.
          check_close(a, b, mode == GeluMode::tanh ? 2e-6f : 2e-5f, mode == GeluMode::tanh ? 1e-6f : 1e-30f);
        }
        map_sigmoid(x.data(), n, a.data());
        map_sigmoid_plain(x.data(), n, b.data());
        check_close(a, b, 2e-6f);
        map_tanh(x.data(), n, a.data());
        map_tanh_plain(x.data(), n, b.data());
        check_close(a, b, 1e-6f);
        map_clamp(x.data(), n, 0, 6, a.data());
        map_clamp_plain(x.data(), n, 0, 6, b.data());
        CHECK(a == b);
        map_hard_swish(x.data(), n, 1.0f / 6, 0.5f, a.data());
        map_hard_swish_plain(x.data(), n, 1.0f / 6, 0.5f, b.data());
        check_close(a, b, 1e-6f);
      }
  });
}

TEST_CASE("activations keep what is no number and know the limits") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {nan, inf, -inf, 0.0f, -0.0f, 100.0f, -100.0f};
  std::vector<float> y(x.size());
  map_gelu(GeluMode::exact, x.data(), 7, y.data());
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == inf);
  CHECK(y[3] == 0);
  CHECK(y[5] == 100);
  CHECK(std::abs(y[6]) == 0);
  map_sigmoid(x.data(), 7, y.data());
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 1);
  CHECK(y[2] < 1e-30f);
  CHECK(y[3] == 0.5f);
  map_tanh(x.data(), 7, y.data());
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 1);
  CHECK(y[2] == -1);
  CHECK(y[3] == 0);
  map_clamp(x.data(), 7, 0, inf, y.data());
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == inf);
  CHECK(y[2] == 0);
}

TEST_CASE("a layer norm agrees with its plain twin, also far from zero") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(4);
    for (const int64_t n : {1, 5, 16, 100, 384})
      for (const float offset : {0.0f, 30.0f}) {
        auto x = some_floats(n, random, 2);
        for (float& v : x) v += offset;
        const auto gamma = some_floats(n, random, 1), beta = some_floats(n, random, 1);
        std::vector<float> a(x.size()), b(x.size());
        for (const bool with : {false, true}) {
          const float *g = with ? gamma.data() : nullptr, *s = with ? beta.data() : nullptr;
          layer_norm(x.data(), n, g, s, 1e-5, a.data());
          layer_norm_plain(x.data(), n, g, s, 1e-5, b.data());
          check_close(a, b, 1e-6f, 4e-6f);
        }
      }
  });
}
