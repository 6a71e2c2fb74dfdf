#include "kernels/dequant_plain.h"

#include <bit>

namespace anemone {
namespace {

// A nibble of the 32-element types: elements 0 to 15 are the low halves of the bytes, 16 to 31 the high ones.
int nibble(const uint8_t* qs, int e) { return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4; }
// Two bits of the 256-element types: 32 bytes hold 128 elements in four layers.
int crumb(const uint8_t* qs, int e) { return qs[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3; }

void f32(const uint8_t* b, float* out) noexcept { *out = load_at<float>(b); }
void f16(const uint8_t* b, float* out) noexcept { *out = half_at(b); }
void bf16(const uint8_t* b, float* out) noexcept { *out = bfloat16_to_float(load_at<uint16_t>(b)); }
void f64(const uint8_t* b, float* out) noexcept { *out = static_cast<float>(load_at<double>(b)); }

// Sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinities, all ones is NaN.
void f8_e4m3(const uint8_t* b, float* out) noexcept {
  const uint32_t magnitude = *b & 127, sign = static_cast<uint32_t>(*b & 128) << 24;
  float x = std::bit_cast<float>((magnitude << 20) + (120u << 23));
  if (magnitude < 8) x = static_cast<float>(magnitude) * 0x1p-9f;
  if (magnitude == 127) x = std::bit_cast<float>(0x7fc00000u);
  *out = std::bit_cast<float>(std::bit_cast<uint32_t>(x) | sign);
}

// The upper byte of a half.
void f8_e5m2(const uint8_t* b, float* out) noexcept { *out = half_to_float(static_cast<uint16_t>(*b << 8)); }

// d@0 half, qs@2: 16 bytes of nibbles
void q4_0(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(nibble(b + 2, e) - 8);
}

// d@0, m@2, qs@4
void q4_1(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b), m = half_at(b + 2);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(nibble(b + 4, e)) + m;
}

// d@0, qh@2: a fifth bit for each element, qs@6
void q5_0(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  const auto high = load_at<uint32_t>(b + 2);
  for (int e = 0; e < 32; ++e)
    out[e] = d * static_cast<float>((nibble(b + 6, e) | static_cast<int>(high >> e & 1) << 4) - 16);
}

// d@0, m@2, qh@4, qs@8
void q5_1(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b), m = half_at(b + 2);
  const auto high = load_at<uint32_t>(b + 4);
  for (int e = 0; e < 32; ++e)
    out[e] = d * static_cast<float>(nibble(b + 8, e) | static_cast<int>(high >> e & 1) << 4) + m;
}

// d@0, qs@2: 32 signed bytes
void q8_0(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(static_cast<int8_t>(b[2 + e]));
}

// scales@0: 16 bytes, scale low and minimum high; qs@16: 64 bytes of two bits; d@80, dmin@82
void q2_k(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b + 80), dmin = half_at(b + 82);
  for (int e = 0; e < 256; ++e) {
    const int s = b[e / 16];
    out[e] = d * static_cast<float>(s & 15) * static_cast<float>(crumb(b + 16, e)) -
             dmin * static_cast<float>(s >> 4);
  }
}

// hmask@0: 32 bytes, bit e/32 of byte e%32 set where 4 is not subtracted; qs@32; scales@96: 12 bytes; d@108
void q3_k(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b + 108);
  for (int e = 0; e < 256; ++e) {
    const int q = crumb(b + 32, e) - (b[e % 32] >> (e / 32) & 1 ? 0 : 4);
    out[e] = d * static_cast<float>(q3_scale(b + 96, e / 16)) * static_cast<float>(q);
  }
}

// d@0, dmin@2, scales@4: 12 bytes, qs@16: 128 bytes; 32 bytes hold two sub-blocks of 32, low and high nibbles
void q4_k(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b), dmin = half_at(b + 2);
  for (int e = 0; e < 256; ++e) {
    const int j = e / 32, q = b[16 + 32 * (j / 2) + e % 32] >> 4 * (j % 2) & 15;
    out[e] = d * static_cast<float>(k_scale(b + 4, j)) * static_cast<float>(q) -
             dmin * static_cast<float>(k_min(b + 4, j));
  }
}

// As Q4_K with qh@16: 32 bytes, bit j the fifth bit of sub-block j; qs@48
void q5_k(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b), dmin = half_at(b + 2);
  for (int e = 0; e < 256; ++e) {
    const int j = e / 32;
    const int q = (b[48 + 32 * (j / 2) + e % 32] >> 4 * (j % 2) & 15) | (b[16 + e % 32] >> j & 1) << 4;
    out[e] = d * static_cast<float>(k_scale(b + 4, j)) * static_cast<float>(q) -
             dmin * static_cast<float>(k_min(b + 4, j));
  }
}

// ql@0: 128 bytes, qh@128: 64 bytes of two bits, scales@192: 16 signed bytes, d@208
void q6_k(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b + 208);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, g = e % 128 / 32, l = e % 32;
    const int q =
        (b[64 * half + 32 * (g % 2) + l] >> 4 * (g / 2) & 15) | (b[128 + 32 * half + l] >> 2 * g & 3) << 4;
    out[e] = d * static_cast<float>(static_cast<int8_t>(b[192 + e / 16])) * static_cast<float>(q - 32);
  }
}

// d@0: a float, qs@4: 256 signed bytes, then sums of 16 that only products need
void q8_k(const uint8_t* b, float* out) noexcept {
  const float d = load_at<float>(b);
  for (int e = 0; e < 256; ++e) out[e] = d * static_cast<float>(static_cast<int8_t>(b[4 + e]));
}

// d@0, qs@2; nibbles choose a level
void iq4_nl(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(kIq4Levels[nibble(b + 2, e)]);
}

// d@0, high bits of the scales@2, low bits@4: 4 bytes, qs@8: eight groups of 16 bytes
void iq4_xs(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  const auto high = load_at<uint16_t>(b + 2);
  for (int s = 0; s < 8; ++s) {
    const int scale = ((b[4 + s / 2] >> 4 * (s % 2) & 15) | (high >> 2 * s & 3) << 4) - 32;
    const float ds = d * static_cast<float>(scale);
    for (int e = 0; e < 32; ++e)
      out[32 * s + e] = ds * static_cast<float>(kIq4Levels[nibble(b + 8 + 16 * s, e)]);
  }
}

// A power of two@0, qs@1
void mxfp4(const uint8_t* b, float* out) noexcept {
  const float d = mxfp4_scale(b[0]);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(kFp4Doubled[nibble(b + 1, e)]);
}

// Four scales@0 without sign (4 bits of exponent, 3 of mantissa; 127 means 0), qs@4: 8 bytes for each 16
// elements
void nvfp4(const uint8_t* b, float* out) noexcept {
  for (int s = 0; s < 4; ++s) {
    float d = 0;
    const uint8_t magnitude = b[s] & 127;
    f8_e4m3(&magnitude, &d);
    if (b[s] == 127) d = 0;
    if (b[s] == 255) d = 480;  // only the pattern without the top bit is special
    d *= 0.5f;
    for (int e = 0; e < 16; ++e) {
      const uint8_t byte = b[4 + 8 * s + e % 8];
      out[16 * s + e] = d * static_cast<float>(kFp4Doubled[e < 8 ? byte & 15 : byte >> 4]);
    }
  }
}

// Digit n of a byte of the ternary type: the byte is a fraction of 256 in base 3.
float trit(uint8_t byte, int n) {
  constexpr uint8_t kPower[5] = {1, 3, 9, 27, 81};
  return static_cast<float>((static_cast<uint8_t>(byte * kPower[n]) * 3 >> 8) - 1);
}

// qs@0: 32 bytes of five digits, then 16 bytes of five; qh@48: 4 bytes of four; d@52
void tq1_0(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b + 52);
  for (int e = 0; e < 160; ++e) out[e] = d * trit(b[e % 32], e / 32);
  for (int e = 0; e < 80; ++e) out[160 + e] = d * trit(b[32 + e % 16], e / 16);
  for (int e = 0; e < 16; ++e) out[240 + e] = d * trit(b[48 + e % 4], e / 4);
}

// qs@0: 64 bytes of two bits, d@64
void tq2_0(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b + 64);
  for (int e = 0; e < 256; ++e) out[e] = d * static_cast<float>(crumb(b, e) - 1);
}

// d@0, qs@2: 128 signs, set where positive
void q1_0(const uint8_t* b, float* out) noexcept {
  const auto d = std::bit_cast<uint32_t>(half_at(b));
  for (int e = 0; e < 128; ++e)
    out[e] = std::bit_cast<float>(d ^ (~static_cast<uint32_t>(b[2 + e / 8]) >> (e % 8) & 1) << 31);
}

}  // namespace

PlainDecoder plain_decoder(BlockType type) {
  switch (type) {
    case BlockType::f32: return f32;
    case BlockType::f16: return f16;
    case BlockType::bf16: return bf16;
    case BlockType::f64: return f64;
    case BlockType::f8_e4m3: return f8_e4m3;
    case BlockType::f8_e5m2: return f8_e5m2;
    case BlockType::q4_0: return q4_0;
    case BlockType::q4_1: return q4_1;
    case BlockType::q5_0: return q5_0;
    case BlockType::q5_1: return q5_1;
    case BlockType::q8_0: return q8_0;
    case BlockType::q2_k: return q2_k;
    case BlockType::q3_k: return q3_k;
    case BlockType::q4_k: return q4_k;
    case BlockType::q5_k: return q5_k;
    case BlockType::q6_k: return q6_k;
    case BlockType::q8_k: return q8_k;
    case BlockType::iq4_nl: return iq4_nl;
    case BlockType::iq4_xs: return iq4_xs;
    case BlockType::mxfp4: return mxfp4;
    case BlockType::nvfp4: return nvfp4;
    case BlockType::tq1_0: return tq1_0;
    case BlockType::tq2_0: return tq2_0;
    case BlockType::q1_0: return q1_0;
    default: return plain_grid_decoder(type);
  }
}

}  // namespace anemone
