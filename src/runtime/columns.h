// Reads what calls give, whatever its type and strides, as floats.
//     read_elements(view, offset, 1, dim, row);                // dim of them, one behind the other
//     read_columns(view, 0, tokens, rows, vocab);              // columns of [1, C, T, 1] as rows
#pragma once

#include <cstdint>

#include "anemone/array.h"

namespace anemone {

// `count` elements from `offset` on, `stride` apart (both in elements). Error for a type that is no fp32 and no fp16.
void read_elements(const TensorView& view, int64_t offset, int64_t stride, int64_t count, float* to);
// Columns [first, first + count) of a view [1, C, T, 1]; each becomes C floats, and they begin `pitch` floats apart.
void read_columns(const TensorView& view, int64_t first, int64_t count, float* to, int64_t pitch);
// One number of such a view.
float read_number(const TensorView& view, int64_t channel, int64_t column);

}  // namespace anemone
