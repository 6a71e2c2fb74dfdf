#include "kernels/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace anemone {

float largest_magnitude(const float* x, int64_t count) noexcept {
  // Magnitudes of floats order as their bits do, and NaN comes last: an integer maximum vectorises
  // everywhere.
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return std::bit_cast<float>(largest);
}

void quantize_int8(const float* x, int64_t count, float inverse_scale, int8_t* out) noexcept {
  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits: no call to a rounding function.
  constexpr float kMagic = 12582912.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float clipped = std::min(127.0f, std::max(-127.0f, x[i] * inverse_scale));
    out[i] = static_cast<int8_t>(std::bit_cast<int32_t>(clipped + kMagic) - std::bit_cast<int32_t>(kMagic));
  }
}

}  // namespace anemone
