#include "kernels/pool.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void MaxRowsImpl(const DepthwiseRows& t, int64_t rows, int64_t columns, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t taps = t.kernel[0] * t.kernel[1];
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; x += lanes) {
      const float* HWY_RESTRICT row = t.padded + y * t.step + x;
      auto best = hn::LoadU(d, row + t.offsets[0]);
      for (int64_t i = 1; i < taps; ++i) {
        const auto v = hn::LoadU(d, row + t.offsets[i]);
        best = hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best);
      }
      float* to = out + y * columns + x;
      columns - x >= lanes ? hn::StoreU(best, d, to) : store_some(d, best, to, columns - x);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(MaxRowsImpl);

namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

}  // namespace

void max_pool(const DepthwisePlane& p, const float* x, DepthwiseRoom& room, float* out) {
  prepare_room(p, kLeast, room);
  const DepthwiseRows taps = rows_in(room, p, nullptr);
  for (int64_t y = 0; y < p.out_height; y += room.rows) {
    const int64_t rows = std::min(room.rows, p.out_height - y);
    pad_band(p, x, y, rows, room);
    HWY_DYNAMIC_DISPATCH(MaxRowsImpl)(taps, rows, p.out_width, out + y * p.out_width);
  }
}

void max_pool_plain(const DepthwisePlane& p, const float* x, float* out) {
  for (int64_t y = 0; y < p.out_height; ++y)
    for (int64_t c = 0; c < p.out_width; ++c) {
      float best = kLeast;
      for (int64_t t = 0; t < p.kernel[0] * p.kernel[1]; ++t) {
        const int64_t row = y * p.stride[0] + t / p.kernel[1] * p.dilation[0] - p.before[0];
        const int64_t column = c * p.stride[1] + t % p.kernel[1] * p.dilation[1] - p.before[1];
        if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
        const float v = x[row * p.width + column];
        if (v > best || v != v) best = v;
      }
      out[y * p.out_width + c] = best;
    }
}

}  // namespace anemone
#endif  // HWY_ONCE
