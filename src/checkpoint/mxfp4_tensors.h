// MXFP4 as gpt-oss's safetensors store it: 4-bit codes in one tensor ("…_blocks"), a power of two for every 32 of them
// in another ("…_scales"). Both become one tensor.
//     tensors = join_mxfp4(std::move(tensors));          // "gate_up_proj" [experts, out, in]
#pragma once

#include <vector>

#include "checkpoint/tensor_reader.h"

namespace anemone {

// Every pair becomes one tensor in the place of the first, of the blocks' shape with its last two dimensions as one.
// Error where one half of a pair is missing, or the two do not fit.
std::vector<TensorReader> join_mxfp4(std::vector<TensorReader> tensors);

}  // namespace anemone
