#include "mil/matrix.h"

#include <algorithm>

#include "base/error.h"

namespace anemone {
namespace {

constexpr int64_t kDecodeDepth = 2048;         // of k, decoded at a time
constexpr int64_t kRows = 96, kColumns = 256;  // tiles of a product of computed values
constexpr int64_t kStoredTile = 64;            // rows or columns of a weight decoded at a time

}  // namespace

MatrixView Matrix::block(int64_t r0, int64_t r1, int64_t c0, int64_t c1, std::vector<float>& scratch) const {
  if (!stored())
    return {tiles.dense() + base + r0 * row_stride + c0 * column_stride, row_stride, column_stride};
  const int64_t rows = r1 - r0, columns = c1 - c0;
  if (scratch.size() < static_cast<size_t>(rows * columns))
    scratch.resize(static_cast<size_t>(rows * columns));
  const StoredTensor& tensor = *tiles.stored();
  // Lines are what lies side by side in the tensor: rows, or columns of a transposed matrix.
  const bool by_row = column_stride == 1;
  ANEMONE_CHECK(by_row || row_stride == 1);
  const int64_t lines = by_row ? rows : columns, length = by_row ? columns : rows;
  const int64_t stride = by_row ? row_stride : column_stride;
  const int64_t begin = base + r0 * row_stride + c0 * column_stride;
  if (stride == length)
    tensor.read(begin, begin + lines * length, scratch.data());
  else
    for (int64_t i = 0; i < lines; ++i)
      tensor.read(begin + i * stride, begin + i * stride + length, scratch.data() + i * length);
  return by_row ? MatrixView{scratch.data(), length, 1} : MatrixView{scratch.data(), 1, length};
}

void multiply_tile(const Matrix& a, const Matrix& b, int64_t r0, int64_t r1, int64_t c0, int64_t c1,
                   int64_t k, float* c, int64_t c_stride, MultiplyScratch& scratch) {
  const int64_t depth = a.stored() || b.stored() ? kDecodeDepth : k;
  if (k == 0) return gemm(r1 - r0, c1 - c0, 0, {}, {}, c, c_stride, false, scratch.gemm);
  for (int64_t x = 0; x < k; x += depth) {
    const int64_t end = std::min(k, x + depth);
    const MatrixView left = a.block(r0, r1, x, end, scratch.a), right = b.block(x, end, c0, c1, scratch.b);
    gemm(r1 - r0, c1 - c0, end - x, left, right, c, c_stride, x > 0, scratch.gemm);
  }
}

void multiply(ThreadPool& pool, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  // A weight is decoded once: the other side is not split. Two weights (constants not folded) are small.
  const int64_t tile_m = p.b.stored() ? p.m : p.a.stored() ? kStoredTile : kRows;
  const int64_t tile_n = p.b.stored() ? kStoredTile : p.a.stored() ? p.n : kColumns;
  const int64_t tiles_m = (p.m + tile_m - 1) / tile_m, tiles_n = (p.n + tile_n - 1) / tile_n;
  const int64_t units = static_cast<int64_t>(p.a_offsets.size()) * tiles_m * tiles_n;
  pool.parallel_for(units, 1, [&](int64_t begin, int64_t end) {
    MultiplyScratch scratch;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t batch = unit / (tiles_m * tiles_n), tile = unit % (tiles_m * tiles_n);
      const int64_t r0 = tile / tiles_n * tile_m, r1 = std::min(p.m, r0 + tile_m);
      const int64_t c0 = tile % tiles_n * tile_n, c1 = std::min(p.n, c0 + tile_n);
      Matrix a = p.a, b = p.b;
      a.base += p.a_offsets[static_cast<size_t>(batch)];
      b.base += p.b_offsets[static_cast<size_t>(batch)];
      float* out = p.out + batch * p.m * p.n + r0 * p.n + c0;
      multiply_tile(a, b, r0, r1, c0, c1, p.k, out, p.n, scratch);
      if (!p.bias) continue;
      for (int64_t r = 0; r < r1 - r0; ++r)
        for (int64_t c = 0; c < c1 - c0; ++c) out[r * p.n + c] += p.bias[c0 + c];
    }
  });
}

void multiply_integers(int64_t m, int64_t n, int64_t k, IntegerView a, IntegerView b, int32_t* out) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      uint32_t sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum += static_cast<uint32_t>(a.data[i * a.row_stride + x * a.column_stride]) *
               static_cast<uint32_t>(b.data[x * b.row_stride + j * b.column_stride]);
      out[i * n + j] = static_cast<int32_t>(sum);
    }
}

}  // namespace anemone
