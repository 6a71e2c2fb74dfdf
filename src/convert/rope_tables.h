// The frequencies of a rope as the runtime uses them: plain numbers, whatever scaling made them.
#pragma once

#include "bundle/bundle_info.h"
#include "families/model.h"

namespace anemone {

RopeTable rope_table(const Rope& rope);

}  // namespace anemone
