// The one place where faster kernels are chosen: by op, shapes and how the weight is stored. What has no
// faster form runs its plain kernel.
#pragma once

#include "mil/op.h"

namespace anemone {

void (*choose_kernel(const OpBinding& binding, std::span<const Type> out_types))(const OpCall&);

}  // namespace anemone
