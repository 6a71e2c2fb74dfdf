// A table of weights, for packages, bundles and checkpoints alike.
//     print_weight_table({{"weight", "shape", "size", "bits", ""}, {"w", "[2, 3]", "12 B", "16.00", "fp16"}});
#pragma once

#include <string>
#include <vector>

namespace anemone::cli {

struct WeightLine {
  std::string name, shape, size, bits, form;
};

// The first line is the heading. At most 100 columns; a name that leaves no room for the rest has a line of its own.
void print_weight_table(const std::vector<WeightLine>& lines);

}  // namespace anemone::cli
