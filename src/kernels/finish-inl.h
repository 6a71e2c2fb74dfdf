// What becomes of a vector of sums before it is stored, and vectors of which only some elements are there; for use
// inside other kernels; included once per SIMD target.
#if defined(ANEMONE_KERNELS_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANEMONE_KERNELS_FINISH_INL_H_
#undef ANEMONE_KERNELS_FINISH_INL_H_
#else
#define ANEMONE_KERNELS_FINISH_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/gemm.h"

// Loads and stores with a mask touch nothing beyond it.
#undef ANEMONE_MASKED_MEMORY
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define ANEMONE_MASKED_MEMORY 1
#else
#define ANEMONE_MASKED_MEMORY 0
#endif

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 32 registers for vectors, not 16.
constexpr bool kManyRegisters = HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3);

// Min and Max of these give NaN where it is their second operand.
constexpr bool kKeepsNaN = HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR;

// The first `count` elements; the others are zero, and are not touched.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* from, int64_t count) {
#if ANEMONE_MASKED_MEMORY
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#else
  HWY_ALIGN float all[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t i = 0; i < count; ++i) all[i] = from[i];
  return hn::Load(d, all);
#endif
}

template <class D>
HWY_INLINE void store_some(D d, hn::Vec<D> v, float* to, int64_t count) {
#if ANEMONE_MASKED_MEMORY
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else
  HWY_ALIGN float all[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, all);
  for (int64_t i = 0; i < count; ++i) to[i] = all[i];
#endif
}

template <class V>
HWY_INLINE V clamp(V sum, V low, V high) {
  const V clamped = hn::Min(high, hn::Max(low, sum));
  if constexpr (kKeepsNaN) return clamped;
  return hn::IfThenElse(hn::IsNaN(sum), sum, clamped);
}

// With `add` as it was loaded.
template <class D, class V>
HWY_INLINE V finish_with(D d, V sum, const GemmEnd& end, int64_t row, V add) {
  if (end.scale) sum = hn::Mul(sum, hn::Set(d, end.scale[row]));
  if (end.bias) sum = hn::Add(sum, hn::Set(d, end.bias[row]));
  if (end.add) sum = hn::Add(sum, add);
  return clamp(sum, hn::Set(d, end.low), hn::Set(d, end.high));
}

// Nothing but a bias and the limits: what is done most, and worth not asking for every vector.
HWY_INLINE bool only_bias(const GemmEnd& end) { return end.bias && !end.scale && !end.add; }

// A whole vector, and the first `count` of its elements, to be stored at to[offset].
template <class D, class V>
HWY_INLINE void finish(D d, V sum, const GemmEnd& end, int64_t row, int64_t offset, float* to) {
  const V add = end.add ? hn::LoadU(d, end.add + offset) : hn::Zero(d);
  hn::StoreU(finish_with(d, sum, end, row, add), d, to + offset);
}
template <class D, class V>
HWY_INLINE void finish_some(D d, V sum, const GemmEnd& end, int64_t row, int64_t offset, int64_t count,
                            float* to) {
  const V add = end.add ? load_some(d, end.add + offset, count) : hn::Zero(d);
  store_some(d, finish_with(d, sum, end, row, add), to + offset, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#endif
