// Pooling.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/window.h"

namespace anemone::onnx_ops {
namespace {

std::vector<int64_t> spatial(const std::vector<int64_t>& dims) {
  if (dims.size() < 3)
    throw errorf("an image has a batch, channels and at least one size").found(shape_text(dims));
  return {dims.begin() + 2, dims.end()};
}

OnnxWindow window_of(OnnxCall& n, Value* x) {
  return onnx_window(n, spatial(n.dims(x)), n.node.integers("kernel_shape"));
}

Value* padded(OnnxCall& n, Value* x, const OnnxWindow& w, float value) {
  std::vector<int64_t> after = w.after;
  for (size_t d = 0; d < after.size(); ++d) after[d] += w.hang[d];
  return pad_spatial(n, x, w.before, after, value);
}

// The elements that place `tap` of the kernel sees, for all windows.
Value* seen_by(OnnxCall& n, Value* x, const OnnxWindow& w, int64_t tap) {
  const auto rank = static_cast<size_t>(x->type.rank());
  std::vector<int64_t> begin(rank, 0), end = n.dims(x), stride(rank, 1);
  for (size_t d = w.kernel.size(); d-- > 0;) {
    const int64_t at = tap % w.kernel[d] * w.dilations[d];
    tap /= w.kernel[d];
    begin[d + 2] = at;
    end[d + 2] = at + (w.out[d] - 1) * w.strides[d] + 1;
    stride[d + 2] = w.strides[d];
  }
  return n.op("slice_by_index", {{"x", x},
                                 {"begin", Constant::ints(begin)},
                                 {"end", Constant::ints(end)},
                                 {"stride", Constant::ints(stride)}});
}

// Where each element of an image lies in its plane, by rows or (column_major) by columns.
Value* places(OnnxCall& n, const std::vector<int64_t>& dims, bool column_major) {
  std::vector<int64_t> sizes = spatial(dims);
  const int64_t count = element_count(sizes);
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t e = 0; e < count; ++e) {
    int64_t place = e;
    if (column_major) {
      int64_t rest = e, scale = 1;
      std::vector<int64_t> at(sizes.size());
      for (size_t d = sizes.size(); d-- > 0;) {
        at[d] = rest % sizes[d];
        rest /= sizes[d];
      }
      place = 0;
      for (size_t d = 0; d < sizes.size(); ++d) {
        place += at[d] * scale;
        scale *= sizes[d];
      }
    }
    values[static_cast<size_t>(e)] = place;
  }
  std::vector<int64_t> shape = {1, 1};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  return n.int_values(values, shape);
}

// With indices, or gaps in the kernel: the maximum over the places of the kernel, one by one.
void max_pool_by_taps(OnnxCall& n, Value* x, const OnnxWindow& w) {
  const std::vector<int64_t> dims = n.dims(x);
  constexpr float kLow = -std::numeric_limits<float>::infinity();
  Value* values = padded(n, x, w, kLow);
  const bool indices = n.wants(1);
  Value* where = nullptr;
  if (indices) {
    Value* plane = n.cast(places(n, dims, n.node.integer("storage_order", 0) != 0), DType::fp32);
    where = padded(n, plane, w, 0);
  }
  Value *best = nullptr, *best_at = nullptr;
  for (int64_t tap = 0; tap < w.taps(); ++tap) {
    Value* here = seen_by(n, values, w, tap);
    Value* at = indices ? n.broadcast_to(seen_by(n, where, w, tap), n.dims(here)) : nullptr;
    if (indices && best) best_at = n.select(n.op("greater", {{"x", here}, {"y", best}}), at, best_at);
    if (indices && !best) best_at = at;
    best = best ? n.op("maximum", {{"x", best}, {"y", here}}) : here;
  }
  n.out(0, best, n.type(0));
  if (!indices) return;
  // Indices count over the whole tensor.
  const int64_t plane = element_count(spatial(dims)), planes = dims[0] * dims[1];
  std::vector<int64_t> offsets(static_cast<size_t>(planes));
  for (int64_t k = 0; k < planes; ++k) offsets[static_cast<size_t>(k)] = k * plane;
  std::vector<int64_t> shape(dims.size(), 1);
  shape[0] = dims[0];
  shape[1] = dims[1];
  n.out(1, n.add(n.cast(best_at, DType::int32), n.int_values(offsets, shape)), OnnxType::int64);
}

void max_pool(OnnxCall& n) {
  Value* x = n.in(0);
  const bool whole = x->type.dtype == DType::int32;
  if (whole) x = n.cast(x, DType::fp32);
  const OnnxWindow w = window_of(n, x);
  if (whole) {
    Value* all = padded(n, x, w, -std::numeric_limits<float>::infinity());
    Value* best = nullptr;
    for (int64_t tap = 0; tap < w.taps(); ++tap) {
      Value* here = seen_by(n, all, w, tap);
      best = best ? n.op("maximum", {{"x", best}, {"y", here}}) : here;
    }
    return n.out(n.cast(best, DType::int32));
  }
  if (n.wants(1) || !w.plain_dilations()) return max_pool_by_taps(n, x, w);
  const bool hangs = w.hangs();
  if (hangs) x = padded(n, x, w, -std::numeric_limits<float>::infinity());
  n.out(n.op("max_pool",
             {{"x", x},
              {"kernel_sizes", Constant::ints(w.kernel)},
              {"strides", Constant::ints(w.strides)},
              {"pad_type", n.text(hangs ? "valid" : "custom")},
              {"pad", Constant::ints(hangs ? std::vector<int64_t>(2 * w.kernel.size(), 0) : w.pads())}}));
}

// The sum over windows, as a convolution of each channel with ones.
Value* window_sum(OnnxCall& n, Value* x, const OnnxWindow& w) {
  std::vector<int64_t> dims = n.dims(x);
  std::vector<int64_t> flat = dims;
  flat[0] = dims[0] * dims[1];
  flat[1] = 1;
  std::vector<int64_t> kernel = {1, 1};
  kernel.insert(kernel.end(), w.kernel.begin(), w.kernel.end());
  Value* ones = n.filled(kernel, 1, DType::fp32);
  Value* y = n.op("conv", {{"x", n.reshape(x, flat)},
                           {"weight", ones},
                           {"strides", Constant::ints(w.strides)},
                           {"pad_type", n.text("valid")},
                           {"dilations", Constant::ints(w.dilations)}});
  std::vector<int64_t> out = {dims[0], dims[1]};
  out.insert(out.end(), w.out.begin(), w.out.end());
  return n.reshape(y, out);
}

// How many places count for each window, along one dimension.
std::vector<float> counts(const OnnxWindow& w, size_t d, int64_t size, bool with_padding) {
  std::vector<float> out;
  const int64_t low = with_padding ? -w.before[d] : 0, high = with_padding ? size + w.after[d] : size;
  for (int64_t o = 0; o < w.out[d]; ++o) {
    int64_t count = 0;
    for (int64_t k = 0; k < w.kernel[d]; ++k) {
      const int64_t at = o * w.strides[d] - w.before[d] + k * w.dilations[d];
      count += at >= low && at < high;
    }
    out.push_back(static_cast<float>(count));
  }
  return out;
}

void average_pool(OnnxCall& n) {
  Value* x = n.in(0);
  const OnnxWindow w = window_of(n, x);
  const bool with_padding = n.node.integer("count_include_pad", 0) != 0;
  const std::vector<int64_t> sizes = spatial(n.dims(x));
  if (w.plain_dilations() && !w.hangs())
    return n.out(n.op("avg_pool", {{"x", x},
                                   {"kernel_sizes", Constant::ints(w.kernel)},
                                   {"strides", Constant::ints(w.strides)},
                                   {"pad_type", n.text("custom")},
                                   {"pad", Constant::ints(w.pads())},
                                   {"exclude_padding_from_average", n.flag(!with_padding)}}));
  Value* y = window_sum(n, padded(n, x, w, 0), w);
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> shape(sizes.size() - d, 1);
    shape[0] = w.out[d];
    y = n.div(y, n.float_values(counts(w, d, sizes[d], with_padding), shape));
  }
  n.out(y);
}

Value* power(OnnxCall& n, Value* x, float p) {
  return p == 1 ? x : p == 2 ? n.unary("square", x) : n.op("pow", {{"x", x}, {"y", n.f(p)}});
}

Value* root(OnnxCall& n, Value* x, float p) {
  return p == 1 ? x : p == 2 ? n.unary("sqrt", x) : n.op("pow", {{"x", x}, {"y", n.f(1 / p)}});
}

void lp_pool(OnnxCall& n) {
  Value* x = n.in(0);
  const auto p = static_cast<float>(n.node.integer("p", 2));
  const OnnxWindow w = window_of(n, x);
  Value* powers = power(n, n.unary("abs", x), p);
  n.out(root(n, window_sum(n, padded(n, powers, w, 0), w), p));
}

std::vector<int64_t> spatial_axes(Value* x) {
  std::vector<int64_t> axes;
  for (int64_t d = 2; d < x->type.rank(); ++d) axes.push_back(d);
  return axes;
}

void global_average(OnnxCall& n) { n.out(n.reduce("mean", n.in(0), spatial_axes(n.in(0)), true)); }
void global_max(OnnxCall& n) { n.out(n.reduce("max", n.in(0), spatial_axes(n.in(0)), true)); }

void global_lp(OnnxCall& n) {
  const auto p = static_cast<float>(n.node.integer("p", 2));
  Value* powers = power(n, n.unary("abs", n.in(0)), p);
  n.out(root(n, n.reduce("sum", powers, spatial_axes(n.in(0)), true), p));
}

// Each element goes to the place that its index names; the rest is zero.
void max_unpool(OnnxCall& n) {
  Value *x = n.in(0), *indices = n.in(1);
  const std::vector<int64_t> dims = n.dims(x), kernel = n.node.integers("kernel_shape");
  const std::vector<int64_t> strides = n.node.integers("strides", std::vector<int64_t>(kernel.size(), 1));
  const std::vector<int64_t> pads = n.node.integers("pads", std::vector<int64_t>(2 * kernel.size(), 0));
  if (dims.size() != kernel.size() + 2 || strides.size() != kernel.size() || pads.size() != 2 * kernel.size())
    throw errorf("kernel_shape, strides or pads do not have one entry per spatial dimension");
  std::vector<int64_t> natural = {dims[0], dims[1]};
  for (size_t d = 0; d < kernel.size(); ++d)
    natural.push_back((dims[d + 2] - 1) * strides[d] - pads[d] - pads[d + kernel.size()] + kernel[d]);
  const std::vector<int64_t> out = n.has(2) ? n.ints(2) : natural;
  if (out.size() != natural.size()) throw errorf("the output shape has another rank").found(shape_text(out));
  const int64_t count = element_count(dims), room = element_count(natural);
  Value* empty = n.filled({room}, 0, DType::fp32);
  Value* y = n.op("scatter", {{"data", empty},
                              {"indices", n.reshape(indices, {count})},
                              {"updates", n.reshape(x, {count})},
                              {"axis", n.i(0)},
                              {"mode", n.text("update")}});
  y = n.reshape(y, natural);
  std::vector<int64_t> before(kernel.size(), 0), after(kernel.size(), 0);
  for (size_t d = 0; d < kernel.size(); ++d) after[d] = out[d + 2] - natural[d + 2];
  n.out(pad_spatial(n, y, before, after, 0));
}

const OnnxOp kOps[] = {
    {"MaxPool", max_pool},         {"AveragePool", average_pool},
    {"LpPool", lp_pool},           {"GlobalAveragePool", global_average},
    {"GlobalMaxPool", global_max}, {"GlobalLpPool", global_lp},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const OnnxOp> onnx_pool() { return kOps; }

}  // namespace anemone::onnx_ops
