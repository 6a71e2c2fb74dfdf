#include "kernels/matvec.h"

#include <cstring>

#include "base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
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

// R rows against N vectors: a weight is widened once for all vectors, a piece of a vector read once for all
// rows. Each sum runs in kSums parts so that the additions overlap; how it is split depends on N alone.
template <class W, int N, int R>
HWY_INLINE void row_block(const uint8_t* HWY_RESTRICT w, int64_t k, const float* HWY_RESTRICT x,
                          float* HWY_RESTRICT out, int64_t out_stride) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kSums = N == 1 ? 2 : 1;
  V sums[R][N][kSums];
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n)
      for (int s = 0; s < kSums; ++s) sums[r][n][s] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSums * lanes <= k; i += kSums * lanes)
    for (int s = 0; s < kSums; ++s) {
      const int64_t at = i + s * lanes;
      V piece[N];
      for (int n = 0; n < N; ++n) piece[n] = hn::LoadU(d, x + n * k + at);
      for (int r = 0; r < R; ++r) {
        const V weight = W::load(d, w + (r * k + at) * W::kBytes);
        for (int n = 0; n < N; ++n) sums[r][n][s] = hn::MulAdd(weight, piece[n], sums[r][n][s]);
      }
    }
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) {
      V sum = sums[r][n][0];
      for (int s = 1; s < kSums; ++s) sum = hn::Add(sum, sums[r][n][s]);
      float total = hn::GetLane(hn::SumOfLanes(d, sum));
      for (int64_t j = i; j < k; ++j) total += W::one(w + (r * k + j) * W::kBytes) * x[n * k + j];
      out[n * out_stride + r] = total;
    }
}

// Four rows at a time: each is a stream of its own for the memory, and x is loaded for all of them.
template <class W, int N>
void rows_by(const uint8_t* w, int64_t rows, int64_t k, const float* x, float* out, int64_t out_stride) {
  constexpr int kRows = N <= 2 ? 4 : 2;  // with more, the sums do not fit in 16 registers
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    row_block<W, N, kRows>(w + r * k * W::kBytes, k, x, out + r, out_stride);
  for (; r < rows; ++r) row_block<W, N, 1>(w + r * k * W::kBytes, k, x, out + r, out_stride);
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
