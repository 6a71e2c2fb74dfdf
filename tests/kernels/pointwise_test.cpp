#include "kernels/pointwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/all_targets.h"
#include "kernels/depthwise.h"

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

TEST_CASE("a depthwise convolution agrees with its plain twin for every window") {
  test::for_each_target([&](const char* target) {
    CAPTURE(target);
    std::mt19937 random(5);
    for (int round = 0; round < 60; ++round) {
      DepthwisePlane p;
      const auto pick = [&](int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
      };
      p.height = pick(1, 20), p.width = pick(1, 70);
      int64_t padded[2];
      for (int i = 0; i < 2; ++i) {
        p.kernel[i] = pick(1, 5), p.stride[i] = pick(1, 3), p.dilation[i] = pick(1, 2);
        p.before[i] = pick(0, 3);
        padded[i] = (i ? p.width : p.height) + p.before[i] + pick(0, 3);
      }
      const auto out_size = [&](int i) {
        const int64_t reach = (p.kernel[i] - 1) * p.dilation[i] + 1;
        return padded[i] < reach ? int64_t{0} : (padded[i] - reach) / p.stride[i] + 1;
      };
      p.out_height = out_size(0), p.out_width = out_size(1);
      if (p.out_height == 0 || p.out_width == 0) continue;
      const auto x = some_floats(p.height * p.width, random, 1),
                 w = some_floats(p.kernel[0] * p.kernel[1], random, 1);
      std::vector<float> a(static_cast<size_t>(p.out_height * p.out_width), 7.0f), b = a;
      DepthwiseRoom room;
      depthwise(p, x.data(), w.data(), 0.25f, room, a.data());
      depthwise_plain(p, x.data(), w.data(), 0.25f, b.data());
      check_close(a, b, 2e-6f, 1e-5f);
    }
  });
}
