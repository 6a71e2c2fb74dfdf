// Holds a Model against the tensors: every weight is there with the shape that the sizes give, every element of every
// tensor belongs to one weight, and no tensor is left over.
//     check_model(checkpoint, model);        // Error that names both sides
#pragma once

#include "checkpoint/checkpoint.h"
#include "families/model.h"

namespace anemone {

void check_model(const Checkpoint& checkpoint, const Model& model);

}  // namespace anemone
