// Gives every value that a plan computes a place in one arena: memory is taken when the value is made and
// given back after the last look at it or at a view of it. `staying` values keep theirs to the end.
#pragma once

#include <set>

#include "engine/plan.h"

namespace anemone {

void place_values(Plan& plan, const std::set<int>& staying);

}  // namespace anemone
