#include "mil/rules.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace anemone {

int normal_axis(int64_t axis, int rank, std::string_view param) {
  if (axis < -rank || axis >= rank)
    throw errorf("'{}' is outside the tensor", param)
        .found(fmt::format("{}", axis))
        .expected(fmt::format("{} to {}", -rank, rank - 1));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> normal_axes(std::span<const int64_t> axes, int rank, std::string_view param) {
  std::vector<int> out;
  for (const int64_t axis : axes) out.push_back(normal_axis(axis, rank, param));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    throw errorf("'{}' names an axis twice", param);
  return out;
}

std::vector<int> axes_or_all(const OpCall& call) {
  const int rank = call.type("x").rank();
  if (call.has("axes")) return normal_axes(call.integers("axes"), rank, "axes");
  std::vector<int> all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const Dim x = i + a.size() < rank ? Dim(1) : a[i + a.size() - rank];
    const Dim y = i + b.size() < rank ? Dim(1) : b[i + b.size() - rank];
    if (x == y || y == Dim(1))
      out[i] = x;
    else if (x == Dim(1))
      out[i] = y;
    else if (x.known() && y.known())
      throw errorf("the shapes {} and {} do not fit together", shape_text(a), shape_text(b));
    else if (x.known())  // the other is a symbol: 1 or the same
      out[i] = x;
    else
      out[i] = y.known() ? y : Dim::unknown();
  }
  return out;
}

Dim product(const Shape& shape, size_t begin, size_t end) {
  Dim out = 1;
  for (size_t i = begin; i < end; ++i) out = out.times(shape[i]);
  return out;
}

namespace {

// Larger sizes are no tensors, and below this no product or sum of the rules can overflow.
constexpr int64_t kLargestSpatial = int64_t{1} << 40;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

Window sliding_window(std::span<const Dim> spatial, std::string_view pad_type,
                      std::span<const int64_t> kernel, std::span<const int64_t> strides,
                      std::span<const int64_t> dilations, std::span<const int64_t> pad, bool ceil_mode) {
  const size_t n = spatial.size();
  if (kernel.size() != n || strides.size() != n || dilations.size() != n || pad.size() != 2 * n)
    throw errorf("strides, dilations, kernel or pad do not have one entry per spatial dimension ({})", n);
  const bool same = pad_type == "same", same_lower = pad_type == "same_lower", custom = pad_type == "custom";
  if (!same && !same_lower && !custom && pad_type != "valid")
    throw errorf("unknown pad_type '{}'", pad_type).expected("valid, custom, same or same_lower");
  const auto in_range = [](int64_t value, int64_t least) { return value >= least && value <= INT32_MAX; };
  Window w{std::vector<int64_t>(n), std::vector<int64_t>(n), Shape(n)};
  for (size_t i = 0; i < n; ++i) {
    if (!in_range(kernel[i], 1) || !in_range(strides[i], 1) || !in_range(dilations[i], 1))
      throw errorf("kernel, strides and dilations must be positive");
    if (custom) {
      w.before[i] = pad[2 * i];
      w.after[i] = pad[2 * i + 1];
      if (!in_range(w.before[i], 0) || !in_range(w.after[i], 0)) throw errorf("'pad' must not be negative");
    }
    const int64_t extent = dilations[i] * (kernel[i] - 1) + 1, stride = strides[i];
    if (!spatial[i].known()) {
      const bool unchanged = stride == 1 && (same || same_lower || w.before[i] + w.after[i] == extent - 1);
      w.out[i] = unchanged ? spatial[i] : Dim::unknown();
      continue;
    }
    const int64_t in = spatial[i].size();
    if (in > kLargestSpatial) throw errorf("a spatial dimension is too large").found(fmt::format("{}", in));
    if (same || same_lower) {
      const int64_t out = (in + stride - 1) / stride;
      const int64_t total = std::max<int64_t>(0, (out - 1) * stride + extent - in);
      w.before[i] = same ? total / 2 : total - total / 2;
      w.after[i] = total - w.before[i];
      w.out[i] = out;
      continue;
    }
    const int64_t padding = w.before[i] + w.after[i], room = in + padding - extent;
    int64_t out = floor_div(room + (ceil_mode ? stride - 1 : 0), stride) + 1;
    // In ceil mode the last window may hang over the end. Where there is padding it must begin before the
    // padding behind the input; without padding Core ML has no such rule.
    if (ceil_mode && padding > 0 && 2 * (out - 1) * stride >= 2 * in + padding) --out;
    if (out < 1) throw errorf("the window of {} does not fit in {} with its padding", extent, in);
    w.after[i] = std::max(w.after[i], (out - 1) * stride + extent - in - w.before[i]);
    w.out[i] = out;
  }
  return w;
}

Types infer_types(const OpBinding& binding, std::span<const void* const> data) {
  return binding.op->infer(OpCall(binding, data));
}

}  // namespace anemone
