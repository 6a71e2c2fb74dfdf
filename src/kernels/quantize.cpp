#include "kernels/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Halves as integers of the same order: those of negative values count downwards.
void HalfExtent(const uint16_t* in, int64_t count, int16_t* low, int16_t* high) {
  const hn::ScalableTag<int16_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto least = hn::Set(d, *low), most = hn::Set(d, *high);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const int16_t*>(in + i));
    const auto flip = hn::And(hn::BroadcastSignBit(bits), hn::Set(d, int16_t{0x7fff}));
    const auto ordered = hn::Xor(bits, flip);
    least = hn::Min(least, ordered);
    most = hn::Max(most, ordered);
  }
  HWY_ALIGN int16_t a[HWY_MAX_BYTES / 2], b[HWY_MAX_BYTES / 2];
  hn::Store(least, d, a);
  hn::Store(most, d, b);
  *low = *std::min_element(a, a + lanes);
  *high = *std::max_element(b, b + lanes);
  for (; i < count; ++i) {
    const auto bits = static_cast<int16_t>(in[i]);
    const auto ordered = static_cast<int16_t>(bits < 0 ? bits ^ 0x7fff : bits);
    *low = std::min(*low, ordered);
    *high = std::max(*high, ordered);
  }
}

// nearest_step() on vectors: adding 1.5 * 2^23 leaves the rounded integer in the low bits.
void QuantizeHalves(const uint16_t* in, int64_t count, float inverse, float least, float most, int zero,
                    uint8_t* out) {
  constexpr float kMagic = 12582912.0f;
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint8_t, decltype(df)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto by = hn::Set(df, inverse), low = hn::Set(df, least), high = hn::Set(df, most),
             magic = hn::Set(df, kMagic);
  const auto shift = hn::Set(di, zero - std::bit_cast<int32_t>(kMagic)), byte = hn::Set(di, 0xff);
  const auto bytes_of = [&](auto halves) HWY_ATTR {
    const auto clipped = hn::Min(high, hn::Max(low, hn::Mul(widen_half(df, halves), by)));
    const auto q = hn::Add(hn::BitCast(di, hn::Add(clipped, magic)), shift);
    return hn::DemoteTo(d8, hn::And(q, byte));
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(bytes_of(load_16(df, reinterpret_cast<const uint8_t*>(in + i))), d8, out + i);
  if (i == count) return;
  HWY_ALIGN uint16_t tail[HWY_MAX_BYTES / 4] = {};
  HWY_ALIGN uint8_t bytes[HWY_MAX_BYTES / 4];
  std::copy(in + i, in + count, tail);
  hn::StoreU(bytes_of(load_16(df, reinterpret_cast<const uint8_t*>(tail))), d8, bytes);
  std::copy(bytes, bytes + (count - i), out + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(HalfExtent);
HWY_EXPORT(QuantizeHalves);

float stored_scale(float scale, float most_steps, bool as_half) noexcept {
  if (!(scale > 0)) return 1.0f;
  if (!as_half) return std::max(scale, 0x1p-126f);  // below, the inverse would be infinite
  const uint16_t half = half_from_float(scale);
  const float rounded = half_to_float(half);
  if (most_steps * rounded > kHalfMax)
    return half_to_float(static_cast<uint16_t>(half - 1));  // it was rounded up
  return rounded > 0 ? rounded : 0x1p-24f;
}

float int8_scale(float largest, bool as_half) noexcept {
  return stored_scale(largest / 127.0f, 127, as_half);
}

float largest_magnitude(const float* x, int64_t count) noexcept {
  // Magnitudes of floats order as their bits do, and NaN comes last: an integer maximum vectorises
  // everywhere.
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return std::bit_cast<float>(largest);
}

void quantize_int8(const float* x, int64_t count, float inverse_scale, int8_t* out) noexcept {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<int8_t>(static_cast<int32_t>(nearest_step(x[i] * inverse_scale, -127, 127)));
}

HalfRange half_range(const uint16_t* halves, int64_t count) noexcept {
  int16_t low = 0, high = 0;
  HWY_DYNAMIC_DISPATCH(HalfExtent)(halves, count, &low, &high);
  return {static_cast<uint16_t>(low < 0 ? low ^ 0x7fff : low), static_cast<uint16_t>(high)};
}

void quantize_halves(const uint16_t* halves, int64_t count, float inverse_scale, float least, float most,
                     int zero, uint8_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(QuantizeHalves)(halves, count, inverse_scale, least, most, zero, out);
}

}  // namespace anemone
#endif
