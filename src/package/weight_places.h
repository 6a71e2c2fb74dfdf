// Weight places: where the constants of a program lie in the weight file that a plan lays out, by the names of the
// program.
//     std::vector<WeightPlace> places = weight_places(program, plan);
#pragma once

#include <vector>

#include "package/package.h"
#include "package/weight_plan.h"

namespace anemone {

// In the order of the program's operations. A const that a constexpr operation reads is listed under its own name and
// again as that operation's parameter.
std::vector<WeightPlace> weight_places(const Program& program, const WeightPlan& plan);

}  // namespace anemone
