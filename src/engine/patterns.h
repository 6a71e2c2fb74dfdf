// Patterns of several operations that run as one. kernel_choice.cpp says which are looked for, and in which
// order; each is in a file of its own. A pattern holds whatever the sizes and names are; what the values must
// be for it is checked at run time, and otherwise the operations run as they are.
#pragma once

#include "engine/plan_edit.h"

namespace anemone {

// A state that is read, changed in a few rows and written back: the rows are written in place.
//     s = write_state(read_state(s) * keep + matmul(write, rows))     one-hot `write`, keep = 1 - its sum
//     s = write_state(concat of such for parts of the first axis)
//     s = write_state(slice_update(… slice_update(read_state(s), rows) …))
void fuse_cache_writes(PlanEdit& edit);

// softmax(q · keysᵀ [* scale] + mask) · values: no scores in memory, and no work for columns that the mask
// takes away.
void fuse_attention(PlanEdit& edit);

// x over its root mean square times a gain; rotary positions; x * sigmoid(x) * up. In fp32 arithmetic only.
void fuse_chains(PlanEdit& edit);

// A convolution, what is added to it, and the function of its elements behind that.
void fuse_convolutions(PlanEdit& edit);

// Projections (1x1 convolutions) of one input, and a sum behind one.
void fuse_projections(PlanEdit& edit);

}  // namespace anemone
