// Vectors of halves to vectors of floats and back, for use inside other kernels; included once per SIMD
// target.
#if defined(ANEMONE_KERNELS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANEMONE_KERNELS_CONVERT_INL_H_
#undef ANEMONE_KERNELS_CONVERT_INL_H_
#else
#define ANEMONE_KERNELS_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

// Highway's own conversion truncates where the CPU has no instruction for it (1.0.3: SSE4 and below), so
// those targets go through integers here.
#undef ANEMONE_NATIVE_HALF
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
#define ANEMONE_NATIVE_HALF 1
#else
#define ANEMONE_NATIVE_HALF 0
#endif

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As many 16-bit values as DF has floats, from any address.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> load_16(DF, const uint8_t* in) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Repartition<uint8_t, decltype(d16)> d8;
  return hn::BitCast(d16, hn::LoadU(d8, in));
}

template <class DF>
HWY_INLINE hn::Vec<DF> widen_half(DF df, hn::Vec<hn::Rebind<uint16_t, DF>> half) {
#if ANEMONE_NATIVE_HALF
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(df, hn::BitCast(d16, half));
#else
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::PromoteTo(du, half);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fff));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
  // The exponent moves from bias 15 to 127 by a multiplication, which gets subnormals right as well.
  const auto scaled = hn::Mul(hn::BitCast(df, hn::ShiftLeft<13>(magnitude)), hn::Set(df, 0x1p112f));
  const auto special = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(du, 0x7bff)), hn::Set(du, 0x7f800000u));
  return hn::BitCast(df, hn::Or(hn::Or(hn::BitCast(du, scaled), special), sign));
#endif
}

template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> narrow_to_half(DF df, hn::Vec<DF> v) {
  const hn::Rebind<uint16_t, DF> du16;
#if ANEMONE_NATIVE_HALF
  (void)df;
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::BitCast(du16, hn::DemoteTo(d16, v));
#else
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(du, 0xfffu)), odd);
  const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(du, 0x38000000u)));
  // Below 2^-14 the addition of 0.5 leaves the rounded subnormal in the lowest bits.
  const auto shifted = hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f));
  const auto tiny = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3f000000u));
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ffu));
  const auto nan = hn::Or(hn::Set(du, 0x7e00u), payload);
  auto half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), tiny, normal);
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477fefffu)), hn::Set(du, 0x7c00u), half);
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000u)), nan, half);
  return hn::DemoteTo(du16, hn::BitCast(di, hn::Or(half, sign)));
#endif
}

// One store for both kinds of output.
template <class DF>
HWY_INLINE void store_as(DF df, hn::Vec<DF> v, float* out) {
  hn::StoreU(v, df, out);
}
template <class DF>
HWY_INLINE void store_as(DF df, hn::Vec<DF> v, uint16_t* out) {
  hn::StoreU(narrow_to_half(df, v), hn::Rebind<uint16_t, DF>(), out);
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#endif
