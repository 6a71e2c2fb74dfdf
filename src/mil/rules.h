// What type rules share: axes, broadcasting, reductions, windows. All work on symbolic shapes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mil/op.h"

namespace anemone {

// The axis as 0 … rank-1; Error when it is outside [-rank, rank).
int normal_axis(int64_t axis, int rank, std::string_view param);
// Normalised, sorted and free of repeats; Error on a repeat.
std::vector<int> normal_axes(std::span<const int64_t> axes, int rank, std::string_view param);
// The parameter "axes" of an op over "x"; all of them where it is not given.
std::vector<int> axes_or_all(const OpCall& call);

// numpy broadcasting; Error naming both shapes when they do not fit.
Shape broadcast(const Shape& a, const Shape& b);

// Product of the dimensions from `begin` to `end`.
Dim product(const Shape& shape, size_t begin, size_t end);

// Sizes and padding of a sliding window (conv, pooling) along each spatial dimension.
struct Window {
  std::vector<int64_t> before, after;  // padding
  Shape out;
};
// pad_type: valid, same, same_lower, custom. `spatial`: the input's spatial dimensions.
Window sliding_window(std::span<const Dim> spatial, std::string_view pad_type,
                      std::span<const int64_t> kernel, std::span<const int64_t> strides,
                      std::span<const int64_t> dilations, std::span<const int64_t> pad, bool ceil_mode);

// The types of an operation's outputs, by its rule; the error names the operation.
Types infer_types(const OpBinding& binding, std::span<const void* const> data);

}  // namespace anemone
