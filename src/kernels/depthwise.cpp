#include "kernels/depthwise.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One vector of a row, from column x on. kCount taps, or with 0 as many as there are.
template <int kCount, class D>
HWY_INLINE hn::Vec<D> sum_taps(D d, const DepthwiseTaps& t, const float* HWY_RESTRICT row, float bias) {
  auto sum = hn::Set(d, bias);
  const int64_t count = kCount ? kCount : t.count;
  for (int64_t i = 0; i < count; ++i)
    sum = hn::MulAdd(hn::Set(d, t.weights[i]), hn::LoadU(d, row + t.offsets[i]), sum);
  return sum;
}

// The padded rows have room behind them: a vector may read beyond the last column.
template <int kCount>
HWY_INLINE void plane_of(const DepthwiseTaps& t, float bias, int64_t rows, int64_t columns,
                         float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto rest = hn::FirstN(d, static_cast<size_t>(columns % lanes));
  for (int64_t y = 0; y < rows; ++y, out += columns) {
    const float* row = t.padded + y * t.step;
    int64_t x = 0;
    for (; x + lanes <= columns; x += lanes) hn::StoreU(sum_taps<kCount>(d, t, row + x, bias), d, out + x);
    if (x < columns) hn::BlendedStore(sum_taps<kCount>(d, t, row + x, bias), rest, d, out + x);
  }
}

void PlaneImpl(const DepthwiseTaps& t, float bias, int64_t rows, int64_t columns, float* out) {
  t.count == 9 ? plane_of<9>(t, bias, rows, columns, out) : plane_of<0>(t, bias, rows, columns, out);
}

// Every other element from x[0] on, and from x[1] on; `count` of each.
void SplitImpl(const float* HWY_RESTRICT x, int64_t count, float* HWY_RESTRICT even,
               float* HWY_RESTRICT odd) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    hn::StoreU(a, d, even + i);
    hn::StoreU(b, d, odd + i);
  }
  for (; i < count; ++i) {
    even[i] = x[2 * i];
    odd[i] = x[2 * i + 1];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(PlaneImpl);
HWY_EXPORT(SplitImpl);

namespace {

constexpr int64_t kBeyond = HWY_MAX_BYTES / sizeof(float);  // floats that a vector may read behind a row

// A row of the plane behind `before` zeros, its columns sorted by their remainder of `phases`: those of one remainder
// lie together, `line` of them.
void pad_row(const float* row, int64_t width, int64_t before, int64_t phases, int64_t line, float* to) {
  if (phases == 1) {
    const int64_t count = std::min(width, line - before);
    if (count > 0) std::memcpy(to + before, row, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  int64_t done = 0;
  if (phases == 2) {  // pairs from the first even place on
    const int64_t skip = before % 2, at = (before + skip) / 2;
    const int64_t pairs = std::max<int64_t>(0, std::min((width - skip) / 2, line - at));
    if (skip && before / 2 < line) to[line + before / 2] = row[0];
    HWY_DYNAMIC_DISPATCH(SplitImpl)(row + skip, pairs, to + at, to + line + at);
    done = skip + 2 * pairs;
  }
  for (int64_t c = done; c < width; ++c)
    if (const int64_t at = c + before; at / phases < line) to[at % phases * line + at / phases] = row[c];
}

}  // namespace

// The plane with its zeros around it, columns sorted by their remainder of the stride: what neighbouring outputs read
// of one column of the kernel then lies together, whatever the stride is.
void depthwise(const DepthwisePlane& p, const float* x, const float* weight, float bias, DepthwiseRoom& room,
               float* out) {
  const int64_t phases = p.stride[1];
  const int64_t rows = (p.out_height - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
  const int64_t line = p.out_width + (p.kernel[1] - 1) * p.dilation[1] / phases;  // of one phase
  room.padded.assign(static_cast<size_t>(rows * phases * line + kBeyond), 0.0f);
  for (int64_t y = 0; y < rows; ++y)
    if (const int64_t from = y - p.before[0]; from >= 0 && from < p.height)
      pad_row(x + from * p.width, p.width, p.before[1], phases, line, room.padded.data() + y * phases * line);
  const int64_t count = p.kernel[0] * p.kernel[1];
  room.offsets.resize(static_cast<size_t>(count));
  for (int64_t t = 0; t < count; ++t) {
    const int64_t column = t % p.kernel[1] * p.dilation[1];
    room.offsets[static_cast<size_t>(t)] =
        (t / p.kernel[1] * p.dilation[0] * phases + column % phases) * line + column / phases;
  }
  HWY_DYNAMIC_DISPATCH(PlaneImpl)
  ({room.padded.data(), p.stride[0] * phases * line, room.offsets.data(), weight, count}, bias, p.out_height,
   p.out_width, out);
}

void depthwise_plain(const DepthwisePlane& p, const float* x, const float* weight, float bias, float* out) {
  for (int64_t y = 0; y < p.out_height; ++y)
    for (int64_t c = 0; c < p.out_width; ++c) {
      double sum = static_cast<double>(bias);
      for (int64_t i = 0; i < p.kernel[0]; ++i)
        for (int64_t j = 0; j < p.kernel[1]; ++j) {
          const int64_t row = y * p.stride[0] + i * p.dilation[0] - p.before[0];
          const int64_t column = c * p.stride[1] + j * p.dilation[1] - p.before[1];
          if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
          sum += static_cast<double>(weight[i * p.kernel[1] + j]) *
                 static_cast<double>(x[row * p.width + column]);
        }
      out[y * p.out_width + c] = static_cast<float>(sum);
    }
}

}  // namespace anemone
#endif  // HWY_ONCE
