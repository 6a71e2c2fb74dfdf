// A convolution with few output channels, straight from a padded image: packing its patches would cost as much as
// multiplying them.
//     direct_row({base, offsets, k}, weights, rows, columns, end, out, out_stride);
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace anemone {

// Element i of the patch at column x is base[offsets[i] + x]; a vector may be read behind the last column.
struct DirectPatches {
  const float* base;
  const int64_t* offsets;
  int64_t k;
};

// out[r * out_stride + x] = the end of the sum over i of weights[r * k + i] * patch(i, x), for `columns` neighbours of
// an output row.
void direct_row(const DirectPatches& patches, const float* weights, int64_t rows, int64_t columns,
                const GemmEnd& end, float* out, int64_t out_stride) noexcept;

// The plain twin.
void direct_row_plain(const DirectPatches& patches, const float* weights, int64_t rows, int64_t columns,
                      const GemmEnd& end, float* out, int64_t out_stride) noexcept;

}  // namespace anemone
