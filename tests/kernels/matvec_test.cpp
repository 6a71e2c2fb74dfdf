#include "kernels/matvec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.h"
#include "kernels/all_targets.h"

using namespace anemone;

TEST_CASE("matvec agrees with its plain twin for every kind, odd sizes and any alignment") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const WeightKind kind : {WeightKind::fp32, WeightKind::fp16, WeightKind::int8})
    for (const int64_t k : {1, 7, 8, 31, 64, 80, 257})
      for (int64_t vectors = 1; vectors <= kMostVectors; ++vectors) {
        const int64_t rows = 7;
        const size_t bytes = kind == WeightKind::fp32 ? 4 : kind == WeightKind::fp16 ? 2 : 1;
        std::vector<std::byte> weights(static_cast<size_t>(rows * k) * bytes + 1);
        std::byte* w = weights.data() + 1;
        for (int64_t i = 0; i < rows * k; ++i) {
          const float f = normal(random);
          const uint16_t h = half_from_float(f);
          const auto q = static_cast<int8_t>(std::lround(std::fmax(-127, std::fmin(127, f * 40))));
          const void* from = kind == WeightKind::fp32   ? static_cast<const void*>(&f)
                             : kind == WeightKind::fp16 ? static_cast<const void*>(&h)
                                                        : &q;
          std::memcpy(w + static_cast<size_t>(i) * bytes, from, bytes);
        }
        std::vector<float> x(static_cast<size_t>(vectors * k)), a(static_cast<size_t>(vectors * 8)), b = a;
        for (float& v : x) v = normal(random);
        matvec(kind, w, rows, k, x.data(), vectors, a.data(), 8);
        matvec_plain(kind, w, rows, k, x.data(), vectors, b.data(), 8);
        // Sums of k products of size up to about 100 (int8), in fp32.
        const float tolerance =
            1e-6f * static_cast<float>(k) * (kind == WeightKind::int8 ? 100.0f : 4.0f) + 1e-5f;
        for (size_t i = 0; i < a.size(); ++i) REQUIRE(std::abs(a[i] - b[i]) <= tolerance);
      }
}

TEST_CASE("weights are widened to what they stand for") {
  std::vector<std::byte> bytes(4 * 37 + 1);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7 & 0x3b);  // small in every type
  const std::byte* w = bytes.data() + 1;
  for (const WeightKind kind : {WeightKind::fp32, WeightKind::fp16, WeightKind::int8}) {
    std::vector<float> out(37), one{1.0f};
    widen(kind, w, 37, out.data());
    for (int64_t i = 0; i < 37; ++i) {
      float expected = 0;
      const int64_t size = kind == WeightKind::fp32 ? 4 : kind == WeightKind::fp16 ? 2 : 1;
      matvec_plain(kind, w + i * size, 1, 1, one.data(), 1, &expected, 1);
      CHECK(out[static_cast<size_t>(i)] == expected);
    }
  }
}

TEST_CASE("packed elements become the values that they stand for, on every target") {
  std::mt19937 random(3);
  std::vector<uint8_t> bytes(101);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  const auto* packed = reinterpret_cast<const std::byte*>(bytes.data()) + 1;
  test::for_each_target([&](const char* name) {
    CAPTURE(name);
    for (const int bits : {1, 2, 4, 8}) {
      std::vector<float> values(size_t{1} << bits);
      for (float& v : values) v = static_cast<float>(random() % 1000);
      PackedTable table;
      table.fill(bits, values.data());
      for (int64_t count = 0; count <= 100; ++count) {
        std::vector<float> out(static_cast<size_t>(count + 1), -1);
        table.widen(packed, count, out.data());
        bool equal = out.back() == -1;  // and nothing behind the end
        for (int64_t i = 0; i < count; ++i) {
          const int q = bytes[static_cast<size_t>(1 + i * bits / 8)] >> (i * bits % 8) & ((1 << bits) - 1);
          equal &= out[static_cast<size_t>(i)] == values[static_cast<size_t>(q)];
        }
        CAPTURE(bits);
        CAPTURE(count);
        REQUIRE(equal);
      }
    }
  });
}
