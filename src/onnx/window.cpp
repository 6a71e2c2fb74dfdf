#include "onnx/window.h"

#include <algorithm>

#include "base/error.h"

namespace anemone {

int64_t OnnxWindow::taps() const {
  int64_t count = 1;
  for (const int64_t k : kernel) count *= k;
  return count;
}

std::vector<int64_t> OnnxWindow::pads() const {
  std::vector<int64_t> all;
  for (size_t d = 0; d < before.size(); ++d) {
    all.push_back(before[d]);
    all.push_back(after[d]);
  }
  return all;
}

bool OnnxWindow::plain_dilations() const {
  return std::all_of(dilations.begin(), dilations.end(), [](int64_t d) { return d == 1; });
}

bool OnnxWindow::hangs() const {
  return std::any_of(hang.begin(), hang.end(), [](int64_t h) { return h > 0; });
}

OnnxWindow onnx_window(OnnxCall& n, const std::vector<int64_t>& sizes, std::vector<int64_t> kernel) {
  const size_t rank = sizes.size();
  OnnxWindow w;
  w.kernel = std::move(kernel);
  w.strides = n.node.integers("strides", std::vector<int64_t>(rank, 1));
  w.dilations = n.node.integers("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> pads = n.node.integers("pads", std::vector<int64_t>(2 * rank, 0));
  if (w.kernel.size() != rank || w.strides.size() != rank || w.dilations.size() != rank ||
      pads.size() != 2 * rank)
    throw errorf("kernel_shape, strides, dilations or pads do not have one entry per spatial dimension ({})",
                 rank);
  const std::string_view mode = n.node.text("auto_pad", "NOTSET");
  const bool ceil = n.node.integer("ceil_mode", 0) != 0;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t extent = (w.kernel[d] - 1) * w.dilations[d] + 1, stride = w.strides[d], in = sizes[d];
    if (stride < 1 || w.kernel[d] < 1 || w.dilations[d] < 1 || pads[d] < 0 || pads[d + rank] < 0)
      throw errorf("kernel_shape, strides and dilations must be positive, and pads not negative");
    int64_t before = pads[d], after = pads[d + rank];
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t total = std::max<int64_t>(0, ((in + stride - 1) / stride - 1) * stride + extent - in);
      before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - before;
    } else if (mode == "VALID") {
      before = after = 0;
    }
    const int64_t room = in + before + after - extent;
    if (room < 0) throw errorf("the kernel does not fit in the input with its padding");
    int64_t out = room / stride + 1;
    if (ceil && mode == "NOTSET") {
      out = (room + stride - 1) / stride + 1;
      if ((out - 1) * stride >= in + before)
        --out;  // a window must begin inside the input or the padding before it
    }
    w.before.push_back(before);
    w.after.push_back(after);
    w.out.push_back(out);
    w.hang.push_back(std::max<int64_t>(0, (out - 1) * stride + extent - in - before - after));
  }
  return w;
}

Value* pad_spatial(OnnxCall& n, Value* x, const std::vector<int64_t>& before,
                   const std::vector<int64_t>& after, float value) {
  std::vector<int64_t> pad;
  bool any = false;
  for (size_t d = 0; d < before.size(); ++d) {
    pad.push_back(before[d]);
    pad.push_back(after[d]);
    any = any || before[d] || after[d];
  }
  if (!any) return x;
  return n.op(
      "pad",
      {{"x", x}, {"pad", Constant::ints(pad)}, {"mode", n.text("constant")}, {"constant_val", n.f(value)}});
}

}  // namespace anemone
