#include "kernels/direct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/direct.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows whose sums fit into the registers beside a weight and the vectors that it is multiplied with.
constexpr int kMostRows = kManyRegisters ? 8 : 4;

// Sums of so many products are added up to the whole, which keeps long sums exact: with 256 products the error is a
// third of that of one sum.
constexpr int64_t kSteps = 32;

// R rows by V vectors of columns, of which `columns` are there.
template <int R, int V>
void block(const DirectPatches& p, const float* HWY_RESTRICT weights, int64_t x, int64_t columns,
           const GemmEnd& end, float* HWY_RESTRICT out, int64_t out_stride) {
  const hn::ScalableTag<float> d;
  using Vec = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec all[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) all[r][v] = hn::Zero(d);
  for (int64_t begin = 0; begin < p.k; begin += kSteps) {
    Vec sums[R][V];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) sums[r][v] = hn::Zero(d);
    for (int64_t i = begin; i < p.k && i < begin + kSteps; ++i) {
      const float* HWY_RESTRICT from = p.base + p.offsets[i] + x;
      Vec patch[V];
      for (int v = 0; v < V; ++v) patch[v] = hn::LoadU(d, from + v * lanes);
      for (int r = 0; r < R; ++r) {
        const Vec weight = hn::Set(d, weights[r * p.k + i]);
        for (int v = 0; v < V; ++v) sums[r][v] = hn::MulAdd(weight, patch[v], sums[r][v]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) all[r][v] = hn::Add(all[r][v], sums[r][v]);
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      const int64_t left = columns - x - v * lanes, offset = r * out_stride + x + v * lanes;
      left >= lanes ? finish(d, all[r][v], end, r, offset, out)
                    : finish_some(d, all[r][v], end, r, offset, left, out);
    }
}

template <int R>
void rows_block(const DirectPatches& p, const float* weights, int64_t columns, const GemmEnd& end, float* out,
                int64_t out_stride) {
  constexpr int kVectors = R >= 8 ? 3 : R >= 4 && !kManyRegisters ? 2 : 4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t x = 0;
  for (; x + kVectors * lanes <= columns; x += kVectors * lanes)
    block<R, kVectors>(p, weights, x, columns, end, out, out_stride);
  for (; x < columns; x += lanes) block<R, 1>(p, weights, x, columns, end, out, out_stride);
}

void DirectRowImpl(const DirectPatches& p, const float* weights, int64_t rows, int64_t columns,
                   const GemmEnd& end, float* out, int64_t out_stride) {
  for (int64_t r = 0; r < rows;) {
    const GemmEnd here = end.from(r, r * out_stride);
    const float* w = weights + r * p.k;
    float* to = out + r * out_stride;
    if (rows - r >= kMostRows) {
      rows_block<kMostRows>(p, w, columns, here, to, out_stride);
      r += kMostRows;
    } else if (kManyRegisters && rows - r >= 4) {
      rows_block<4>(p, w, columns, here, to, out_stride);
      r += 4;
    } else if (rows - r >= 2) {
      rows_block<2>(p, w, columns, here, to, out_stride);
      r += 2;
    } else {
      rows_block<1>(p, w, columns, here, to, out_stride);
      r += 1;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(DirectRowImpl);

void direct_row(const DirectPatches& patches, const float* weights, int64_t rows, int64_t columns,
                const GemmEnd& end, float* out, int64_t out_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(DirectRowImpl)(patches, weights, rows, columns, end, out, out_stride);
}

void direct_row_plain(const DirectPatches& p, const float* weights, int64_t rows, int64_t columns,
                      const GemmEnd& end, float* out, int64_t out_stride) noexcept {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t x = 0; x < columns; ++x) {
      double sum = 0;
      for (int64_t i = 0; i < p.k; ++i)
        sum += static_cast<double>(weights[r * p.k + i]) * static_cast<double>(p.base[p.offsets[i] + x]);
      out[r * out_stride + x] = finish_plain(static_cast<float>(sum), end, r, r * out_stride + x);
    }
}

}  // namespace anemone
#endif  // HWY_ONCE
