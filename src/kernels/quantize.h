// Rows of weights to integers.
//     const float scale = int8_scale(largest_magnitude(row, n), true);
//     quantize_int8(row, n, 1 / scale, out);
#pragma once

#include <algorithm>
#include <cstdint>

namespace anemone {

// The largest |x|; infinity or NaN when one is not finite.
float largest_magnitude(const float* x, int64_t count) noexcept;
// The nearest of the whole numbers least … most (of at most 2^22), ties to even. Adding and taking away 1.5 * 2^23
// rounds without a call, so that loops vectorise.
inline float nearest_step(float x, float least, float most) noexcept {
  constexpr float kMagic = 12582912.0f;
  return (std::min(most, std::max(least, x)) + kMagic) - kMagic;
}
// A scale of integers as it is stored, as a half or as a float: integers are made with that, so that rounding it costs
// nothing. It is 1 for zero, so that nothing is divided by zero, and never so small that its inverse is infinite. As a
// half, `most_steps` times it stays in the range of fp16.
float stored_scale(float scale, float most_steps, bool as_half) noexcept;
// The stored scale of int8 weights whose largest magnitude is this: largest / 127.
float int8_scale(float largest, bool as_half) noexcept;
// nearest_step(x * inverse_scale, -127, 127).
void quantize_int8(const float* x, int64_t count, float inverse_scale, int8_t* out) noexcept;

// The least and the largest of zero and the values, all as the bits of halves: infinities count as the outermost
// values, and NaN lies beyond them.
struct HalfRange {
  uint16_t low, high;
};
HalfRange half_range(const uint16_t* halves, int64_t count) noexcept;
// nearest_step(x * inverse_scale, least, most) plus `zero`: its low byte.
void quantize_halves(const uint16_t* halves, int64_t count, float inverse_scale, float least, float most,
                     int zero, uint8_t* out) noexcept;

}  // namespace anemone
