#include "kernels/convert.h"

#include <cstring>

#include "base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {

HWY_INLINE uint16_t one_16(const std::byte* in) {
  uint16_t bits;
  std::memcpy(&bits, in, 2);
  return bits;
}

void HalvesToFloats(const std::byte* in, int64_t count, float* out) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(widen_half(df, load_16(df, reinterpret_cast<const uint8_t*>(in + 2 * i))), df, out + i);
  for (; i < count; ++i) out[i] = half_to_float(one_16(in + 2 * i));
}

template <class DF>
HWY_INLINE hn::Vec<DF> widen_bfloat(DF df, const std::byte* in) {
  const hn::RebindToUnsigned<DF> du;
  return hn::BitCast(df,
                     hn::ShiftLeft<16>(hn::PromoteTo(du, load_16(df, reinterpret_cast<const uint8_t*>(in)))));
}

void BfloatsToFloats(const std::byte* in, int64_t count, float* out) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(widen_bfloat(df, in + 2 * i), df, out + i);
  for (; i < count; ++i) out[i] = bfloat16_to_float(one_16(in + 2 * i));
}

void FloatsToHalves(const float* in, int64_t count, uint16_t* out) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_as(df, hn::LoadU(df, in + i), out + i);
  for (; i < count; ++i) out[i] = half_from_float(in[i]);
}

void BfloatsToHalves(const std::byte* in, int64_t count, uint16_t* out) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_as(df, widen_bfloat(df, in + 2 * i), out + i);
  for (; i < count; ++i) out[i] = half_from_float(bfloat16_to_float(one_16(in + 2 * i)));
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(HalvesToFloats);
HWY_EXPORT(BfloatsToFloats);
HWY_EXPORT(FloatsToHalves);
HWY_EXPORT(BfloatsToHalves);

void halves_to_floats(const std::byte* in, int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(HalvesToFloats)(in, count, out);
}
void bfloats_to_floats(const std::byte* in, int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(BfloatsToFloats)(in, count, out);
}
void floats_to_halves(const float* in, int64_t count, uint16_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(FloatsToHalves)(in, count, out);
}
void round_halves(float* values, int64_t count) noexcept {
  uint16_t halves[512];
  for (int64_t i = 0; i < count; i += 512) {
    const int64_t n = count - i < 512 ? count - i : 512;
    floats_to_halves(values + i, n, halves);
    halves_to_floats(reinterpret_cast<const std::byte*>(halves), n, values + i);
  }
}
void bfloats_to_halves(const std::byte* in, int64_t count, uint16_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(BfloatsToHalves)(in, count, out);
}

}  // namespace anemone
#endif
