// A convolution of one plane (a channel) with a kernel of its own: depthwise convolutions are many of them.
//     DepthwiseRoom room;
//     depthwise({.height = 56, .width = 56, .out_height = 28, .out_width = 28, .stride = {2, 2}, .before = {1, 1}},
//               x, weight, {.bias = &bias, .low = 0, .high = 6}, room, out);
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/patches.h"

namespace anemone {

struct DepthwisePlane {
  int64_t height = 0, width = 0, out_height = 0, out_width = 0;
  int64_t kernel[2] = {3, 3}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  int64_t before[2] = {0, 0};  // rows and columns of zeros above and to the left

  bool operator==(const DepthwisePlane&) const = default;
};

// What one thread needs; made anew for planes of other sizes. Planes go through in bands of rows that stay in the first
// cache.
struct DepthwiseRoom {
  DepthwisePlane plane;       // what it was made for
  int64_t rows = 0;           // of the output, in a band; 0: not made yet
  PaddedRows how;             // the rows that a band reads
  std::vector<float> padded;  // with what is around them: places that are no column are filled once
  std::vector<int64_t> offsets;
};

// Some rows of a plane, padded: tap t of output (y, x) is at row y * step, offsets[t] + x.
struct DepthwiseRows {
  const float* padded;
  int64_t step, pitch;  // from one output row to the next; from one padded row to the next
  const int64_t* offsets;
  const float* weights;
  int64_t kernel[2], stride;
  bool dense;  // no dilation
};

// Makes the room ready, if it is not; the rows of one band as they will lie in it.
void prepare_room(const DepthwisePlane& plane, float fill, DepthwiseRoom& room);
DepthwiseRows rows_in(const DepthwiseRoom& room, const DepthwisePlane& plane, const float* weights);
// Pads what output rows [y, y + rows) read.
void pad_band(const DepthwisePlane& plane, const float* x, int64_t y, int64_t rows, DepthwiseRoom& room);

// out[y][x] = the end of the sum over the kernel of weight[i][j] * in[y * stride + i * dilation - before][…]; `end`
// has at most one scale and one bias.
void depthwise(const DepthwisePlane& plane, const float* x, const float* weight, const GemmEnd& end,
               DepthwiseRoom& room, float* out);

// The plain twin.
void depthwise_plain(const DepthwisePlane& plane, const float* x, const float* weight, const GemmEnd& end,
                     float* out);

}  // namespace anemone
