// Patches of an image as the panels that gemm_packed takes: what a convolution multiplies.
//     pad_rows(plane, {.height = 56, .width = 56, …}, -1, 58, true, to);   // rows with zeros around them
//     pack_patches(data, {taps, stretches, …}, from, depth, out);
#pragma once

#include <cstdint>
#include <span>

namespace anemone {

// How rows of an image are padded: behind `before` places, columns sorted by their remainder of `phases`. Those of one
// remainder lie together, `line` of them. What neighbouring outputs of a convolution with that stride read through one
// column of the kernel then lies together.
struct PaddedRows {
  int64_t height = 0, width = 0, before = 0, phases = 1, line = 0;
  float fill = 0;  // where there is no image

  int64_t pitch() const { return phases * line; }  // from one padded row to the next
};

// Rows [first, first + count) of the image, which may begin before it and end behind it. Where not `fresh`, places
// without a column that lie in a row of the image have their fill already.
void pad_rows(const float* image, const PaddedRows& how, int64_t first, int64_t count, bool fresh,
              float* to) noexcept;

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
void pack_patches(const float* data, const PatchPanel& panel, int64_t from, int64_t depth,
                  float* out) noexcept;

// The plain twins.
void pad_rows_plain(const float* image, const PaddedRows& how, int64_t first, int64_t count,
                    float* to) noexcept;
void pack_patches_plain(const float* data, const PatchPanel& panel, int64_t from, int64_t depth,
                        float* out) noexcept;

}  // namespace anemone
