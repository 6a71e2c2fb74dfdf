// Matrix products over values and stored weights: what linear, matmul, einsum and convolutions share.
//     multiply(pool, {.m = rows, .n = out, .k = in, .a = {c.tiles("x"), 0, in, 1},
//                     .b = {c.tiles("weight"), 0, 1, in}, .out = c.out_floats()});
// Weights are decoded block by block into the scratch of a thread; the output is split in tiles fixed by the
// sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/gemm.h"
#include "mil/op.h"

namespace anemone {

// A tensor, or part of one, seen as a matrix: element (r, c) is base + r * row_stride + c * column_stride.
struct Matrix {
  Tiles tiles;
  int64_t base = 0, row_stride = 0, column_stride = 1;

  bool stored() const { return tiles.stored() != nullptr; }
  // Rows [r0, r1) by columns [c0, c1), decoded into `scratch` where they are stored. One of the strides must
  // be 1 for a stored matrix.
  MatrixView block(int64_t r0, int64_t r1, int64_t c0, int64_t c1, std::vector<float>& scratch) const;
};

struct Product {
  int64_t m = 0, n = 0, k = 0;
  Matrix a, b;  // m x k and k x n
  float* out = nullptr;
  const float* bias = nullptr;  // n values added to every row
  // For a batch: where each product's matrices start, added to `base`; products follow each other in `out`.
  std::vector<int64_t> a_offsets = {0}, b_offsets = {0};
};

void multiply(ThreadPool& pool, const Product& product);

// c (m x n, rows n apart) = a * b with K in blocks, on this thread.
struct MultiplyScratch {
  GemmScratch gemm;
  std::vector<float> a, b;
};
void multiply_tile(const Matrix& a, const Matrix& b, int64_t r0, int64_t r1, int64_t c0, int64_t c1,
                   int64_t k, float* c, int64_t c_stride, MultiplyScratch& scratch);

// out[m][n] = sum of a(m, k) * b(k, n) over dense integers, wrapping around.
struct IntegerView {
  const int32_t* data;
  int64_t row_stride, column_stride;
};
void multiply_integers(int64_t m, int64_t n, int64_t k, IntegerView a, IntegerView b, int32_t* out);

}  // namespace anemone
