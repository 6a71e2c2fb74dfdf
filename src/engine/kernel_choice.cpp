#include "engine/kernel_choice.h"

#include "base/error.h"

namespace anemone {

void (*choose_kernel(const OpBinding& binding, std::span<const Type>))(const OpCall&) {
  if (!binding.op->run) throw errorf("'{}' cannot be run here", binding.op->name);
  return binding.op->run;
}

}  // namespace anemone
