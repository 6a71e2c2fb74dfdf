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

// One row of the output. tap t reads taps[t][column ..], so that a vector of columns is one load.
void RowImpl(const float* const* taps, const float* weights, int64_t count, float bias, int64_t columns,
             float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  for (; x + 2 * lanes <= columns; x += 2 * lanes) {
    auto a = hn::Set(d, bias), b = a;
    for (int64_t t = 0; t < count; ++t) {
      const auto w = hn::Set(d, weights[t]);
      a = hn::MulAdd(w, hn::LoadU(d, taps[t] + x), a);
      b = hn::MulAdd(w, hn::LoadU(d, taps[t] + x + lanes), b);
    }
    hn::StoreU(a, d, out + x);
    hn::StoreU(b, d, out + x + lanes);
  }
  // The padded rows have room behind them: a vector may read beyond the last column.
  for (; x < columns; x += lanes) {
    auto a = hn::Set(d, bias);
    for (int64_t t = 0; t < count; ++t) a = hn::MulAdd(hn::Set(d, weights[t]), hn::LoadU(d, taps[t] + x), a);
    if (x + lanes <= columns) {
      hn::StoreU(a, d, out + x);
    } else {
      HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)];
      hn::Store(a, d, rest);
      for (int64_t i = x; i < columns; ++i) out[i] = rest[i - x];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(RowImpl);

namespace {

constexpr int64_t kBeyond = HWY_MAX_BYTES / sizeof(float);  // floats that a vector may read behind a row

}  // namespace

// The plane with its zeros around it, columns sorted by their remainder of the stride: what neighbouring outputs read
// of one column of the kernel then lies together, whatever the stride is.
void depthwise(const DepthwisePlane& p, const float* x, const float* weight, float bias, DepthwiseRoom& room,
               float* out) {
  const int64_t phases = p.stride[1];
  const int64_t rows = (p.out_height - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
  const int64_t line = p.out_width + (p.kernel[1] - 1) * p.dilation[1] / phases + kBeyond;  // of one phase
  room.padded.assign(static_cast<size_t>(rows * phases * line), 0.0f);
  for (int64_t y = 0; y < rows; ++y) {
    const int64_t from = y - p.before[0];
    if (from < 0 || from >= p.height) continue;
    const float* row = x + from * p.width;
    float* to = room.padded.data() + y * phases * line;
    if (phases == 1) {
      const int64_t count = std::min(p.width, line - p.before[1]);
      if (count > 0) std::memcpy(to + p.before[1], row, static_cast<size_t>(count) * sizeof(float));
      continue;
    }
    for (int64_t c = 0; c < p.width; ++c)
      if (const int64_t at = c + p.before[1]; at / phases < line)
        to[at % phases * line + at / phases] = row[c];
  }
  const int64_t count = p.kernel[0] * p.kernel[1];
  std::vector<const float*> taps(static_cast<size_t>(count));
  for (int64_t y = 0; y < p.out_height; ++y) {
    for (int64_t t = 0; t < count; ++t) {
      const int64_t row = y * p.stride[0] + t / p.kernel[1] * p.dilation[0];
      const int64_t column = t % p.kernel[1] * p.dilation[1];
      taps[static_cast<size_t>(t)] =
          room.padded.data() + (row * phases + column % phases) * line + column / phases;
    }
    HWY_DYNAMIC_DISPATCH(RowImpl)(taps.data(), weight, count, bias, p.out_width, out + y * p.out_width);
  }
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
