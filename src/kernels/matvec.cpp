#include "kernels/matvec.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

#include "base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/convert-inl.h"
#include "kernels/packed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A row of weights: `load` gives the elements from i on, a multiple of the lanes, `one` a single element. A load
// reads kLoads bytes, or with 0 no more than its elements.
struct Fp32Weights {
  static constexpr int64_t kBitsEach = 32, kLoads = 0;
  Fp32Weights(const uint8_t* row, const float*) : row_(row) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, int64_t i) const {
    const hn::Repartition<uint8_t, D> d8;
    return hn::BitCast(d, hn::LoadU(d8, row_ + i * 4));
  }
  HWY_INLINE float one(int64_t i) const {
    float f;
    __builtin_memcpy(&f, row_ + i * 4, 4);
    return f;
  }
  const uint8_t* row_;
};

struct Fp16Weights {
  static constexpr int64_t kBitsEach = 16, kLoads = 0;
  Fp16Weights(const uint8_t* row, const float*) : row_(row) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, int64_t i) const {
    return widen_half(d, load_16(d, row_ + i * 2));
  }
  HWY_INLINE float one(int64_t i) const {
    uint16_t h;
    __builtin_memcpy(&h, row_ + i * 2, 2);
    return half_to_float(h);
  }
  const uint8_t* row_;
};

template <class T, bool kShifted>
struct ByteWeights {
  static constexpr int64_t kBitsEach = 8, kLoads = 0;
  ByteWeights(const uint8_t* row, const float* offset)
      : row_(reinterpret_cast<const T*>(row)), offset_(kShifted ? *offset : 0) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, int64_t i) const {
    const hn::Rebind<T, D> d8;
    const hn::Rebind<int32_t, D> d32;
    const auto v = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, row_ + i)));
    if constexpr (kShifted) return hn::Sub(v, hn::Set(d, offset_));
    return v;
  }
  HWY_INLINE float one(int64_t i) const { return static_cast<float>(row_[i]) - offset_; }
  const T* row_;
  float offset_;
};

// Weights are asked for so far ahead of their use, into the second cache: with two cores, rows of fp16 go at 97% of
// reading alone, where asking for the first cache 2 KiB ahead gives 68% and asking for nothing 87% (int8: 99, 94 and
// 66%; AVX-512, rows of 896). With rows one after the other, not side by side, the memory sees one stream: 18 GB/s
// where four rows side by side give 10 and reading alone gives 22 (int8, k 576, one core).
constexpr int64_t kAhead = 4096;

// Registers for the sums of four vectors, kSums each, beside what they are made of.
constexpr bool kManyRegisters = HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3);

// One row against N vectors, its elements up to `most` as far as they fill vectors; the sums of the lanes are
// still apart. Each sum runs in kSums parts so that the additions overlap; in as many for any N, so that a vector's
// result does not depend on those beside it.
template <class W, int N>
HWY_INLINE void sum_lanes(const W& w, const uint8_t* HWY_RESTRICT row, int64_t most, int64_t k,
                          const float* HWY_RESTRICT x, hn::Vec<hn::ScalableTag<float>>* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kSums = 4;  // for every N: the order of a vector's sum is always the same
  V sums[N][kSums];
  for (int n = 0; n < N; ++n)
    for (int s = 0; s < kSums; ++s) sums[n][s] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSums * lanes <= most; i += kSums * lanes) {
    for (int64_t line = 0; line < kSums * lanes * W::kBitsEach / 8; line += 64)
      __builtin_prefetch(row + i * W::kBitsEach / 8 + line + kAhead, 0, 2);
    for (int s = 0; s < kSums; ++s) {
      const V weight = w.load(d, i + s * lanes);
      for (int n = 0; n < N; ++n)
        sums[n][s] = hn::MulAdd(weight, hn::LoadU(d, x + n * k + i + s * lanes), sums[n][s]);
    }
  }
  for (; i + lanes <= most; i += lanes) {
    const V weight = w.load(d, i);
    for (int n = 0; n < N; ++n) sums[n][0] = hn::MulAdd(weight, hn::LoadU(d, x + n * k + i), sums[n][0]);
  }
  for (int n = 0; n < N; ++n) {
    for (int s = 1; s < kSums; ++s) sums[n][0] = hn::Add(sums[n][0], sums[n][s]);
    out[n] = sums[n][0];
  }
}

// What is left behind the last whole vector.
template <class W>
HWY_INLINE float tail(const W& w, int64_t begin, int64_t k, const float* x) {
  float sum = 0;
  for (int64_t i = begin; i < k; ++i) sum += w.one(i) * x[i];
  return sum;
}

// Elements of a row whose vectors can be loaded without reading beyond `end`.
template <class W>
HWY_INLINE int64_t loadable(const uint8_t* row, const uint8_t* end, int64_t k) {
  if constexpr (W::kLoads == 0) return k;
  // The last vector to load begins kLoads bytes before the end.
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t room = (end - row - W::kLoads) * 8;
  if (room < 0) return 0;
  const int64_t elements = (room / (lanes * W::kBitsEach) + 1) * lanes;
  return elements < k ? elements : k;
}

// Rows one after the other, or each where it lies.
struct RowsInOrder {
  const uint8_t* first;
  int64_t bytes;
  HWY_INLINE const uint8_t* data(int64_t r) const { return first + r * bytes; }
  HWY_INLINE const float* beside(int64_t) const { return nullptr; }
};
struct RowsListed {
  const WeightRow* rows;
  HWY_INLINE const uint8_t* data(int64_t r) const { return reinterpret_cast<const uint8_t*>(rows[r].data); }
  HWY_INLINE const float* beside(int64_t r) const { return rows[r].beside; }
};

// kRows rows, then their sums: 18 GB/s instead of 14 with a sum after each row.
template <class W, int N, class Rows>
void rows_by(const Rows rows, int64_t count, const uint8_t* end, int64_t k, const float* x, float* out,
             int64_t out_stride) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kRows = N == 1 ? 4 : 1;
  hn::Vec<decltype(d)> sums[kRows][N];
  const auto finish = [&](int64_t r, const hn::Vec<decltype(d)>* sum, int64_t whole) HWY_ATTR {
    const W w(rows.data(r), rows.beside(r));
    for (int n = 0; n < N; ++n)
      out[r + n * out_stride] = hn::GetLane(hn::SumOfLanes(d, sum[n])) + tail(w, whole, k, x + n * k);
  };
  const int64_t whole = k / lanes * lanes;
  int64_t r = 0;
  for (; r + kRows <= count && loadable<W>(rows.data(r + kRows - 1), end, k) == k; r += kRows) {
    for (int j = 0; j < kRows; ++j)
      sum_lanes<W, N>(W(rows.data(r + j), rows.beside(r + j)), rows.data(r + j), k, k, x, sums[j]);
    for (int j = 0; j < kRows; ++j) finish(r + j, sums[j], whole);
  }
  for (; r < count; ++r) {
    const int64_t most = loadable<W>(rows.data(r), end, k);
    sum_lanes<W, N>(W(rows.data(r), rows.beside(r)), rows.data(r), most, k, x, sums[0]);
    finish(r, sums[0], most / lanes * lanes);
  }
}

template <class W, class Rows>
void rows_of(const Rows& rows, int64_t count, const uint8_t* end, int64_t k, const float* x, int64_t vectors,
             float* out, int64_t out_stride) {
  if constexpr (!kManyRegisters) {
    for (; vectors > 2; vectors -= 2, x += 2 * k, out += 2 * out_stride)
      rows_by<W, 2>(rows, count, end, k, x, out, out_stride);
  }
  switch (vectors) {
    case 1: return rows_by<W, 1>(rows, count, end, k, x, out, out_stride);
    case 2: return rows_by<W, 2>(rows, count, end, k, x, out, out_stride);
    case 3: return rows_by<W, 3>(rows, count, end, k, x, out, out_stride);
    default: return rows_by<W, 4>(rows, count, end, k, x, out, out_stride);
  }
}

template <class W>
void widen_all(const WeightRow& row, const uint8_t* end, int64_t count, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* bytes = reinterpret_cast<const uint8_t*>(row.data);
  const W w(bytes, row.beside);
  const int64_t whole = loadable<W>(bytes, end, count) / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes) hn::StoreU(w.load(d, i), d, out + i);
  for (int64_t i = whole; i < count; ++i) out[i] = w.one(i);
}

// Call f with the type of the kind's rows: numbers as they are, and what needs something beside.
template <class F>
HWY_INLINE void with_numbers(WeightKind kind, F f) {
  switch (kind) {
    case WeightKind::fp32: return f(static_cast<Fp32Weights*>(nullptr));
    case WeightKind::fp16: return f(static_cast<Fp16Weights*>(nullptr));
    default: return f(static_cast<ByteWeights<int8_t, false>*>(nullptr));
  }
}
template <class F>
HWY_INLINE void with_codes(WeightKind kind, F f) {
  switch (kind) {
    case WeightKind::int8_shifted: return f(static_cast<ByteWeights<int8_t, true>*>(nullptr));
    case WeightKind::uint8_shifted: return f(static_cast<ByteWeights<uint8_t, true>*>(nullptr));
    case WeightKind::table1: return f(static_cast<TableWeights<1>*>(nullptr));
    case WeightKind::table2: return f(static_cast<TableWeights<2>*>(nullptr));
    case WeightKind::table3: return f(static_cast<TableWeights<3>*>(nullptr));
    case WeightKind::table4: return f(static_cast<TableWeights<4>*>(nullptr));
    case WeightKind::table6: return f(static_cast<TableWeights<6>*>(nullptr));
    default: return f(static_cast<TableWeights<8>*>(nullptr));
  }
}

void WidenImpl(WeightKind kind, const WeightRow& row, const uint8_t* end, int64_t count, float* out) {
  const auto run = [&](auto* type)
                       HWY_ATTR { widen_all<std::remove_pointer_t<decltype(type)>>(row, end, count, out); };
  kind <= WeightKind::int8 ? with_numbers(kind, run) : with_codes(kind, run);
}

void InOrderImpl(WeightKind kind, const uint8_t* weights, int64_t rows, int64_t k, const float* x,
                 int64_t vectors, float* out, int64_t out_stride) {
  with_numbers(kind, [&](auto* type) HWY_ATTR {
    using W = std::remove_pointer_t<decltype(type)>;
    rows_of<W>(RowsInOrder{weights, k * W::kBitsEach / 8}, rows, weights, k, x, vectors, out, out_stride);
  });
}

void ListedImpl(WeightKind kind, const WeightRow* rows, int64_t count, const uint8_t* end, int64_t k,
                const float* x, int64_t vectors, float* out, int64_t out_stride) {
  with_codes(kind, [&](auto* type) HWY_ATTR {
    rows_of<std::remove_pointer_t<decltype(type)>>(RowsListed{rows}, count, end, k, x, vectors, out,
                                                   out_stride);
  });
}

void ShiftScaleImpl(float* HWY_RESTRICT x, int64_t first, int64_t count, int64_t block,
                    const float* HWY_RESTRICT scale, const float* HWY_RESTRICT offset) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t b = first / block, next = (b + 1) * block - first;
  for (int64_t i = 0; i < count; ++b, next += block) {
    const int64_t end = next < count ? next : count;
    const float shift = offset ? offset[b] : 0;
    const auto factor = hn::Set(d, scale[b]), less = hn::Set(d, shift);
    for (; i + lanes <= end; i += lanes)
      hn::StoreU(hn::Mul(hn::Sub(hn::LoadU(d, x + i), less), factor), d, x + i);
    for (; i < end; ++i) x[i] = (x[i] - shift) * scale[b];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(InOrderImpl);
HWY_EXPORT(ListedImpl);
HWY_EXPORT(WidenImpl);
HWY_EXPORT(ShiftScaleImpl);

int weight_bits(WeightKind kind) {
  static constexpr int kBits[] = {32, 16, 8, 8, 8, 1, 2, 3, 4, 6, 8};
  return kBits[static_cast<size_t>(kind)];
}

void matvec(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
            int64_t vectors, float* out, int64_t out_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(InOrderImpl)
  (kind, reinterpret_cast<const uint8_t*>(weights), rows, k, x, vectors, out, out_stride);
}

void matvec(WeightKind kind, const WeightRow* rows, int64_t count, const std::byte* end, int64_t k,
            const float* x, int64_t vectors, float* out, int64_t out_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(ListedImpl)
  (kind, rows, count, reinterpret_cast<const uint8_t*>(end), k, x, vectors, out, out_stride);
}

void widen(WeightKind kind, const WeightRow& row, const std::byte* end, int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(WidenImpl)(kind, row, reinterpret_cast<const uint8_t*>(end), count, out);
}

void shift_and_scale(float* x, int64_t first, int64_t count, int64_t block, const float* scale,
                     const float* offset) noexcept {
  HWY_DYNAMIC_DISPATCH(ShiftScaleImpl)(x, first, count, block, scale, offset);
}

void widen_plain(WeightKind kind, const WeightRow& row, int64_t count, float* out) noexcept {
  const int bits = weight_bits(kind);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = 0;  // the element's bits, lowest first
    for (int64_t b = 0; b < bits; ++b) {
      const int64_t at = i * bits + b;
      word |= (std::to_integer<uint32_t>(row.data[at / 8]) >> (at % 8) & 1) << b;
    }
    switch (kind) {
      case WeightKind::fp32: out[i] = std::bit_cast<float>(word); break;
      case WeightKind::fp16: out[i] = half_to_float(static_cast<uint16_t>(word)); break;
      case WeightKind::int8: out[i] = static_cast<float>(static_cast<int8_t>(word)); break;
      case WeightKind::int8_shifted:
        out[i] = static_cast<float>(static_cast<int8_t>(word)) - *row.beside;
        break;
      case WeightKind::uint8_shifted: out[i] = static_cast<float>(word) - *row.beside; break;
      default: out[i] = row.beside[word]; break;
    }
  }
}

void matvec_plain(WeightKind kind, const WeightRow* rows, int64_t count, int64_t k, const float* x,
                  int64_t vectors, float* out, int64_t out_stride) noexcept {
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t r = 0; r < count; ++r) {
    widen_plain(kind, rows[r], k, row.data());
    for (int64_t t = 0; t < vectors; ++t) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(row[static_cast<size_t>(i)]) * x[t * k + i];
      out[t * out_stride + r] = static_cast<float>(sum);
    }
  }
}

}  // namespace anemone
#endif  // HWY_ONCE
