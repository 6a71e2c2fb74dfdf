#include "kernels/matvec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/half.h"
#include "kernels/all_targets.h"

using namespace anemone;

namespace {

constexpr WeightKind kKinds[] = {WeightKind::fp32,         WeightKind::fp16,          WeightKind::int8,
                                 WeightKind::int8_shifted, WeightKind::uint8_shifted, WeightKind::table1,
                                 WeightKind::table2,       WeightKind::table3,        WeightKind::table4,
                                 WeightKind::table6,       WeightKind::table8};

// Rows of random weights, one byte behind the start of their memory and up to its very end, each with a table or
// an offset of its own.
struct Weights {
  Weights(WeightKind kind, int64_t rows, int64_t k, std::mt19937& random) {
    std::normal_distribution<float> normal;
    const int64_t bits = weight_bits(kind), row_bytes = k * bits / 8;
    bytes.resize(static_cast<size_t>(rows * row_bytes + 1));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    for (int64_t i = 0; i < rows * k && bits >= 16; ++i) {
      const float f = normal(random);
      const uint16_t h = half_from_float(f);
      std::memcpy(bytes.data() + 1 + i * bits / 8, bits == 32 ? static_cast<const void*>(&f) : &h,
                  static_cast<size_t>(bits / 8));
    }
    const int64_t beside = kind >= WeightKind::table1 ? int64_t{1} << bits : 1;
    values.resize(static_cast<size_t>(rows * beside));
    for (float& v : values) v = beside > 1 ? normal(random) : static_cast<float>(random() % 256);
    for (int64_t r = 0; r < rows; ++r)
      all.push_back({bytes.data() + 1 + r * row_bytes, values.data() + r * beside});
  }
  const std::byte* end() const { return bytes.data() + bytes.size(); }

  std::vector<std::byte> bytes;
  std::vector<float> values;
  std::vector<WeightRow> all;
};

}  // namespace

TEST_CASE("matvec agrees with its plain twin for every kind, odd sizes and any alignment, on every target") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  test::for_each_target([&](const char* name) {
    CAPTURE(name);
    for (const WeightKind kind : kKinds)
      for (const int64_t k : {1, 7, 8, 31, 64, 80, 136, 257, 576})
        for (int64_t vectors = 1; vectors <= kMostVectors && k * weight_bits(kind) % 8 == 0; ++vectors) {
          const int64_t rows = 7;
          const Weights w(kind, rows, k, random);
          std::vector<float> x(static_cast<size_t>(vectors * k)), a(static_cast<size_t>(vectors * 8)), b = a;
          for (float& v : x) v = normal(random);
          if (kind <= WeightKind::int8)
            matvec(kind, w.all[0].data, rows, k, x.data(), vectors, a.data(), 8);
          else
            matvec(kind, w.all.data(), rows, w.end(), k, x.data(), vectors, a.data(), 8);
          matvec_plain(kind, w.all.data(), rows, k, x.data(), vectors, b.data(), 8);
          // Sums of k products of size up to a few, or to about 300 (bytes), in fp32.
          const bool large = weight_bits(kind) == 8 && kind != WeightKind::table8;
          const float tolerance = 1e-6f * static_cast<float>(k) * (large ? 300.0f : 4.0f) + 1e-5f;
          CAPTURE(static_cast<int>(kind));
          CAPTURE(k);
          for (size_t i = 0; i < a.size(); ++i) REQUIRE(std::abs(a[i] - b[i]) <= tolerance);
        }
  });
}

TEST_CASE("a vector's bits do not depend on the vectors beside it, on every target") {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  test::for_each_target([&](const char* name) {
    CAPTURE(name);
    for (const WeightKind kind : kKinds) {
      const int64_t rows = 9, k = 328;
      const Weights w(kind, rows, k, random);
      std::vector<float> x(static_cast<size_t>(kMostVectors * k));
      for (float& v : x) v = normal(random);
      const auto multiply = [&](int64_t first, int64_t vectors) {
        std::vector<float> out(static_cast<size_t>(vectors * rows));
        if (kind <= WeightKind::int8)
          matvec(kind, w.all[0].data, rows, k, x.data() + first * k, vectors, out.data(), rows);
        else
          matvec(kind, w.all.data(), rows, w.end(), k, x.data() + first * k, vectors, out.data(), rows);
        return out;
      };
      for (int64_t vectors = 2; vectors <= kMostVectors; ++vectors) {
        const std::vector<float> together = multiply(0, vectors);
        for (int64_t v = 0; v < vectors; ++v) {
          CAPTURE(static_cast<int>(kind));
          CHECK(std::memcmp(together.data() + v * rows, multiply(v, 1).data(),
                            static_cast<size_t>(rows) * 4) == 0);
        }
      }
    }
  });
}

TEST_CASE("weights are widened to what they stand for, on every target") {
  std::mt19937 random(3);
  test::for_each_target([&](const char* name) {
    CAPTURE(name);
    for (const WeightKind kind : kKinds) {
      const Weights w(kind, 1, 104, random);
      for (int64_t count = 0; count <= 104; ++count) {
        std::vector<float> out(static_cast<size_t>(count + 1), -1), expected = out;
        widen(kind, w.all[0], w.end(), count, out.data());  // and nothing behind the end
        widen_plain(kind, w.all[0], count, expected.data());
        CAPTURE(static_cast<int>(kind));
        CAPTURE(count);
        REQUIRE(out == expected);
      }
    }
  });
}

TEST_CASE("elements are packed from the lowest bits of a row's first byte on") {
  const std::byte bytes[] = {std::byte{0xc5}, std::byte{0x9a}, std::byte{0x3e}};  // 0x3e9ac5
  float table[256], out[8];
  for (int i = 0; i < 256; ++i) table[i] = static_cast<float>(i);
  widen(WeightKind::table6, {bytes, table}, bytes + 3, 4, out);
  CHECK(std::vector<float>(out, out + 4) == std::vector<float>{0x05, 0x2b, 0x29, 0x0f});
  widen(WeightKind::table3, {bytes, table}, bytes + 3, 8, out);
  CHECK(std::vector<float>(out, out + 8) == std::vector<float>{5, 0, 3, 5, 1, 5, 7, 1});
  widen(WeightKind::table4, {bytes, table}, bytes + 3, 6, out);
  CHECK(std::vector<float>(out, out + 6) == std::vector<float>{5, 12, 10, 9, 14, 3});
}

TEST_CASE("blocks are shifted and scaled each by its own, on every target") {
  test::for_each_target([&](const char* name) {
    CAPTURE(name);
    for (const int64_t block : {1, 3, 8, 32, 40})
      for (const int64_t first : {0, 5, 64}) {
        std::vector<float> x(83), scale(160), offset(160);
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17);
        for (size_t i = 0; i < scale.size(); ++i) {
          scale[i] = 0.25f * static_cast<float>(i + 1);
          offset[i] = static_cast<float>(i % 5);
        }
        for (const float* shift : {static_cast<const float*>(nullptr), std::as_const(offset).data()}) {
          std::vector<float> out = x;
          shift_and_scale(out.data(), first, 83, block, scale.data(), shift);
          bool equal = true;
          for (int64_t i = 0; i < 83; ++i) {
            const auto b = static_cast<size_t>((first + i) / block), at = static_cast<size_t>(i);
            equal &= out[at] == scale[b] * (x[at] - (shift ? shift[b] : 0.0f));
          }
          CHECK(equal);
        }
      }
  });
}
