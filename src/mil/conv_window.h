// What conv, conv_quantized and conv_transpose share: their window parameters, checked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mil/rules.h"

namespace anemone::ops {

struct ConvWindow {
  std::vector<int64_t> kernel, strides, dilations, pad;  // pad: before and after, by dimension
  int64_t groups = 1;
};

// Reads strides, dilations, pad and groups; `spatial`: the number of spatial dimensions. Error on what no
// convolution can have, also on sizes whose arithmetic could overflow.
ConvWindow conv_window(const OpCall& c, int spatial);

// Patches of one image as columns: row (channel, kernel position) by column (output position).
class Patches {
 public:
  // dims: channels and spatial sizes of the part of the input that is read; out: spatial sizes of the output.
  Patches(const ConvWindow& window, std::span<const int64_t> dims, std::span<const int64_t> before,
          std::span<const int64_t> out);

  int64_t rows() const { return channels_ * kernel_[0] * kernel_[1] * kernel_[2]; }
  int64_t columns() const { return out_[0] * out_[1] * out_[2]; }
  // The patches are the input itself: 1x1, stride 1, no padding.
  bool plain() const { return plain_; }
  // Rows [r0, r1) by columns [c0, c1) of the patches of `image`, row after row.
  void gather(const float* image, int64_t r0, int64_t r1, int64_t c0, int64_t c1, float* to) const;
  // Adds rows of values back to where the patches came from: the transposed convolution. All columns.
  void scatter_add(const float* rows, int64_t r0, int64_t r1, float* image) const;

 private:
  template <class F>
  void each_segment(int64_t row, int64_t c0, int64_t c1, F f) const;

  int64_t channels_;
  int64_t in_[3], out_[3], kernel_[3], stride_[3], dilation_[3], before_[3];  // always three, filled with 1
  bool plain_ = true;
};

}  // namespace anemone::ops
