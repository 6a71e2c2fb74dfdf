// Coverage: which part of a tensor each weight takes, in the coordinates of the file, and whether the parts fill the
// tensor without sharing anything.
//     const std::vector<StoredPart> parts = {stored_part(gate), stored_part(up)};
//     std::optional<StoredPart> gap = find_gap(parts);                 // lines 64 to 127 of slice 3, say, or nothing
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "families/weight_ref.h"

namespace anemone {

// Lines [line_begin, line_end) and of each the elements [begin, end), of one matrix of a stack or of the only one (-1).
struct StoredPart {
  int64_t slice = -1;
  int64_t line_begin = 0, line_end = 0;
  int64_t begin = 0, end = 0;

  bool overlaps(const StoredPart& other) const;
  // "[5, 0:12, 0:8]"; a vector has no elements in its lines: "[5, 0:12]".
  std::string text(bool is_vector = false) const;
};

// Rows and columns of the weight, turned where the tensor holds the transpose.
StoredPart stored_part(const WeightRef& ref);

// The shape of the smallest tensor that holds all parts: [slices, lines, elements], without slices where there is no
// stack and without elements for vectors.
std::vector<int64_t> least_shape(std::span<const StoredPart> parts, bool are_vectors);

// The first two that share an element, the earlier one first. A tensor that is used as a stack and as one matrix counts
// as shared.
std::optional<std::pair<size_t, size_t>> find_overlap(std::span<const StoredPart> parts);

// A part of the smallest tensor that none of them takes: the first one, as large as its borders let it be.
std::optional<StoredPart> find_gap(std::span<const StoredPart> parts);

}  // namespace anemone
