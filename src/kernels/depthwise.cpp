#include "kernels/depthwise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One vector of R rows of the output. A vector of the input is loaded once for all of them: with a kernel of 3 x 3 and
// R = 4, 4.5 loads a sum in place of 9.
template <int K, int S, int R, class D>
HWY_INLINE void sum_rows(D d, const DepthwiseRows& t, const hn::Vec<D>* HWY_RESTRICT weights,
                         const float* HWY_RESTRICT row, hn::Vec<D>* HWY_RESTRICT sums) {
  using V = hn::Vec<D>;
  for (int r = 0; r < R; ++r) sums[r] = hn::Zero(d);
#pragma GCC unroll 16
  for (int i = 0; i < (R - 1) * S + K; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < K; ++j) {
      const V v = hn::LoadU(d, row + i * t.pitch + t.offsets[j]);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        if (const int at = i - r * S; at >= 0 && at < K)
          sums[r] = hn::MulAdd(weights[at * K + j], v, sums[r]);
    }
}

// Any kernel, one row.
template <class D>
HWY_INLINE hn::Vec<D> sum_taps(D d, const DepthwiseRows& t, const float* HWY_RESTRICT row) {
  auto sum = hn::Zero(d);
  const int64_t count = t.kernel[0] * t.kernel[1];
  for (int64_t i = 0; i < count; ++i)
    sum = hn::MulAdd(hn::Set(d, t.weights[i]), hn::LoadU(d, row + t.offsets[i]), sum);
  return sum;
}

template <class D, class V>
HWY_INLINE void store_sum(D d, V sum, const GemmEnd& end, int64_t offset, int64_t left, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  left >= lanes ? finish(d, sum, end, 0, offset, out) : finish_some(d, sum, end, 0, offset, left, out);
}

// Rows [y, rows) as far as they fill blocks of R; gives the first that is left. The padded rows have room behind them:
// a vector may read beyond the last column.
template <int K, int S, int R, bool kOnlyBias>
int64_t blocks_of(const DepthwiseRows& t, int64_t y, int64_t rows, int64_t columns, const GemmEnd& end,
                  float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> weights[K * K];
#pragma GCC unroll 32
  for (int i = 0; i < K * K; ++i) weights[i] = hn::Set(d, t.weights[i]);
  const auto low = hn::Set(d, end.low), high = hn::Set(d, end.high),
             bias = kOnlyBias ? hn::Set(d, *end.bias) : hn::Zero(d);
  for (; y + R <= rows; y += R)
    for (int64_t x = 0; x < columns; x += lanes) {
      hn::Vec<decltype(d)> sums[R];
      sum_rows<K, S, R>(d, t, weights, t.padded + y * t.step + x, sums);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const int64_t offset = (y + r) * columns + x;
        if constexpr (kOnlyBias) {
          const auto sum = clamp(hn::Add(sums[r], bias), low, high);
          columns - x >= lanes ? hn::StoreU(sum, d, out + offset)
                               : store_some(d, sum, out + offset, columns - x);
        } else {
          store_sum(d, sums[r], end, offset, columns - x, out);
        }
      }
    }
  return y;
}

template <int K, int S, bool kOnlyBias>
void rows_with(const DepthwiseRows& t, int64_t rows, int64_t columns, const GemmEnd& end, float* out) {
  int64_t y = blocks_of<K, S, 4, kOnlyBias>(t, 0, rows, columns, end, out);
  y = blocks_of<K, S, 2, kOnlyBias>(t, y, rows, columns, end, out);
  blocks_of<K, S, 1, kOnlyBias>(t, y, rows, columns, end, out);
}

template <int K, int S>
void rows_of(const DepthwiseRows& t, int64_t rows, int64_t columns, const GemmEnd& end, float* out) {
  only_bias(end) ? rows_with<K, S, true>(t, rows, columns, end, out)
                 : rows_with<K, S, false>(t, rows, columns, end, out);
}

void RowsImpl(const DepthwiseRows& t, int64_t rows, int64_t columns, const GemmEnd& end, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (t.dense && t.kernel[0] == t.kernel[1] && t.stride <= 2) {
    if (t.kernel[0] == 3)
      return t.stride == 1 ? rows_of<3, 1>(t, rows, columns, end, out)
                           : rows_of<3, 2>(t, rows, columns, end, out);
    if (t.kernel[0] == 5)
      return t.stride == 1 ? rows_of<5, 1>(t, rows, columns, end, out)
                           : rows_of<5, 2>(t, rows, columns, end, out);
  }
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; x += lanes)
      store_sum(d, sum_taps(d, t, t.padded + y * t.step + x), end, y * columns + x, columns - x, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(RowsImpl);

namespace {

constexpr int64_t kBand = 4096;  // padded floats at a time: half of the first cache

// Padded rows for so many of the output.
int64_t input_rows(const DepthwisePlane& p, int64_t rows) {
  return (rows - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
}

}  // namespace

void prepare_room(const DepthwisePlane& p, float fill, DepthwiseRoom& room) {
  if (room.rows > 0 && room.plane == p && room.how.fill == fill) return;
  room.plane = p;
  room.offsets.clear();
  const int64_t phases = p.stride[1];
  const int64_t line = p.out_width + (p.kernel[1] - 1) * p.dilation[1] / phases;  // of one phase
  room.how = {p.height, p.width, p.before[1], phases, line, fill};
  // As many fours of output rows as fit.
  const int64_t pitch = room.how.pitch();
  const int64_t fits = ((kBand / pitch - input_rows(p, 1)) / p.stride[0] + 1) / 4 * 4;
  room.rows = std::min(p.out_height, std::max<int64_t>(4, fits));
  room.padded.assign(static_cast<size_t>(input_rows(p, room.rows) * pitch + floats_beyond()), fill);
  for (int64_t t = 0; t < p.kernel[0] * p.kernel[1]; ++t) {
    const int64_t column = t % p.kernel[1] * p.dilation[1];
    room.offsets.push_back((t / p.kernel[1] * p.dilation[0] * phases + column % phases) * line +
                           column / phases);
  }
}

DepthwiseRows rows_in(const DepthwiseRoom& room, const DepthwisePlane& p, const float* weights) {
  return {.padded = room.padded.data(),
          .step = p.stride[0] * room.how.pitch(),
          .pitch = room.how.pitch(),
          .offsets = room.offsets.data(),
          .weights = weights,
          .kernel = {p.kernel[0], p.kernel[1]},
          .stride = p.stride[0],
          .dense = p.dilation[0] == 1 && p.dilation[1] == 1};
}

void pad_band(const DepthwisePlane& p, const float* x, int64_t y, int64_t rows, DepthwiseRoom& room) {
  pad_rows(x, room.how, y * p.stride[0] - p.before[0], input_rows(p, rows), false, room.padded.data());
}

void depthwise(const DepthwisePlane& p, const float* x, const float* weight, const GemmEnd& end,
               DepthwiseRoom& room, float* out) {
  prepare_room(p, 0, room);
  const DepthwiseRows taps = rows_in(room, p, weight);
  for (int64_t y = 0; y < p.out_height; y += room.rows) {
    const int64_t rows = std::min(room.rows, p.out_height - y);
    pad_band(p, x, y, rows, room);
    HWY_DYNAMIC_DISPATCH(RowsImpl)
    (taps, rows, p.out_width, end.from(0, y * p.out_width), out + y * p.out_width);
  }
}

void depthwise_plain(const DepthwisePlane& p, const float* x, const float* weight, const GemmEnd& end,
                     float* out) {
  for (int64_t y = 0; y < p.out_height; ++y)
    for (int64_t c = 0; c < p.out_width; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < p.kernel[0]; ++i)
        for (int64_t j = 0; j < p.kernel[1]; ++j) {
          const int64_t row = y * p.stride[0] + i * p.dilation[0] - p.before[0];
          const int64_t column = c * p.stride[1] + j * p.dilation[1] - p.before[1];
          if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
          sum += static_cast<double>(weight[i * p.kernel[1] + j]) *
                 static_cast<double>(x[row * p.width + column]);
        }
      const int64_t at = y * p.out_width + c;
      out[at] = finish_plain(static_cast<float>(sum), end, 0, at);
    }
}

}  // namespace anemone
#endif  // HWY_ONCE
