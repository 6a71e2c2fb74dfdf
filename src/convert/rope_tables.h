// The frequencies of a rope as the runtime uses them: plain numbers, whatever scaling made them.
#pragma once

#include "families/model.h"
#include "runtime/bundle_info.h"

namespace anemone {

RopeTable rope_table(const Rope& rope, size_t index);

}  // namespace anemone
