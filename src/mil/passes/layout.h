// Layout: in which order a value's dimensions lie in memory, where that is not the order of the program.
//     Layout tokens_last = {0, 2, kUnit, 1};              // [B, S, C] is stored as [B, C, 1, S]
//     stored_shape({1, 128, 384}, tokens_last);           // {1, 384, 1, 128}
// Each entry is one dimension of the stored value: the axis of the value that lies there, or kUnit for a dimension of
// size 1 that the value does not have.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace anemone {

using Layout = std::vector<int>;
inline constexpr int kUnit = -1;

Layout plain_layout(int rank);
std::vector<int64_t> stored_shape(const std::vector<int64_t>& dims, const Layout& layout);
// Where an axis of the value lies; -1 where it does not.
int place_of(const Layout& layout, int axis);
// Both hold the elements in the same order: dimensions of size 1 may lie anywhere.
bool same_elements(const std::vector<int64_t>& dims, const Layout& a, const Layout& b);
// The permutation from one layout to the other, where both have the same number of units.
std::optional<std::vector<int64_t>> permutation(const Layout& from, const Layout& to);
Layout without_units(const Layout& layout);

// The layout after `transpose` by `perm`, of the same elements.
Layout transposed_layout(const Layout& layout, const std::vector<int64_t>& perm);
// The layout after `reshape` from `dims` to `wanted`, where the elements can stay as they lie; else nothing.
std::optional<Layout> reshaped_layout(const Layout& layout, const std::vector<int64_t>& dims,
                                      const std::vector<int64_t>& wanted);

}  // namespace anemone
