#include "kernels/gemm.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kPanelRows =
    6;  // 6 x 2 vectors: 12 sums, 2 of b and 1 of a fill the 16 registers of SSE and AVX2

// Columns of a panel of b.
int64_t panel_columns() { return static_cast<int64_t>(2 * hn::Lanes(hn::ScalableTag<float>())); }

// One panel of a (k x 6) against one of b (k x 2 vectors); the 6 rows of c are `stride` apart.
void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t k, float* HWY_RESTRICT c,
          int64_t stride, bool accumulate) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto c00 = hn::Zero(d), c01 = hn::Zero(d), c10 = hn::Zero(d), c11 = hn::Zero(d);
  auto c20 = hn::Zero(d), c21 = hn::Zero(d), c30 = hn::Zero(d), c31 = hn::Zero(d);
  auto c40 = hn::Zero(d), c41 = hn::Zero(d), c50 = hn::Zero(d), c51 = hn::Zero(d);
  for (int64_t i = 0; i < k; ++i, a += kPanelRows, b += 2 * lanes) {
    const auto b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
    const auto a0 = hn::Set(d, a[0]);
    c00 = hn::MulAdd(a0, b0, c00);
    c01 = hn::MulAdd(a0, b1, c01);
    const auto a1 = hn::Set(d, a[1]);
    c10 = hn::MulAdd(a1, b0, c10);
    c11 = hn::MulAdd(a1, b1, c11);
    const auto a2 = hn::Set(d, a[2]);
    c20 = hn::MulAdd(a2, b0, c20);
    c21 = hn::MulAdd(a2, b1, c21);
    const auto a3 = hn::Set(d, a[3]);
    c30 = hn::MulAdd(a3, b0, c30);
    c31 = hn::MulAdd(a3, b1, c31);
    const auto a4 = hn::Set(d, a[4]);
    c40 = hn::MulAdd(a4, b0, c40);
    c41 = hn::MulAdd(a4, b1, c41);
    const auto a5 = hn::Set(d, a[5]);
    c50 = hn::MulAdd(a5, b0, c50);
    c51 = hn::MulAdd(a5, b1, c51);
  }
  const auto put = [&](float* row, auto left, auto right) {
    if (accumulate) {
      left = hn::Add(left, hn::LoadU(d, row));
      right = hn::Add(right, hn::LoadU(d, row + lanes));
    }
    hn::StoreU(left, d, row);
    hn::StoreU(right, d, row + lanes);
  };
  put(c, c00, c01);
  put(c + stride, c10, c11);
  put(c + 2 * stride, c20, c21);
  put(c + 3 * stride, c30, c31);
  put(c + 4 * stride, c40, c41);
  put(c + 5 * stride, c50, c51);
}

// A panel of a against `columns` of b in panels; what hangs over the edge of c goes through a buffer.
void row_of_tiles(const float* a, const float* b, int64_t k, int64_t rows, int64_t columns, float* c,
                  int64_t stride, bool accumulate) {
  const int64_t width = panel_columns();
  HWY_ALIGN float edge[kPanelRows * 2 * HWY_MAX_BYTES / sizeof(float)];
  for (int64_t j = 0; j < columns; j += width, b += k * width) {
    if (rows == kPanelRows && j + width <= columns) {
      tile(a, b, k, c + j, stride, accumulate);
      continue;
    }
    tile(a, b, k, edge, width, false);
    const int64_t w = columns - j < width ? columns - j : width;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < w; ++i) {
        float& out = c[r * stride + j + i];
        out = edge[r * width + i] + (accumulate ? out : 0.0f);
      }
  }
}

float dot_product(const float* HWY_RESTRICT x, const float* HWY_RESTRICT y, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, x + i + lanes), hn::LoadU(d, y + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, x + i + 2 * lanes), hn::LoadU(d, y + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, x + i + 3 * lanes), hn::LoadU(d, y + i + 3 * lanes), s3);
  }
  for (; i + lanes <= count; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), s0);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

// c[j] += a * b[j]
void add_scaled(float a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, a);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, c + i);
  for (; i < count; ++i) c[i] += a * b[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {
namespace {

HWY_EXPORT(panel_columns);
HWY_EXPORT(row_of_tiles);
HWY_EXPORT(dot_product);
HWY_EXPORT(add_scaled);

constexpr int64_t kPanelRows = 6;
constexpr int64_t kDepth = 384;    // a panel of a (9 KiB) and one of b stay in the first cache
constexpr int64_t kColumns = 512;  // packed columns of b: 768 KiB at most
constexpr int64_t kThin = 3;       // up to so many rows or columns, packing costs more than it gives

// Panels of `width` columns: k rows of `width` values each, zeros past the edge. Where the columns lie along
// memory they are read 32 values at a time, so that columns 4 KiB apart do not fight for the same cache
// lines: 50 GFLOP/s instead of 14 for 64x1024x1024 against a transposed matrix (AVX2, one core).
void pack(const float* data, int64_t along, int64_t across, int64_t k, int64_t count, int64_t width,
          float* out) {
  const int64_t stretch = along == 1 ? 32 : 1;
  for (int64_t j = 0; j < count; j += width, out += k * width) {
    const int64_t w = std::min(width, count - j);
    const float* from = data + j * across;
    if (w < width) std::fill_n(out, k * width, 0.0f);
    if (across == 1) {
      for (int64_t i = 0; i < k; ++i) std::copy_n(from + i * along, w, out + i * width);
      continue;
    }
    for (int64_t i0 = 0; i0 < k; i0 += stretch) {
      const int64_t end = std::min(k, i0 + stretch);
      for (int64_t x = 0; x < w; ++x)
        for (int64_t i = i0; i < end; ++i) out[i * width + x] = from[i * along + x * across];
    }
  }
}

void clear(int64_t m, int64_t n, float* c, int64_t c_stride) {
  for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_stride, n, 0.0f);
}

}  // namespace

float dot(const float* x, const float* y, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(dot_product)(x, y, count);
}

void gemm(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b, float* c,
          int64_t c_stride, bool accumulate, GemmScratch& scratch) {
  if (m <= 0 || n <= 0) return;
  if (k <= 0) return accumulate ? void() : clear(m, n, c, c_stride);
  if ((m <= kThin || n <= kThin) && a.column_stride == 1 && b.row_stride == 1) {
    const auto dot_of = HWY_DYNAMIC_DISPATCH(dot_product);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float& out = c[i * c_stride + j];
        out = dot_of(a.data + i * a.row_stride, b.data + j * b.column_stride, k) + (accumulate ? out : 0.0f);
      }
    return;
  }
  if (m <= kThin && b.column_stride == 1) {
    if (!accumulate) clear(m, n, c, c_stride);
    const auto add = HWY_DYNAMIC_DISPATCH(add_scaled);
    for (int64_t j = 0; j < n; j += 4096)  // a piece of c stays in the first cache
      for (int64_t i = 0; i < m; ++i)
        for (int64_t x = 0; x < k; ++x)
          add(a.data[i * a.row_stride + x * a.column_stride], b.data + x * b.row_stride + j,
              c + i * c_stride + j, std::min<int64_t>(4096, n - j));
    return;
  }
  const int64_t width = HWY_DYNAMIC_DISPATCH(panel_columns)();
  const auto multiply = HWY_DYNAMIC_DISPATCH(row_of_tiles);
  scratch.a.resize(static_cast<size_t>(kPanelRows * kDepth));
  scratch.b.resize(static_cast<size_t>((std::min(n, kColumns) + width) * std::min(k, kDepth)));
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t columns = std::min(kColumns, n - j);
    for (int64_t x = 0; x < k; x += kDepth) {
      const int64_t depth = std::min(kDepth, k - x);
      pack(b.data + x * b.row_stride + j * b.column_stride, b.row_stride, b.column_stride, depth, columns,
           width, scratch.b.data());
      for (int64_t i = 0; i < m; i += kPanelRows) {
        const int64_t rows = std::min(kPanelRows, m - i);
        pack(a.data + i * a.row_stride + x * a.column_stride, a.column_stride, a.row_stride, depth, rows,
             kPanelRows, scratch.a.data());
        multiply(scratch.a.data(), scratch.b.data(), depth, rows, columns, c + i * c_stride + j, c_stride,
                 accumulate || x > 0);
      }
    }
  }
}

void gemm_plain(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b, float* c,
                int64_t c_stride, bool accumulate) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum +=
            a.data[i * a.row_stride + x * a.column_stride] * b.data[x * b.row_stride + j * b.column_stride];
      float& out = c[i * c_stride + j];
      out = accumulate ? out + sum : sum;
    }
}

}  // namespace anemone
#endif  // HWY_ONCE
