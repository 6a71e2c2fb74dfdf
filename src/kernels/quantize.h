// Rows of weights to integers.
#pragma once

#include <cstdint>

namespace anemone {

// The largest |x|; infinity or NaN when one is not finite.
float largest_magnitude(const float* x, int64_t count) noexcept;
// round(x * inverse_scale), ties to even, kept within -127 … 127.
void quantize_int8(const float* x, int64_t count, float inverse_scale, int8_t* out) noexcept;

}  // namespace anemone
