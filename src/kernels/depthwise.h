// A convolution of one plane (a channel) with a kernel of its own: depthwise convolutions are many of them.
//     DepthwiseRoom room;
//     depthwise({.height = 56, .width = 56, .out_height = 28, .out_width = 28, .stride = {2, 2}, .before = {1, 1}},
//               x, weight, bias, room, out);
#pragma once

#include <cstdint>
#include <vector>

namespace anemone {

struct DepthwisePlane {
  int64_t height = 0, width = 0, out_height = 0, out_width = 0;
  int64_t kernel[2] = {3, 3}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  int64_t before[2] = {0, 0};  // rows and columns of zeros above and to the left
};

// What one thread needs; grown as needed.
struct DepthwiseRoom {
  std::vector<float> padded;
  std::vector<int64_t> offsets;
};

// Where the planes of a call lie once they are padded: tap t of output (y, x) is at row y * step, offsets[t] + x.
struct DepthwiseTaps {
  const float* padded;
  int64_t step;
  const int64_t* offsets;
  const float* weights;
  int64_t count;
};

// out[y][x] = bias + sum over the kernel of weight[i][j] * in[y * stride + i * dilation - before][…].
void depthwise(const DepthwisePlane& plane, const float* x, const float* weight, float bias,
               DepthwiseRoom& room, float* out);

// The plain twin.
void depthwise_plain(const DepthwisePlane& plane, const float* x, const float* weight, float bias,
                     float* out);

}  // namespace anemone
