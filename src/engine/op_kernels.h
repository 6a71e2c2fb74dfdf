// Faster kernels for single operations: activations, softmax and layer norm along the last dimensions, convolutions.
//     if (auto run = find_op_kernel(binding)) run(call);
// Each takes every case of its operation: what it has no fast way for goes to the operation's own kernel.
#pragma once

#include <string_view>

#include "kernels/pointwise.h"
#include "mil/op.h"

namespace anemone {

// As gelu's parameter names it.
GeluMode gelu_mode(std::string_view name);

// Empty: there is none for this operation.
void (*find_op_kernel(const OpBinding& binding))(const OpCall&);

}  // namespace anemone
