// Computes what depends on constants alone, and puts constants in its place.
//     fold_operation(block, index, function.opset, {.most = 1 << 20});      // its values stay where they are
#pragma once

#include <cstdint>

#include "mil/program.h"

namespace anemone {

struct FoldLimits {
  int64_t most = int64_t{1} << 26;  // elements of an operand or result; larger ones stay as they are
};

// The operation becomes one `const` for each of its results (values keep their addresses and names); false, and no
// change, where it cannot be computed. Types become those of the results.
bool fold_operation(Block& block, size_t index, Opset opset, const FoldLimits& limits = {});

}  // namespace anemone
