// Rows of weights to integers.
#pragma once

#include <cstdint>

namespace anemone {

// The largest |x|; infinity or NaN when one is not finite.
float largest_magnitude(const float* x, int64_t count) noexcept;
// The scale of int8 weights whose largest magnitude is this: largest / 127, and 1 for zeros. As a half it is rounded as
// it will be stored, so that rounding it costs nothing, and 127 times it stays in half's range.
float int8_scale(float largest, bool as_half) noexcept;
// round(x * inverse_scale), ties to even, kept within -127 … 127.
void quantize_int8(const float* x, int64_t count, float inverse_scale, int8_t* out) noexcept;

// The least and the largest of zero and the values, all as the bits of halves: infinities count as the outermost
// values, and NaN lies beyond them.
struct HalfRange {
  uint16_t low, high;
};
HalfRange half_range(const uint16_t* halves, int64_t count) noexcept;
// round(x * inverse_scale), ties to even, kept within least … most (of at most 2^22), plus `zero`: its low byte.
void quantize_halves(const uint16_t* halves, int64_t count, float inverse_scale, float least, float most,
                     int zero, uint8_t* out) noexcept;

}  // namespace anemone
