// The block types that look their elements up in a code book, eight (or four) at a time.
#include <bit>

#include "kernels/dequant_plain.h"

namespace anemone {
namespace {

constexpr float kDelta = 0.125f;  // IQ1 values lie this far beside -1, 0 and 1

// Seven sign bits stand for eight: their number of ones is even.
uint8_t full_signs(uint32_t seven) {
  return static_cast<uint8_t>(seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7);
}

// Without a branch: signs are random, and a wrong guess costs more than the rest of the element.
float with_sign(float x, uint32_t signs, int bit) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ (signs >> bit & 1) << 31);
}

// Levels 8, 25, 43.
void eight(float* out, float scale, uint32_t entry, uint32_t signs) {
  for (int i = 0; i < 8; ++i) {
    const auto level = static_cast<int>(entry >> 2 * i & 3);
    out[i] = with_sign(scale * static_cast<float>(8 + 17 * level + (level >> 1)), signs, i);
  }
}

// Levels 4, 12 … 52, 62, or the odd numbers.
void four(float* out, float scale, uint32_t entry, uint32_t signs, bool odd_levels) {
  for (int i = 0; i < 4; ++i) {
    const auto level = static_cast<int>(entry >> 3 * i & 7);
    const int value = odd_levels ? 2 * level + 1 : 4 + 8 * level + 2 * (level == 7);
    out[i] = with_sign(scale * static_cast<float>(value), signs, i);
  }
}

// d@0, then for each 32 elements four entries and a word: four times seven signs, four bits of scale
void iq2_xxs(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int s = 0; s < 8; ++s) {
    const uint8_t* q = b + 2 + 8 * s;
    const auto word = load_at<uint32_t>(q + 4);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k)
      eight(out + 32 * s + 8 * k, scale, kGridIq2Xxs[q[k]], full_signs(word >> 7 * k & 127));
  }
}

// d@0, qs@2: 32 words of nine bits of entry and seven signs, scales@66: four bits for each 16 elements
void iq2_xs(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int k = 0; k < 32; ++k) {
    const auto word = load_at<uint16_t>(b + 2 + 2 * k);
    const float scale = d * (0.5f + static_cast<float>(b[66 + k / 4] >> 4 * (k / 2 % 2) & 15)) * 0.25f;
    eight(out + 8 * k, scale, kGridIq2Xs[word & 511], full_signs(word >> 9));
  }
}

// d@0, low bytes of the entries@2, signs@34, two high bits of the entries@66, scales@74 as IQ2_XS
void iq2_s(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int k = 0; k < 32; ++k) {
    const int entry = b[2 + k] | (b[66 + k / 4] >> 2 * (k % 4) & 3) << 8;
    const float scale = d * (0.5f + static_cast<float>(b[74 + k / 4] >> 4 * (k / 2 % 2) & 15)) * 0.25f;
    eight(out + 8 * k, scale, kGridIq2S[entry], b[34 + k]);
  }
}

// d@0, entries@2: 64 bytes, then@66 for each 32 elements a word as in IQ2_XXS
void iq3_xxs(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int s = 0; s < 8; ++s) {
    const auto word = load_at<uint32_t>(b + 66 + 4 * s);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    for (int k = 0; k < 8; ++k) {
      const uint32_t signs = static_cast<uint32_t>(full_signs(word >> 7 * (k / 2) & 127)) >> 4 * (k % 2);
      four(out + 32 * s + 4 * k, scale, kGridIq3Xxs[b[2 + 8 * s + k]], signs, false);
    }
  }
}

// d@0, low bytes of the entries@2: 64, their ninth bits@66: 8 bytes, signs@74: 32 bytes, scales@106: 4 bytes
void iq3_s(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int k = 0; k < 64; ++k) {
    const int entry = b[2 + k] | (b[66 + k / 8] >> (k % 8) & 1) << 8;
    const int step = b[106 + k / 16] >> 4 * (k / 8 % 2) & 15;
    const float scale = d * static_cast<float>(1 + 2 * step);
    four(out + 4 * k, scale, kGridIq3S[entry], static_cast<uint32_t>(b[74 + k / 2]) >> 4 * (k % 2), true);
  }
}

void eight_ternary(float* out, float scale, uint16_t entry, float delta) {
  for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>((entry >> 2 * i & 3) - 1) + delta);
}

// d@0, low bytes of the entries@2: 32, then@34 for each 32 elements a word: four times three high bits of an
// entry, three bits of scale, the sign of the offset
void iq1_s(const uint8_t* b, float* out) noexcept {
  const float d = half_at(b);
  for (int k = 0; k < 32; ++k) {
    const auto word = load_at<uint16_t>(b + 34 + 2 * (k / 4));
    const int entry = b[2 + k] | (word >> 3 * (k % 4) & 7) << 8;
    const float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
    eight_ternary(out + 8 * k, scale, kGridIq1[entry], word & 0x8000 ? -kDelta : kDelta);
  }
}

// Low bytes of the entries@0: 32, then@32 half a byte for each: three high bits, the sign of the offset;
// then@48 four words: four times three bits of scale (for 16 elements each), four bits of d
void iq1_m(const uint8_t* b, float* out) noexcept {
  uint16_t word[4];
  std::memcpy(word, b + 48, 8);
  const float d = half_to_float(static_cast<uint16_t>(word[0] >> 12 | (word[1] >> 8 & 0xf0) |
                                                      (word[2] >> 4 & 0xf00) | (word[3] & 0xf000)));
  for (int k = 0; k < 32; ++k) {
    const int high = b[32 + k / 2] >> 4 * (k % 2);
    const int entry = b[k] | (high & 7) << 8;
    const float scale = d * static_cast<float>(2 * (word[k / 8] >> 3 * (k / 2 % 4) & 7) + 1);
    eight_ternary(out + 8 * k, scale, kGridIq1[entry], high & 8 ? -kDelta : kDelta);
  }
}

}  // namespace

PlainDecoder plain_grid_decoder(BlockType type) {
  switch (type) {
    case BlockType::iq2_xxs: return iq2_xxs;
    case BlockType::iq2_xs: return iq2_xs;
    case BlockType::iq2_s: return iq2_s;
    case BlockType::iq3_xxs: return iq3_xxs;
    case BlockType::iq3_s: return iq3_s;
    case BlockType::iq1_s: return iq1_s;
    case BlockType::iq1_m: return iq1_m;
    default: return nullptr;
  }
}

}  // namespace anemone
