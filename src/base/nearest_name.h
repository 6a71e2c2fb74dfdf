// nearest_name: what was meant by a name that is not known.
//     nearest_name("inspct", {"inspect", "predict"})      // "inspect"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anemone {

// The name that is at most a third of its letters away from `given`; empty when there is none.
std::string nearest_name(std::string_view given, const std::vector<std::string>& names);

}  // namespace anemone
