#include "mil/rules.h"

#include <algorithm>

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
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) throw errorf("'{}' names an axis twice", param);
  return out;
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

Window sliding_window(std::span<const Dim> spatial, std::string_view pad_type, std::span<const int64_t> kernel,
                      std::span<const int64_t> strides, std::span<const int64_t> dilations,
                      std::span<const int64_t> pad, bool ceil_mode) {
  const size_t n = spatial.size();
  if (kernel.size() != n || strides.size() != n || dilations.size() != n || pad.size() != 2 * n)
    throw errorf("strides, dilations, kernel or pad do not have one entry per spatial dimension ({})", n);
  const bool same = pad_type == "same", same_lower = pad_type == "same_lower";
  if (!same && !same_lower && pad_type != "valid" && pad_type != "custom")
    throw errorf("unknown pad_type '{}'", pad_type).expected("valid, custom, same or same_lower");
  Window w{std::vector<int64_t>(n), std::vector<int64_t>(n), Shape(n)};
  for (size_t i = 0; i < n; ++i) {
    if (kernel[i] < 1 || strides[i] < 1 || dilations[i] < 1)
      throw errorf("kernel, strides and dilations must be positive");
    if (pad_type == "custom") {
      w.before[i] = pad[2 * i];
      w.after[i] = pad[2 * i + 1];
      if (w.before[i] < 0 || w.after[i] < 0) throw errorf("'pad' must not be negative");
    }
    if (!spatial[i].known()) {
      const bool unchanged = (same || same_lower) ? strides[i] == 1
                                                  : strides[i] == 1 && w.before[i] + w.after[i] ==
                                                                           dilations[i] * (kernel[i] - 1);
      w.out[i] = unchanged ? spatial[i] : Dim::unknown();
      continue;
    }
    const int64_t in = spatial[i].size(), extent = dilations[i] * (kernel[i] - 1) + 1;
    if (same || same_lower) {
      const int64_t out = (in + strides[i] - 1) / strides[i];
      const int64_t total = std::max<int64_t>(0, (out - 1) * strides[i] + extent - in);
      w.before[i] = same ? total / 2 : total - total / 2;
      w.after[i] = total - w.before[i];
      w.out[i] = out;
      continue;
    }
    const int64_t room = in + w.before[i] + w.after[i] - extent;
    if (room < 0)
      throw errorf("the window of {} does not fit in {} with its padding", extent, in);
    int64_t out = room / strides[i] + 1;
    // In ceil mode the last window may hang over the end, but must start inside the input or its left padding.
    if (ceil_mode && room % strides[i] != 0 && out * strides[i] < in + w.before[i]) {
      w.after[i] += out * strides[i] + extent - (in + w.before[i] + w.after[i]);
      ++out;
    }
    w.out[i] = out;
  }
  return w;
}

Types infer_types(const OpBinding& binding, std::span<const void* const> data) {
  return binding.op->infer(OpCall(binding, data));
}

}  // namespace anemone
