// Gemm: fp32 matrix product on one core; callers split the output among threads.
//     GemmScratch scratch;
//     gemm(m, n, k, {x, k, 1}, {w, 1, k}, out, n, false, scratch);    // out = x * w transposed
// Sums run in an order that depends on the sizes alone, so the same call gives the same bits on any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace anemone {

// Element (row, column) is at data[row * row_stride + column * column_stride].
struct MatrixView {
  const float* data = nullptr;
  int64_t row_stride = 0, column_stride = 1;
};

// Room for packed panels; kept by the caller so that a loop of products allocates once.
struct GemmScratch {
  std::vector<float> a, b;
};

// c[m][n] = sum over k of a(m, k) * b(k, n), or c += with `accumulate`. c is row-major with rows c_stride
// apart.
void gemm(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b, float* c,
          int64_t c_stride, bool accumulate, GemmScratch& scratch);

// The same in steps, for many products with one b: its columns are packed once, up to kGemmDepth rows of b at
// a time, and then shared by threads that each take some rows of a (which lie along memory).
//     pack_columns(b, n, k, packed);                                    // packed_size(n, k) floats
//     gemm_packed(m, n, k, a, a_stride, packed, c, c_stride, false);
// A panel of b (24 KiB with vectors of 64 bytes) stays in the first cache while the rows of a pass.
inline constexpr int64_t kGemmDepth = 192;

// What becomes of the sums of a row before they are stored: min(max(scale * sum + bias + add, low), high); NaN stays.
struct GemmEnd {
  const float *scale = nullptr, *bias = nullptr;  // one of each for every row; may be empty
  const float* add = nullptr;                     // laid out as c is; may be empty
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  // The same for what begins at that row, and at that column of c.
  GemmEnd from(int64_t row, int64_t offset) const {
    return {scale ? scale + row : nullptr, bias ? bias + row : nullptr, add ? add + offset : nullptr, low,
            high};
  }
};
int64_t packed_size(int64_t n, int64_t k);
int64_t panel_columns();  // from a multiple of these on, columns can be packed on their own, at column * k
void pack_columns(const MatrixView& b, int64_t n, int64_t k, float* packed);
void gemm_packed(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride, const float* packed,
                 float* c, int64_t c_stride, bool accumulate, const GemmEnd* end = nullptr);

// out[c * out_stride + r] = x[r * stride + c] + add[r]; add may be empty.
void transpose(const float* x, int64_t stride, int64_t rows, int64_t columns, const float* add, float* out,
               int64_t out_stride);

// The plain twins: three loops; one value.
float finish_plain(float sum, const GemmEnd& end, int64_t row, int64_t offset);
void gemm_plain(int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b, float* c,
                int64_t c_stride, bool accumulate);

// The sum of x[i] * y[i].
float dot(const float* x, const float* y, int64_t count);

}  // namespace anemone
