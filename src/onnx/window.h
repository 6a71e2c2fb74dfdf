// OnnxWindow: kernel, strides, dilations and padding of a convolution or pooling node, as numbers.
//     const OnnxWindow w = onnx_window(n, spatial_sizes, kernel);
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/lowering.h"

namespace anemone {

struct OnnxWindow {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  std::vector<int64_t> out;           // output sizes
  std::vector<int64_t> hang;          // how far the last window reaches past the declared padding (ceil_mode)
  int64_t taps() const;               // places of the kernel
  std::vector<int64_t> pads() const;  // before, after, before, after …
  bool plain_dilations() const;
  bool hangs() const;
};

OnnxWindow onnx_window(OnnxCall& n, const std::vector<int64_t>& sizes, std::vector<int64_t> kernel);

// x with `before` and `after` elements added to its last dimensions.
Value* pad_spatial(OnnxCall& n, Value* x, const std::vector<int64_t>& before,
                   const std::vector<int64_t>& after, float value);

}  // namespace anemone
