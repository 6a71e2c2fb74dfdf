// Decodes packed integer codes with one scale and one zero point, as ONNX Runtime's block formats hold them: element i
// in the bits from i * bits on, the lowest first.
//     decode_codes(bytes, 4, 0, 32, 8.0f, scale, floats);        // a block of 32 four-bit codes
// A float is (code - zero) * scale, with each operation rounded once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anemone {

// Codes [first, first + count) of 2, 4 or 8 unsigned bits.
void decode_codes(const std::byte* in, int bits, int64_t first, int64_t count, float zero, float scale,
                  float* out) noexcept;
// The plain twin, for tests.
void decode_codes_plain(const std::byte* in, int bits, int64_t first, int64_t count, float zero, float scale,
                        float* out) noexcept;

}  // namespace anemone
