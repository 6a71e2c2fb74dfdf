// Elements from one view to another of the same shape, whatever their types and strides.
//     copy_view(logits, TensorView::row_major(DType::fp32, logits.shape, memory));
#pragma once

#include <cstdint>

#include "anemone/array.h"

namespace anemone {

// Rows that lie dense on both sides go as a whole. Allocates nothing for types of Core ML (fp16, fp32, fp64, int8,
// int32). Error where the shapes differ, or a type is another one.
void copy_view(const TensorView& from, const TensorView& to);
// Zeros, in any of those types.
void clear_view(const TensorView& view);

}  // namespace anemone
