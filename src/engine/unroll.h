// The steps of layers that were left out of a plan, made from those of the pattern (layers.h).
//     if (!unroll(plan, places, layers)) …plan every operation by itself…
#pragma once

#include <memory>
#include <span>

#include "engine/layers.h"
#include "engine/plan.h"

namespace anemone {

// `places`: for each step, where in the function it stands (Layers::place). The pattern is tried on its neighbours,
// which were planned: the steps of both must be those that it gives. False: they are not, or a step cannot be had for
// another layer; the plan is then of no use.
bool unroll(Plan& plan, std::span<const int> places, const std::shared_ptr<const Layers>& layers);

}  // namespace anemone
