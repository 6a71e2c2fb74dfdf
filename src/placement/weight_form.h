// WeightForm: how a weight is stored, as the compiler for the engine looks at it: integers with scales, palettes,
// sparse; and where the blocks of scales or tables lie.
//     WeightForm f = weight_form(*conv.value("weight")->producer);
//     f.split_along_inputs(0);                        // blocks along K: the engine refuses them (Q02)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mil/program.h"

namespace anemone::placement {

struct WeightForm {
  enum class Kind { plain, integer, palette };

  Kind kind = Kind::plain;
  bool sparse = false;
  int bits = 16;                // of one stored element
  std::vector<int64_t> dims;    // of the weight
  std::vector<int64_t> parts;   // blocks of scales or tables along each dimension; empty: one for all
  int64_t vector = 1;           // elements that one entry of a table stands for
  bool integer_table = false;   // entries of the table are integers
  bool scaled_palette = false;  // scales on top of the table
  const Constant* scale = nullptr;
  const Constant* data = nullptr;  // integers or indices

  // Blocks differ along another dimension than `out_axis` (see output_axis in placement/product.h).
  bool split_along_inputs(int out_axis) const;
  // One scale or table for everything.
  bool whole() const;
  std::string text() const;  // "int4, blocks [512, 8]"
};

// Of the value that a const or constexpr operation makes.
WeightForm weight_form(const Operation& maker);

}  // namespace anemone::placement
