// Weight places: where the constants of a program lie in the weight file, by the names of the program.
//     std::vector<WeightPlace> places = weight_places(program, layout);
#pragma once

#include <vector>

#include "package/package.h"
#include "package/weight_layout.h"

namespace anemone {

// In the order of the program's operations. A const that a constexpr operation reads is listed under its own name and
// again as that operation's parameter.
std::vector<WeightPlace> weight_places(const Program& program, const WeightLayout& layout);

}  // namespace anemone
