#include "kernels/gemm.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 12 x 2 vectors: 24 sums, 2 of b and 1 of a fit into 32 registers; 6 x 2 vectors fill the 16 of SSE and AVX2. With
// more rows a vector of b is loaded once for more multiply-adds.
constexpr int kRows = kManyRegisters ? 12 : 6;

int64_t lanes_of_panel() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

// R rows of a, `a_stride` apart, against a panel of b (k x V vectors).
template <int R, int V>
void tile(const float* HWY_RESTRICT a, int64_t a_stride, const float* HWY_RESTRICT b, int64_t k,
          float* HWY_RESTRICT c, int64_t c_stride, bool accumulate, const GemmEnd* end) {
  const hn::ScalableTag<float> d;
  using Vec = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec sums[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sums[r][v] = hn::Zero(d);
  const float* from[(R + 3) / 4];  // of every fourth row: few registers for addresses
  for (int r = 0; r < R; r += 4) from[r / 4] = a + r * a_stride;
  for (int64_t i = 0; i < k; ++i, b += V * lanes) {
    Vec columns[V];
    for (int v = 0; v < V; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < R; ++r) {
      const Vec weight = hn::Set(d, from[r / 4][r % 4 * a_stride + i]);
      for (int v = 0; v < V; ++v) sums[r][v] = hn::MulAdd(weight, columns[v], sums[r][v]);
    }
  }
  if (end && !accumulate && only_bias(*end)) {
    const Vec low = hn::Set(d, end->low), high = hn::Set(d, end->high);
    const float* HWY_RESTRICT bias = end->bias;
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v)
        hn::StoreU(clamp(hn::Add(sums[r][v], hn::Set(d, bias[r])), low, high), d,
                   c + r * c_stride + v * lanes);
    return;
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      const int64_t offset = r * c_stride + v * lanes;
      const Vec sum = accumulate ? hn::Add(sums[r][v], hn::LoadU(d, c + offset)) : sums[r][v];
      if (end)
        finish(d, sum, *end, r, offset, c);
      else
        hn::StoreU(sum, d, c + offset);
    }
}

// The tile of so many rows.
template <int V, int R = kRows>
HWY_INLINE void tile_of(int64_t rows, const float* a, int64_t a_stride, const float* b, int64_t k, float* c,
                        int64_t c_stride, bool accumulate, const GemmEnd* end) {
  if (rows == R) return tile<R, V>(a, a_stride, b, k, c, c_stride, accumulate, end);
  if constexpr (R > 1) tile_of<V, R - 1>(rows, a, a_stride, b, k, c, c_stride, accumulate, end);
}

// `count` sums, or a vector's, of row `row` to c[offset].
HWY_INLINE void store_edge(const float* sums, int64_t count, float* c, int64_t row, int64_t offset,
                           bool accumulate, const GemmEnd* end) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  count = count < lanes ? count : lanes;
  auto sum = hn::Load(d, sums);
  if (accumulate) sum = hn::Add(sum, load_some(d, c + offset, count));
  if (end)
    finish_some(d, sum, *end, row, offset, count, c);
  else
    store_some(d, sum, c + offset, count);
}

// m rows of a, in equal parts, against a panel of b, which stays in the first cache, of whose columns c has `columns`;
// what hangs over the edge of c goes through a buffer.
template <int V>
void rows_by_panel(int64_t m, int64_t columns, int64_t k, const float* a, int64_t a_stride, const float* b,
                   float* c, int64_t c_stride, bool accumulate, const GemmEnd* end) {
  const int64_t width = V * lanes_of_panel();
  HWY_ALIGN float edge[kRows * V * HWY_MAX_BYTES / sizeof(float)];
  int64_t rows = 0;
  for (int64_t r = 0; r < m; r += rows, a += rows * a_stride, c += rows * c_stride) {
    const int64_t parts = (m - r + kRows - 1) / kRows;
    rows = (m - r + parts - 1) / parts;
    const GemmEnd here = end ? end->from(r, r * c_stride) : GemmEnd();
    if (columns == width) {
      tile_of<V>(rows, a, a_stride, b, k, c, c_stride, accumulate, end ? &here : nullptr);
      continue;
    }
    tile_of<V>(rows, a, a_stride, b, k, edge, width, false, nullptr);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; j += lanes_of_panel())
        store_edge(edge + i * width + j, columns - j, c, i, i * c_stride + j, accumulate,
                   end ? &here : nullptr);
  }
}

void PackedImpl(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride, const float* b, float* c,
                int64_t c_stride, bool accumulate, const GemmEnd* end) {
  const int64_t lanes = lanes_of_panel();
  for (int64_t j = 0; j < n;) {
    const GemmEnd here = end ? end->from(0, j) : GemmEnd();
    const GemmEnd* then = end ? &here : nullptr;
    const int64_t width = n - j > lanes ? 2 * lanes : lanes, columns = n - j < width ? n - j : width;
    if (width == lanes)
      rows_by_panel<1>(m, columns, k, a, a_stride, b, c + j, c_stride, accumulate, then);
    else
      rows_by_panel<2>(m, columns, k, a, a_stride, b, c + j, c_stride, accumulate, then);
    b += width * k;
    j += columns;
  }
}

// The columns of one row that belong to the last panel, with zeros behind them.
void pack_edge(const float* HWY_RESTRICT from, int64_t columns, int64_t width, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < width; j += lanes) {
    const int64_t left = columns > j ? columns - j : 0;
    hn::StoreU(left >= lanes ? hn::LoadU(d, from + j) : load_some(d, from + j, left), d, out + j);
  }
}

// k rows of n columns that lie side by side, row after row: each is a stream that the processor sees.
void PackRowsImpl(const float* HWY_RESTRICT from, int64_t stride, int64_t k, int64_t n,
                  float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = n / (2 * lanes) * 2 * lanes, left = n - whole,
                width = left > lanes ? 2 * lanes : lanes;
  for (int64_t i = 0; i < k; ++i, from += stride) {
    float* HWY_RESTRICT to = out + i * 2 * lanes;
    for (int64_t j = 0; j < whole; j += 2 * lanes, to += 2 * lanes * k) {
      const auto low = hn::LoadU(d, from + j), high = hn::LoadU(d, from + j + lanes);
      hn::StoreU(low, d, to);
      hn::StoreU(high, d, to + lanes);
    }
    if (left > 0) pack_edge(from + whole, left, width, out + whole * k + i * width);
  }
}

// Blocks of 4 x 4 in registers, then what is left at the edges.
void TransposeImpl(const float* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t columns,
                   const float* HWY_RESTRICT add, float* HWY_RESTRICT out, int64_t out_stride) {
  const auto one = [&](int64_t r, int64_t c) {
    out[c * out_stride + r] = add ? x[r * stride + c] + add[r] : x[r * stride + c];
  };
  int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    const auto bias = add ? hn::LoadU(d, add + r) : hn::Zero(d);
    for (; c + 4 <= columns; c += 4) {
      const auto v0 = hn::LoadU(d, x + r * stride + c), v1 = hn::LoadU(d, x + (r + 1) * stride + c),
                 v2 = hn::LoadU(d, x + (r + 2) * stride + c), v3 = hn::LoadU(d, x + (r + 3) * stride + c);
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1)),
                 low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3)),
                 high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1)),
                 high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
      float* to = out + c * out_stride + r;
      const auto store = [&](int64_t i, auto v) HWY_ATTR {
        const auto column = hn::BitCast(d, v);
        hn::StoreU(add ? hn::Add(column, bias) : column, d, to + i * out_stride);
      };
      store(0, hn::InterleaveLower(pairs, low01, low23));
      store(1, hn::InterleaveUpper(pairs, low01, low23));
      store(2, hn::InterleaveLower(pairs, high01, high23));
      store(3, hn::InterleaveUpper(pairs, high01, high23));
    }
    for (; c < columns; ++c)
      for (int64_t i = 0; i < 4; ++i) one(r + i, c);
  }
#endif
  for (; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) one(r, c);
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

HWY_EXPORT(lanes_of_panel);
HWY_EXPORT(PackedImpl);
HWY_EXPORT(PackRowsImpl);
HWY_EXPORT(TransposeImpl);
HWY_EXPORT(dot_product);
HWY_EXPORT(add_scaled);

constexpr int64_t kColumns = 512;  // packed columns of b: 384 KiB at most
constexpr int64_t kRowBlock = 96;  // rows of a laid out at a time, where they do not lie along memory
constexpr int64_t kThin = 3;       // up to so many rows or columns, packing costs more than it gives

// k rows of `width` values each, of which `columns` are there and the others are zero.
void pack_panel(const MatrixView& b, int64_t k, int64_t columns, int64_t width, float* out) {
  if (b.row_stride == 1) {
    transpose(b.data, b.column_stride, columns, k, nullptr, out, width);
    for (int64_t i = 0; i < k && columns < width; ++i)
      std::fill(out + i * width + columns, out + (i + 1) * width, 0.0f);
    return;
  }
  for (int64_t i = 0; i < k; ++i, out += width) {
    for (int64_t x = 0; x < columns; ++x) out[x] = b.data[i * b.row_stride + x * b.column_stride];
    std::fill(out + columns, out + width, 0.0f);
  }
}

void clear(int64_t m, int64_t n, float* c, int64_t c_stride) {
  for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_stride, n, 0.0f);
}

}  // namespace

int64_t packed_size(int64_t n, int64_t k) {
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(lanes_of_panel)();
  return (n + lanes - 1) / lanes * lanes * k;
}

int64_t panel_columns() { return 2 * HWY_DYNAMIC_DISPATCH(lanes_of_panel)(); }

void pack_columns(const MatrixView& b, int64_t n, int64_t k, float* packed) {
  if (b.column_stride == 1) return HWY_DYNAMIC_DISPATCH(PackRowsImpl)(b.data, b.row_stride, k, n, packed);
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(lanes_of_panel)();
  for (int64_t j = 0; j < n;) {
    const int64_t width = n - j > lanes ? 2 * lanes : lanes, columns = std::min(width, n - j);
    pack_panel({b.data + j * b.column_stride, b.row_stride, b.column_stride}, k, columns, width, packed);
    packed += width * k;
    j += columns;
  }
}

void gemm_packed(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride, const float* packed,
                 float* c, int64_t c_stride, bool accumulate, const GemmEnd* end) {
  HWY_DYNAMIC_DISPATCH(PackedImpl)(m, n, k, a, a_stride, packed, c, c_stride, accumulate, end);
}

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
  const int64_t deepest = std::min(k, kGemmDepth);
  scratch.b.resize(static_cast<size_t>(packed_size(std::min(n, kColumns), deepest)));
  if (a.column_stride != 1) scratch.a.resize(static_cast<size_t>(std::min(m, kRowBlock) * deepest));
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t columns = std::min(kColumns, n - j);
    for (int64_t x = 0; x < k; x += kGemmDepth) {
      const int64_t depth = std::min(kGemmDepth, k - x);
      pack_columns({b.data + x * b.row_stride + j * b.column_stride, b.row_stride, b.column_stride}, columns,
                   depth, scratch.b.data());
      const int64_t step = a.column_stride == 1 ? m : kRowBlock;
      for (int64_t i = 0; i < m; i += step) {
        const int64_t rows = std::min(step, m - i);
        const float* left = a.data + i * a.row_stride + x * a.column_stride;
        if (a.column_stride != 1) {
          pack_panel({left, a.row_stride, a.column_stride}, rows, depth, depth, scratch.a.data());
          left = scratch.a.data();
        }
        gemm_packed(rows, columns, depth, left, a.column_stride == 1 ? a.row_stride : depth, scratch.b.data(),
                    c + i * c_stride + j, c_stride, accumulate || x > 0);
      }
    }
  }
}

void transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, const float* add, float* out,
               int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeImpl)(x, stride, rows, columns, add, out, out_stride);
}

float finish_plain(float sum, const GemmEnd& end, int64_t row, int64_t offset) {
  if (end.scale) sum *= end.scale[row];
  if (end.bias) sum += end.bias[row];
  if (end.add) sum += end.add[offset];
  return sum < end.low ? end.low : sum > end.high ? end.high : sum;
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
