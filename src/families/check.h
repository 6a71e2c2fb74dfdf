// Compares a Model with the tensors: every weight exists with the shape that follows from the sizes, every element of
// every tensor belongs to one weight, and no tensor is unused.
//     check_model(checkpoint, model);        // Error that names both sides
#pragma once

#include "checkpoint/checkpoint.h"
#include "families/model.h"

namespace anemone {

void check_model(const Checkpoint& checkpoint, const Model& model);

}  // namespace anemone
