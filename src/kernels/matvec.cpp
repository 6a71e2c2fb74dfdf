#include "kernels/matvec.h"

#include <cstring>

#include "base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Fp32Weights {
  static constexpr int64_t kBytes = 4;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint8_t* p) {
    const hn::Repartition<uint8_t, D> d8;
    return hn::BitCast(d, hn::LoadU(d8, p));
  }
  static float one(const uint8_t* p) {
    float f;
    __builtin_memcpy(&f, p, 4);
    return f;
  }
};

struct Fp16Weights {
  static constexpr int64_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint8_t* p) {
    return widen_half(d, load_16(d, p));
  }
  static float one(const uint8_t* p) {
    uint16_t h;
    __builtin_memcpy(&h, p, 2);
    return half_to_float(h);
  }
};

struct Int8Weights {
  static constexpr int64_t kBytes = 1;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint8_t* p) {
    const hn::Rebind<int8_t, D> d8;
    const hn::Rebind<int32_t, D> d32;
    return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const int8_t*>(p))));
  }
  static float one(const uint8_t* p) { return static_cast<float>(static_cast<int8_t>(*p)); }
};

// Weights are asked for so far ahead of their use. With rows one after the other, not side by side, the
// memory sees one stream: 18 GB/s where four rows side by side give 10 and reading alone gives 22 (int8, k
// 576, AVX-512, one core, weights in a mapped file).
constexpr int64_t kAhead = 2048;

// One row against N vectors; the sums of the lanes are still apart. Each sum runs in kSums parts so that the
// additions overlap.
template <class W, int N>
HWY_INLINE void sum_lanes(const uint8_t* HWY_RESTRICT w, int64_t k, const float* HWY_RESTRICT x,
                          hn::Vec<hn::ScalableTag<float>>* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kSums = N <= 2 ? 4 : 2;
  V sums[N][kSums];
  for (int n = 0; n < N; ++n)
    for (int s = 0; s < kSums; ++s) sums[n][s] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSums * lanes <= k; i += kSums * lanes) {
    for (int64_t line = 0; line < kSums * lanes * W::kBytes; line += 64)
      hwy::Prefetch(w + i * W::kBytes + line + kAhead);
    for (int s = 0; s < kSums; ++s) {
      const V weight = W::load(d, w + (i + s * lanes) * W::kBytes);
      for (int n = 0; n < N; ++n)
        sums[n][s] = hn::MulAdd(weight, hn::LoadU(d, x + n * k + i + s * lanes), sums[n][s]);
    }
  }
  for (; i + lanes <= k; i += lanes) {
    const V weight = W::load(d, w + i * W::kBytes);
    for (int n = 0; n < N; ++n) sums[n][0] = hn::MulAdd(weight, hn::LoadU(d, x + n * k + i), sums[n][0]);
  }
  for (int n = 0; n < N; ++n) {
    for (int s = 1; s < kSums; ++s) sums[n][0] = hn::Add(sums[n][0], sums[n][s]);
    out[n] = sums[n][0];
  }
}

// What is left behind the last whole vector.
template <class W>
HWY_INLINE float tail(const uint8_t* w, int64_t begin, int64_t k, const float* x) {
  float sum = 0;
  for (int64_t i = begin; i < k; ++i) sum += W::one(w + i * W::kBytes) * x[i];
  return sum;
}

// kRows rows, then their sums: 18 GB/s instead of 14 with a sum after each row.
template <class W, int N>
void rows_by(const uint8_t* w, int64_t rows, int64_t k, const float* x, float* out, int64_t out_stride) {
  const hn::ScalableTag<float> d;
  constexpr int kRows = N == 1 ? 4 : 1;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = k / lanes * lanes;
  hn::Vec<decltype(d)> sums[kRows][N];
  const auto finish = [&](const uint8_t* row, const hn::Vec<decltype(d)>* sum, float* to) HWY_ATTR {
    for (int n = 0; n < N; ++n)
      to[n * out_stride] = hn::GetLane(hn::SumOfLanes(d, sum[n])) + tail<W>(row, whole, k, x + n * k);
  };
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    for (int j = 0; j < kRows; ++j) sum_lanes<W, N>(w + (r + j) * k * W::kBytes, k, x, sums[j]);
    for (int j = 0; j < kRows; ++j) finish(w + (r + j) * k * W::kBytes, sums[j], out + r + j);
  }
  for (; r < rows; ++r) {
    sum_lanes<W, N>(w + r * k * W::kBytes, k, x, sums[0]);
    finish(w + r * k * W::kBytes, sums[0], out + r);
  }
}

template <class W>
void rows_of(const uint8_t* w, int64_t rows, int64_t k, const float* x, int64_t vectors, float* out,
             int64_t out_stride) {
  switch (vectors) {
    case 1: return rows_by<W, 1>(w, rows, k, x, out, out_stride);
    case 2: return rows_by<W, 2>(w, rows, k, x, out, out_stride);
    case 3: return rows_by<W, 3>(w, rows, k, x, out, out_stride);
    default: return rows_by<W, 4>(w, rows, k, x, out, out_stride);
  }
}

template <class W>
void widen_all(const uint8_t* HWY_RESTRICT w, int64_t count, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(W::load(d, w + i * W::kBytes), d, out + i);
  for (; i < count; ++i) out[i] = W::one(w + i * W::kBytes);
}

void WidenImpl(WeightKind kind, const uint8_t* w, int64_t count, float* out) {
  switch (kind) {
    case WeightKind::fp32: return widen_all<Fp32Weights>(w, count, out);
    case WeightKind::fp16: return widen_all<Fp16Weights>(w, count, out);
    case WeightKind::int8: return widen_all<Int8Weights>(w, count, out);
  }
}

void MatvecImpl(WeightKind kind, const uint8_t* w, int64_t rows, int64_t k, const float* x, int64_t vectors,
                float* out, int64_t out_stride) {
  switch (kind) {
    case WeightKind::fp32: return rows_of<Fp32Weights>(w, rows, k, x, vectors, out, out_stride);
    case WeightKind::fp16: return rows_of<Fp16Weights>(w, rows, k, x, vectors, out, out_stride);
    case WeightKind::int8: return rows_of<Int8Weights>(w, rows, k, x, vectors, out, out_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(MatvecImpl);
HWY_EXPORT(WidenImpl);

namespace {

template <int64_t kPerByte>
void copy_entries(const float* table, const std::byte* packed, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kPerByte <= count; i += kPerByte)
    std::memcpy(out + i, table + std::to_integer<int64_t>(*packed++) * kPerByte, kPerByte * sizeof(float));
  if (i < count)
    std::memcpy(out + i, table + std::to_integer<int64_t>(*packed) * kPerByte,
                static_cast<size_t>(count - i) * sizeof(float));
}

}  // namespace

void PackedTable::fill(int bits, const float* values) {
  per_byte_ = 8 / bits;
  floats_.resize(static_cast<size_t>(256 * per_byte_));
  float* out = floats_.data();
  for (int byte = 0; byte < 256; ++byte)
    for (int at = 0; at < 8; at += bits) *out++ = values[byte >> at & ((1 << bits) - 1)];
}

void PackedTable::widen(const std::byte* packed, int64_t count, float* out) const noexcept {
  switch (per_byte_) {
    case 1: return copy_entries<1>(floats_.data(), packed, count, out);
    case 2: return copy_entries<2>(floats_.data(), packed, count, out);
    case 4: return copy_entries<4>(floats_.data(), packed, count, out);
    default: return copy_entries<8>(floats_.data(), packed, count, out);
  }
}

void widen(WeightKind kind, const std::byte* weights, int64_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(WidenImpl)(kind, reinterpret_cast<const uint8_t*>(weights), count, out);
}

void matvec(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
            int64_t vectors, float* out, int64_t out_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(MatvecImpl)
  (kind, reinterpret_cast<const uint8_t*>(weights), rows, k, x, vectors, out, out_stride);
}

void matvec_plain(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
                  int64_t vectors, float* out, int64_t out_stride) noexcept {
  const auto at = [&](int64_t i) {
    if (kind == WeightKind::int8) return static_cast<float>(static_cast<int8_t>(weights[i]));
    float f;
    uint16_t h;
    std::memcpy(&h, weights + i * 2, 2);
    if (kind == WeightKind::fp16) return half_to_float(h);
    std::memcpy(&f, weights + i * 4, 4);
    return f;
  };
  for (int64_t t = 0; t < vectors; ++t)
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(at(r * k + i)) * x[t * k + i];
      out[t * out_stride + r] = static_cast<float>(sum);
    }
}

}  // namespace anemone
#endif  // HWY_ONCE
