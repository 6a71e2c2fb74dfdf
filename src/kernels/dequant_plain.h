// The plain decoders of block types: one block at a time, element by element, obviously right; dequant.h
// calls them where there is no faster way, and tests hold the fast ways equal to them.
//     PlainDecoder decode = plain_decoder(BlockType::q6_k);
//     decode(block, out);                                    // 210 bytes → 256 floats
// How the bytes of a block lie is said at each decoder.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "kernels/dequant_types.h"

namespace anemone {

using PlainDecoder = void (*)(const uint8_t* block, float* out) noexcept;

// The decoder of a type; nullptr where the type does not decode to floats.
PlainDecoder plain_decoder(BlockType type);
// The same for the types with a code book (IQ1, IQ2, IQ3); nullptr for others.
PlainDecoder plain_grid_decoder(BlockType type);

// Levels of the 4-bit types with uneven steps.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kFp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Code books. An entry holds eight values of two bits, lowest first (levels 8, 25, 43; for IQ1 -1, 0, 1), or
// four values of three bits (IQ3_XXS: 4, 12, 20, 28, 36, 44, 52, 62; IQ3_S: the odd numbers 1 to 15).
extern const uint16_t kGridIq2Xxs[256];
extern const uint16_t kGridIq2Xs[512];
extern const uint16_t kGridIq2S[1024];
extern const uint16_t kGridIq1[2048];
extern const uint16_t kGridIq3Xxs[256];
extern const uint16_t kGridIq3S[512];

// Numbers at any address.
template <class T>
inline T load_at(const uint8_t* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
inline float half_at(const uint8_t* p) noexcept { return half_to_float(load_at<uint16_t>(p)); }

// Scale and minimum number j (0 to 7) of Q4_K and Q5_K: eight pairs of 6 bits in 12 bytes.
inline int k_scale(const uint8_t* s, int j) noexcept {
  return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
}
inline int k_min(const uint8_t* s, int j) noexcept {
  return j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
}
// Scale number k (0 to 15) of Q3_K: 6 bits, 32 means 0.
inline int q3_scale(const uint8_t* s, int k) noexcept {
  return ((s[k % 8] >> 4 * (k / 8) & 15) | (s[8 + k % 4] >> 2 * (k / 4) & 3) << 4) - 32;
}
// The scale of MXFP4, halved because the levels are doubled: 2^(e - 128).
inline float mxfp4_scale(uint8_t e) noexcept {
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

}  // namespace anemone
