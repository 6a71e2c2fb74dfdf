#include "base/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace anemone;

TEST_CASE("every half pattern survives the way to float and back") {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = half_to_float(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      CHECK((half_from_float(f) & 0x7c00) == 0x7c00);
      CHECK((half_from_float(f) & 0x3ff) != 0);
    } else {
      REQUIRE(half_from_float(f) == h);
    }
  }
}

TEST_CASE("floats round to the nearest half, ties to even") {
  CHECK(half_from_float(65519.0f) == 0x7bff);
  CHECK(half_from_float(65520.0f) == 0x7c00);
  CHECK(half_from_float(1.0f + 0x1p-11f) == 0x3c00);             // tie, down to even
  CHECK(half_from_float(1.0f + 3 * 0x1p-11f) == 0x3c02);         // tie, up to even
  CHECK(half_from_float(1.0f + 0x1p-11f + 0x1p-20f) == 0x3c01);  // above the tie
  CHECK(half_from_float(0x1p-25f) == 0x0000);                    // half of the smallest: to even zero
  CHECK(half_from_float(0x1.8p-25f) == 0x0001);
  CHECK(half_from_float(1e-5f) == 0x00a8);
  CHECK(half_from_float(-0.0f) == 0x8000);
  CHECK(half_from_float(std::numeric_limits<float>::infinity()) == 0x7c00);
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN") {
  CHECK(bfloat16_from_float(1.0f) == 0x3f80);
  CHECK(bfloat16_from_float(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(bfloat16_from_float(1.0f + 3 * 0x1p-8f) == 0x3f82);
  CHECK(std::isnan(bfloat16_to_float(bfloat16_from_float(std::nanf("")))));
}
