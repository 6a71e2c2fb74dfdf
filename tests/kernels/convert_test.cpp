#include "kernels/convert.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.h"
#include "kernels/all_targets.h"

using namespace anemone;
using test::for_each_target;

namespace {

constexpr int64_t kAll = 65536;

std::vector<uint16_t> every_pattern() {
  std::vector<uint16_t> patterns(kAll);
  for (int64_t i = 0; i < kAll; ++i) patterns[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
  return patterns;
}

const std::byte* bytes(const std::vector<uint16_t>& v) {
  return reinterpret_cast<const std::byte*>(v.data());
}

// Equal bits, but a NaN may have become quiet.
bool same(float a, float b) {
  const auto x = std::bit_cast<uint32_t>(a), y = std::bit_cast<uint32_t>(b);
  return x == y || (std::isnan(a) && std::isnan(b) && (x | 0x400000) == (y | 0x400000));
}

// Floats around every point where the rounding to half changes, and random ones.
std::vector<float> hard_floats() {
  std::vector<float> floats;
  for (uint32_t h = 0; h < 0x7c00; ++h) {
    const float a = half_to_float(static_cast<uint16_t>(h)), b = half_to_float(static_cast<uint16_t>(h + 1));
    const float middle = h == 0x7bff ? 65520.0f : (a + b) / 2;
    for (const float f : {a, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e30f)}) {
      floats.push_back(f);
      floats.push_back(-f);
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (const uint32_t bits :
       {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffffffffu, 1u, 0x007fffffu})
    floats.push_back(std::bit_cast<float>(bits));
  return floats;
}

}  // namespace

TEST_CASE("every half and bfloat16 pattern widens as the scalar code says, on every target") {
  const auto patterns = every_pattern();
  for_each_target([&](const char* target) {
    CAPTURE(target);
    std::vector<float> halves(kAll), bfloats(kAll);
    std::vector<uint16_t> narrowed(kAll);
    halves_to_floats(bytes(patterns), kAll, halves.data());
    bfloats_to_floats(bytes(patterns), kAll, bfloats.data());
    bfloats_to_halves(bytes(patterns), kAll, narrowed.data());
    int wrong = 0;
    for (size_t i = 0; i < patterns.size(); ++i) {
      wrong += !same(halves[i], half_to_float(patterns[i]));
      wrong += std::bit_cast<uint32_t>(bfloats[i]) != std::bit_cast<uint32_t>(bfloat16_to_float(patterns[i]));
      wrong += narrowed[i] != half_from_float(bfloat16_to_float(patterns[i]));
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("floats narrow to half as the scalar code says, on every target") {
  const auto floats = hard_floats();
  for_each_target([&](const char* target) {
    CAPTURE(target);
    std::vector<uint16_t> out(floats.size());
    floats_to_halves(floats.data(), static_cast<int64_t>(floats.size()), out.data());
    int wrong = 0;
    for (size_t i = 0; i < floats.size(); ++i) wrong += out[i] != half_from_float(floats[i]);
    CHECK(wrong == 0);
  });
}

TEST_CASE("conversions of any length, from odd addresses, write their range and nothing else") {
  const auto patterns = every_pattern();
  std::vector<std::byte> shifted(2 * 100 + 1);
  for_each_target([&](const char* target) {
    CAPTURE(target);
    for (int64_t count = 0; count < 70; ++count) {
      std::memcpy(shifted.data() + 1, patterns.data() + 0x3c00, 2 * static_cast<size_t>(count));
      std::vector<float> out(static_cast<size_t>(count) + 1, -7.0f);
      std::vector<uint16_t> back(static_cast<size_t>(count) + 1, 0x1234);
      halves_to_floats(shifted.data() + 1, count, out.data());
      floats_to_halves(out.data(), count, back.data());
      CHECK(std::memcmp(back.data(), patterns.data() + 0x3c00, 2 * static_cast<size_t>(count)) == 0);
      CHECK(out.back() == -7.0f);
      CHECK(back.back() == 0x1234);
      bfloats_to_halves(shifted.data() + 1, count, back.data());
      CHECK(back.back() == 0x1234);
    }
  });
}
