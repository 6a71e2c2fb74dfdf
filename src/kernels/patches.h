// Patches of an image as the panels that gemm_packed takes: what a convolution multiplies.
//     pad_row(row, width, before, stride, line, to);      // rows with zeros around them, columns sorted by the stride
//     pack_patches(data, {taps, stretches, …}, from, depth, out);
#pragma once

#include <cstdint>
#include <span>

namespace anemone {

// A row of an image behind `before` zeros, its columns sorted by their remainder of `phases`: those of one remainder lie
// together, `line` of them. What neighbouring outputs of a convolution with that stride read through one column of the
// kernel then lies together. Places that no column falls on are left alone.
void pad_row(const float* row, int64_t width, int64_t before, int64_t phases, int64_t line, float* to) noexcept;

// Floats behind the data that pack_patches may read.
int64_t floats_beyond();

// Columns of a panel that lie together: `count` of them from column `at` on, and where they begin in a plane.
struct PatchStretch {
  int64_t at, begin, count;
};

// A panel of `width` columns, of which `columns` are there: the stretches that they are in, and where the places of the
// kernel are in a plane.
struct PatchPanel {
  std::span<const int64_t> taps;
  std::span<const PatchStretch> stretches;
  int64_t plane = 0, columns = 0, width = 0;
};

// Rows [from, from + depth) of the patches (channel, place of the kernel); columns that are not there are zero.
void pack_patches(const float* data, const PatchPanel& panel, int64_t from, int64_t depth, float* out) noexcept;

// The plain twins.
void pad_row_plain(const float* row, int64_t width, int64_t before, int64_t phases, int64_t line,
                   float* to) noexcept;
void pack_patches_plain(const float* data, const PatchPanel& panel, int64_t from, int64_t depth,
                        float* out) noexcept;

}  // namespace anemone
