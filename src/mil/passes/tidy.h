// Takes away operations that change nothing, joins neighbours that move the same data, and computes equal things once.
//     TidyReport report = tidy(function);
// Transposes in a row become one or none, and so do reshapes, squeezes and the like; a transpose that moves only
// dimensions of size 1 is a reshape. Values keep their numbers exactly.
#pragma once

#include <cstdint>

#include "mil/program.h"

namespace anemone {

struct TidyReport {
  int64_t before = 0, after = 0;  // operations, constants apart
};

TidyReport tidy(Function& function);

// Operations of a function, constants apart, those of nested blocks included.
int64_t count_operations(const Function& function);

}  // namespace anemone
