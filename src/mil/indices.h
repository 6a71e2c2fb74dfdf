// Indices of gather and scatter: checked against the size that they index, negative ones counted from the
// end.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "mil/op.h"

namespace anemone::ops {

// Negative indices count from the end, unless `validate_indices` is set: iOS 17 refuses them then.
inline bool wraps(const OpCall& c) { return !c.has("validate_indices") || !c.flag("validate_indices"); }

// The index as 0 … size-1; Error naming both when it is outside [-size, size), or [0, size) without `wrap`.
inline int64_t checked_index(int64_t index, int64_t size, bool wrap) {
  const int64_t least = wrap ? -size : 0;
  if (index < least || index >= size)
    throw errorf("an index is outside the tensor")
        .found(fmt::format("{}", index))
        .expected(fmt::format("{} to {}", least, size - 1));
  return index < 0 ? index + size : index;
}

// Error when two dimensions are known and differ.
inline void check_same(Dim a, Dim b, std::string_view what) {
  if (a.known() && b.known() && a != b)
    throw errorf("{} differ", what).found(fmt::format("{} and {}", a.text(), b.text()));
}

// The product of dims[begin, end).
inline int64_t span_size(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t out = 1;
  for (size_t i = begin; i < end; ++i) out *= dims[i];
  return out;
}

// The length of index tuples in the last dimension of `indices`, which must be a number.
inline size_t tuple_length(const OpCall& c, int room) {
  const Type& indices = c.type("indices");
  if (indices.rank() < 1 || !indices.shape.back().known())
    throw errorf("'indices' must end in a fixed dimension").found(indices.text());
  const int64_t depth = indices.shape.back().size();
  if (depth > room) throw errorf("an index of {} numbers does not fit {} dimensions", depth, room);
  return static_cast<size_t>(depth);
}

// The offset, in slices, that a tuple of indices names among dims[first, first + depth).
inline int64_t tuple_offset(const int32_t* tuple, const std::vector<int64_t>& dims, size_t first,
                            size_t depth, bool wrap) {
  int64_t offset = 0;
  for (size_t i = 0; i < depth; ++i)
    offset = offset * dims[first + i] + checked_index(tuple[i], dims[first + i], wrap);
  return offset;
}

}  // namespace anemone::ops
