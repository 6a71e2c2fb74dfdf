// The kernels that convolutions are made of, against their plain twins, on every SIMD target.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/all_targets.h"
#include "kernels/depthwise.h"
#include "kernels/direct.h"
#include "kernels/gemm.h"
#include "kernels/patches.h"
#include "kernels/pool.h"
#include "kernels/winograd.h"
#include "support/random.h"

using namespace anemone;
using anemone::test::normal_floats;

namespace {

int64_t pick_size(std::mt19937& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

bool near(const std::vector<float>& got, const std::vector<float>& expected, float tolerance) {
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])))) return false;
  return got.size() == expected.size();
}

}  // namespace

TEST_CASE("a packed product ends its rows as its twin does: scales, biases, a sum and a range") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    std::mt19937 random(1);
    for (int round = 0; round < 32; ++round) {
      const int64_t m = pick_size(random, 1, 20), n = pick_size(random, 1, 70), k = pick_size(random, 1, 40),
                    stride = n + 3;
      const auto a = normal_floats(m * k, random), b = normal_floats(k * n, random),
                 scale = normal_floats(m, random), bias = normal_floats(m, random),
                 add = normal_floats(m * stride, random);
      const GemmEnd end{round & 1 ? scale.data() : nullptr, round & 2 ? bias.data() : nullptr,
                        round & 4 ? add.data() : nullptr, round & 8 ? -1.0f : -INFINITY,
                        round & 16 ? 2.0f : INFINITY};
      std::vector<float> packed(static_cast<size_t>(packed_size(n, k)));
      pack_columns({b.data(), n, 1}, n, k, packed.data());
      auto got = normal_floats(m * stride, random), expected = got;
      const bool accumulate = round % 3 == 0;
      gemm_packed(m, n, k, a.data(), k, packed.data(), got.data(), stride, accumulate, &end);
      gemm_plain(m, n, k, {a.data(), k, 1}, {b.data(), n, 1}, expected.data(), stride, accumulate);
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c) {
          float& v = expected[static_cast<size_t>(r * stride + c)];
          v = finish_plain(v, end, r, r * stride + c);
        }
      CHECK(near(got, expected, 1e-5f));
    }
    // NaN stays, whatever the range is.
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> one(64, 1.0f), b(64, nan);
    std::vector<float> packed(static_cast<size_t>(packed_size(64, 1))), c(64);
    pack_columns({b.data(), 64, 1}, 64, 1, packed.data());
    const GemmEnd range{.low = 0, .high = 6};
    gemm_packed(1, 64, 1, one.data(), 1, packed.data(), c.data(), 64, false, &range);
    CHECK(std::all_of(c.begin(), c.end(), [](float v) { return std::isnan(v); }));
  });
}

TEST_CASE("rows are padded and patches packed as their twins do it, and nothing beyond is touched") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    std::mt19937 random(2);
    for (int round = 0; round < 80; ++round) {
      PaddedRows how{.height = pick_size(random, 1, 4),
                     .width = pick_size(random, 1, 90),
                     .before = pick_size(random, 0, 6),
                     .phases = pick_size(random, 1, 5),
                     .fill = round % 2 ? 0.0f : -1.0f};
      how.line = pick_size(random, 1, (how.width + how.before) / how.phases + 4);
      const auto image = normal_floats(how.height * how.width, random);
      const int64_t first = pick_size(random, -3, 2), count = pick_size(random, 1, 6);
      std::vector<float> got(static_cast<size_t>(count * how.pitch() + 1), 7.0f), expected = got;
      pad_rows(image.data(), how, first, count, true, got.data());
      pad_rows_plain(image.data(), how, first, count, expected.data());
      CHECK(got == expected);
      pad_rows(image.data(), how, first, count, false, got.data());
      CHECK(got == expected);
    }
    for (int round = 0; round < 40; ++round) {
      const int64_t planes = pick_size(random, 1, 4), plane = pick_size(random, 200, 300),
                    columns = pick_size(random, 1, 32);
      const std::vector<int64_t> taps = {0, 1, 2, 30, 31, 32, 60};
      std::vector<PatchStretch> stretches;
      for (int64_t at = 0; at < columns;) {
        const int64_t count = std::min(columns - at, pick_size(random, 1, 20));
        stretches.push_back({at, pick_size(random, 0, 100), count});
        at += count;
      }
      const auto data = normal_floats(planes * plane + floats_beyond(), random);
      const PatchPanel panel{taps, stretches, plane, columns, columns <= 16 ? 16 : 32};
      const int64_t rows = planes * 7, from = pick_size(random, 0, rows - 1),
                    depth = pick_size(random, 1, rows - from);
      std::vector<float> got(static_cast<size_t>(depth * panel.width + 1), 7.0f), expected = got;
      pack_patches(data.data(), panel, from, depth, got.data());
      pack_patches_plain(data.data(), panel, from, depth, expected.data());
      CHECK(got == expected);
    }
  });
}

TEST_CASE("depthwise equals its plain twin for every window") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    std::mt19937 random(3);
    DepthwiseRoom room;
    for (int round = 0; round < 80; ++round) {
      DepthwisePlane p;
      const bool usual = round % 2;  // the sizes with loops of their own
      for (int i = 0; i < 2; ++i) {
        p.kernel[i] = usual ? (round % 4 == 1 ? 3 : 5) : pick_size(random, 1, 5);
        p.stride[i] = pick_size(random, 1, usual ? 2 : 4);
        p.dilation[i] = usual ? 1 : pick_size(random, 1, 3);
        p.before[i] = pick_size(random, 0, 3);
      }
      p.height = pick_size(random, 1, 20);
      p.width = pick_size(random, 1, round % 8 == 3 ? 700 : 60);
      // Any number of outputs whose window is not all behind the image.
      p.out_height = pick_size(random, 1, (p.height + p.before[0]) / p.stride[0] + 1);
      p.out_width = pick_size(random, 1, (p.width + p.before[1]) / p.stride[1] + 1);
      const auto x = normal_floats(p.height * p.width, random),
                 w = normal_floats(p.kernel[0] * p.kernel[1], random),
                 add = normal_floats(p.out_height * p.out_width, random);
      const float bias = 0.5f;
      const GemmEnd end{nullptr, round % 3 ? &bias : nullptr, round % 5 == 0 ? add.data() : nullptr, -1.0f,
                        2.5f};
      std::vector<float> got(add.size() + 1, 7.0f), expected = got;
      for (int again = 0; again < 2; ++again) depthwise(p, x.data(), w.data(), end, room, got.data());
      depthwise_plain(p, x.data(), w.data(), end, expected.data());
      CHECK(near(got, expected, 1e-5f));
    }
  });
}

TEST_CASE("rows straight from an image equal their plain twin") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    std::mt19937 random(7);
    for (int round = 0; round < 40; ++round) {
      const int64_t rows = pick_size(random, 1, 19), columns = pick_size(random, 1, 150),
                    k = pick_size(random, 1, 30);
      const auto data = normal_floats(400 + floats_beyond() * 5, random), w = normal_floats(rows * k, random),
                 bias = normal_floats(rows, random), add = normal_floats(rows * (columns + 2), random);
      std::vector<int64_t> offsets;
      for (int64_t i = 0; i < k; ++i) offsets.push_back(pick_size(random, 0, 240));
      const GemmEnd end{nullptr, bias.data(), round % 2 ? add.data() : nullptr, -2.0f, 3.0f};
      std::vector<float> got(add.size(), 7.0f), expected = got;
      direct_row({data.data(), offsets.data(), k}, w.data(), rows, columns, end, got.data(), columns + 2);
      direct_row_plain({data.data(), offsets.data(), k}, w.data(), rows, columns, end, expected.data(),
                       columns + 2);
      CHECK(near(got, expected, 1e-5f));
    }
  });
}

TEST_CASE("max_pool equals its plain twin, and what is no number stays") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    std::mt19937 random(5);
    for (int round = 0; round < 40; ++round) {
      DepthwisePlane p;
      for (int i = 0; i < 2; ++i) {
        p.kernel[i] = pick_size(random, 1, 4);
        p.stride[i] = pick_size(random, 1, 4);
        p.before[i] = pick_size(random, 0, p.kernel[i]);
      }
      p.height = pick_size(random, 1, 30);
      p.width = pick_size(random, 1, 60);
      p.out_height = pick_size(random, 1, (p.height + p.before[0]) / p.stride[0] + 1);
      p.out_width = pick_size(random, 1, (p.width + p.before[1]) / p.stride[1] + 1);
      auto x = normal_floats(p.height * p.width, random);
      if (round % 3 == 0) x[x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> got(static_cast<size_t>(p.out_height * p.out_width + 1), 7.0f), expected = got;
      DepthwiseRoom room;
      for (int again = 0; again < 2; ++again) max_pool(p, x.data(), room, got.data());
      max_pool_plain(p, x.data(), expected.data());
      for (size_t i = 0; i < got.size(); ++i)
        REQUIRE((got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))));
    }
  });
}

TEST_CASE("a matrix is transposed and added to, to its last edge") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    std::mt19937 random(6);
    for (int round = 0; round < 30; ++round) {
      const int64_t rows = pick_size(random, 1, 21), columns = pick_size(random, 1, 21);
      const auto x = normal_floats(rows * (columns + 2), random), add = normal_floats(rows, random);
      std::vector<float> got(static_cast<size_t>(columns * (rows + 1)), 7.0f), expected = got;
      transpose(x.data(), columns + 2, rows, columns, round % 2 ? add.data() : nullptr, got.data(), rows + 1);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          expected[static_cast<size_t>(c * (rows + 1) + r)] =
              x[static_cast<size_t>(r * (columns + 2) + c)] +
              (round % 2 ? add[static_cast<size_t>(r)] : 0.0f);
      CHECK(got == expected);
    }
  });
}

TEST_CASE("winograd: its turns equal their twins, and together they are a convolution") {
  test::for_each_target([](const char* name) {
    CAPTURE(name);
    std::mt19937 random(4);
    const int64_t lanes = panel_columns() / 2, width = 2 * lanes;
    const auto patches = normal_floats(36 * width, random), kernel = normal_floats(9, random);
    std::vector<float> v(static_cast<size_t>(36 * (width + 5))), v_plain = v, u(36);
    winograd_input(patches.data(), width, v.data(), width + 5);
    winograd_input_plain(patches.data(), width, v_plain.data(), width + 5);
    CHECK(near(v, v_plain, 2e-6f));
    winograd_weight(kernel.data(), u.data(), 1);
    for (int64_t e = 0; e < 36; ++e)
      for (int64_t t = 0; t < width; ++t)
        v[static_cast<size_t>(e * (width + 5) + t)] *= u[static_cast<size_t>(e)];
    // All tiles in one row of the image, of which a column and a row are cut off.
    const int64_t out_width = 4 * lanes - 1;
    const std::vector<WinogradStretch> places = {{0, 3, 8, 0}, {2, 3, out_width - 8, 8}};
    std::vector<float> out(static_cast<size_t>(3 * out_width + 1), 7.0f);
    CHECK(winograd_output(v.data(), width + 5, places, out_width, {}, out.data()));
    CHECK(out.back() == 7.0f);
    float worst = 0;
    for (int64_t t = 0; t < lanes; ++t) {
      float tile[16];
      winograd_output_plain(v.data() + t, width + 5, tile);
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 4 && 4 * t + j < out_width; ++j) {
          double sum = 0;
          for (int64_t a = 0; a < 9; ++a)
            sum +=
                static_cast<double>(kernel[static_cast<size_t>(a)]) *
                static_cast<double>(patches[static_cast<size_t>(((i + a / 3) * 6 + j + a % 3) * width + t)]);
          const float got = out[static_cast<size_t>(i * out_width + 4 * t + j)];
          worst = std::max({worst, std::abs(got - static_cast<float>(sum)), std::abs(got - tile[i * 4 + j])});
        }
    }
    CHECK(worst < 2e-5f);  // sums of 9 products of normal numbers
    v[3] = std::numeric_limits<float>::infinity();
    CHECK(!winograd_output(v.data(), width + 5, places, out_width, {}, out.data()));
  });
}
