// Convolutions.
#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/window.h"

namespace anemone::onnx_ops {
namespace {

constexpr int64_t kMostPlaces = int64_t{1} << 31;

std::vector<int64_t> spatial(const std::vector<int64_t>& dims) {
  if (dims.size() < 3)
    throw errorf("an image has a batch, channels and at least one size").found(shape_text(dims));
  return {dims.begin() + 2, dims.end()};
}

// The shape of one number per channel: [C, 1, 1] for images.
Value* per_channel(OnnxCall& n, Value* v, size_t spatial_rank) {
  std::vector<int64_t> dims(spatial_rank + 1, 1);
  dims[0] = n.dims(v).at(0);
  return n.reshape(v, dims);
}

Value* conv_of(OnnxCall& n, Value* x, Value* weight, Value* bias, const OnnxWindow& w, int64_t groups) {
  return n.op("conv", {{"x", x},
                       {"weight", weight},
                       {"strides", Constant::ints(w.strides)},
                       {"pad_type", n.text("custom")},
                       {"pad", Constant::ints(w.pads())},
                       {"dilations", Constant::ints(w.dilations)},
                       {"groups", n.i(groups)},
                       {"bias", bias}});
}

// Sizes that are not fixed: the padding must follow from the attributes alone.
Value* conv_any_size(OnnxCall& n, Value* x, Value* weight, Value* bias) {
  const auto rank = static_cast<size_t>(x->type.rank() - 2);
  const std::string_view mode = n.node.text("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = n.node.integers("pads", std::vector<int64_t>(2 * rank, 0));
  std::vector<int64_t> pairs;
  for (size_t d = 0; d < rank; ++d) {
    pairs.push_back(pads.at(d));
    pairs.push_back(pads.at(d + rank));
  }
  const char* type = mode == "SAME_UPPER"   ? "same"
                     : mode == "SAME_LOWER" ? "same_lower"
                     : mode == "VALID"      ? "valid"
                                            : "custom";
  return n.op("conv",
              {{"x", x},
               {"weight", weight},
               {"strides", Constant::ints(n.node.integers("strides", std::vector<int64_t>(rank, 1)))},
               {"pad_type", n.text(type)},
               {"pad", Constant::ints(pairs)},
               {"dilations", Constant::ints(n.node.integers("dilations", std::vector<int64_t>(rank, 1)))},
               {"groups", n.i(n.node.integer("group", 1))},
               {"bias", bias}});
}

void conv(OnnxCall& n) {
  Value *x = n.in(0), *weight = n.in(1), *bias = n.maybe(2);
  if (!x->type.fixed()) return n.out(conv_any_size(n, x, weight, bias));
  const std::vector<int64_t> kernel = n.node.integers("kernel_shape", spatial(n.dims(weight)));
  const OnnxWindow w = onnx_window(n, spatial(n.dims(x)), kernel);
  n.out(conv_of(n, x, weight, bias, w, n.node.integer("group", 1)));
}

// Whole numbers: in fp32, which is exact as long as sums stay below 2^24.
void conv_integer(OnnxCall& n) {
  const auto centered = [&](size_t input, size_t zero, bool by_channel) {
    Value* v = n.cast(n.in(input), DType::fp32);
    if (!n.has(zero)) return v;
    Value* z = n.cast(n.in(zero), DType::fp32);
    if (by_channel && z->type.rank() == 1 && n.dims(z).at(0) > 1)
      z = per_channel(n, z, static_cast<size_t>(v->type.rank() - 1));
    return n.sub(v, z);
  };
  Value* x = centered(0, 2, false);
  Value* weight = centered(1, 3, true);
  const std::vector<int64_t> kernel = n.node.integers("kernel_shape", spatial(n.dims(weight)));
  const OnnxWindow w = onnx_window(n, spatial(n.dims(x)), kernel);
  Value* y = conv_of(n, x, weight, nullptr, w, n.node.integer("group", 1));
  n.out(0, n.cast(y, DType::int32), OnnxType::int32);
}

// The full result, then its edges: MIL's padding is less general than ONNX's.
void conv_transpose(OnnxCall& n) {
  Value *x = n.in(0), *weight = n.in(1), *bias = n.maybe(2);
  const std::vector<int64_t> sizes = spatial(n.dims(x));
  const size_t rank = sizes.size();
  const std::vector<int64_t> kernel = n.node.integers("kernel_shape", spatial(n.dims(weight)));
  const std::vector<int64_t> strides = n.node.integers("strides", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> dilations = n.node.integers("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> more = n.node.integers("output_padding", std::vector<int64_t>(rank, 0));
  std::vector<int64_t> pads = n.node.integers("pads", std::vector<int64_t>(2 * rank, 0));
  const std::vector<int64_t> shape = n.node.integers("output_shape");
  const std::string_view mode = n.node.text("auto_pad", "NOTSET");
  if (kernel.size() != rank || strides.size() != rank || dilations.size() != rank || more.size() != rank ||
      pads.size() != 2 * rank || (!shape.empty() && shape.size() < rank))
    throw errorf("an attribute does not have one entry per spatial dimension ({})", rank);
  std::vector<int64_t> full(rank);
  for (size_t d = 0; d < rank; ++d) {
    for (const int64_t v : {strides[d], dilations[d], kernel[d]})
      if (v < 1 || v > kMostPlaces) throw errorf("a stride, a dilation or a kernel is {}", v);
    for (const int64_t v :
         {more[d], pads[d], pads[d + rank], shape.empty() ? 0 : shape[shape.size() - rank + d]})
      if (v < -kMostPlaces || v > kMostPlaces) throw errorf("a padding or a size is {}", v);
    full[d] = strides[d] * (sizes[d] - 1) + (kernel[d] - 1) * dilations[d] + 1;
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (shape.empty() && !same) continue;
    const int64_t wanted = shape.empty() ? sizes[d] * strides[d] : shape[shape.size() - rank + d];
    const int64_t total = full[d] + more[d] - wanted;
    const int64_t small = total >= 0 ? total / 2 : 0;
    pads[d] = mode == "SAME_UPPER" ? small : total - small;
    if (total < 0) pads[d] = 0;
    pads[d + rank] = total - pads[d];
  }
  const int64_t groups = n.node.integer("group", 1);
  Value* y = n.op("conv_transpose", {{"x", x},
                                     {"weight", weight},
                                     {"strides", Constant::ints(strides)},
                                     {"pad_type", n.text("valid")},
                                     {"dilations", Constant::ints(dilations)},
                                     {"groups", n.i(groups)}});
  std::vector<int64_t> before(rank, 0), after(rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t end = full[d] + more[d] - pads[d + rank];
    after[d] = std::max<int64_t>(0, end - full[d]);
    if (pads[d] < 0) before[d] = -pads[d];
    const int64_t begin = std::max<int64_t>(0, pads[d]), stop = std::min(end, full[d]);
    if (begin > 0 || stop < full[d]) y = n.slice(y, static_cast<int64_t>(d) + 2, begin, stop);
  }
  y = pad_spatial(n, y, before, after, 0);
  n.out(bias ? n.add(y, per_channel(n, bias, rank)) : y);
}

const OnnxOp kOps[] = {
    {"Conv", conv},
    {"ConvInteger", conv_integer},
    {"ConvTranspose", conv_transpose},
};

}  // namespace

std::span<const OnnxOp> onnx_conv() { return kOps; }

}  // namespace anemone::onnx_ops
