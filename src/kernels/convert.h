// Bulk conversions between half, bfloat16 and float, with the CPU's own instructions where it has them.
//     floats_to_halves(weights.data(), weights.size(), out.data());
// Bit for bit what base/half.h does, for every pattern; only a signalling NaN may come back quiet. The 16-bit
// side of the functions that read may lie at any address: files promise no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anemone {

void halves_to_floats(const std::byte* in, int64_t count, float* out) noexcept;
void bfloats_to_floats(const std::byte* in, int64_t count, float* out) noexcept;
// Rounds to nearest even; overflow gives infinity.
void floats_to_halves(const float* in, int64_t count, uint16_t* out) noexcept;
// Each value to the nearest half, kept as a float.
void round_halves(float* values, int64_t count) noexcept;
void bfloats_to_halves(const std::byte* in, int64_t count, uint16_t* out) noexcept;

}  // namespace anemone
