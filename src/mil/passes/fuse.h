// Finds operations of MIL that exporters wrote out in parts: biases of linear layers and convolutions, layer
// normalization, GELU; folds batch normalization into the convolution before it.
//     FuseReport report = fuse(function);
// One operation is faster than its parts, and fp16 keeps its range inside: a layer norm in parts needs an island of
// fp32, which the Neural Engine does not run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "mil/program.h"

namespace anemone {

struct FuseReport {
  std::map<std::string, int64_t> found;  // by what was found: "layer_norm", "gelu", "bias", "batch_norm"
};

FuseReport fuse(Function& function);

}  // namespace anemone
