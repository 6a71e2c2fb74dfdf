// Puts encoded weights into a copy of a program.
//     Program out = rewrite(program, {{{"main", "w"}, sources}, …});
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "compress/sources.h"
#include "mil/program.h"

namespace anemone {

// By function and name of the value.
using Replacements = std::map<std::pair<std::string, std::string>, std::shared_ptr<Sources>>;

// A weight keeps its name; operations that are no longer used are removed.
Program rewrite(const Program& program, const Replacements& replacements);

}  // namespace anemone
