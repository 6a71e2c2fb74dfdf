// Where the lowering gets its constants: an interface, so that the same graph is built over fp16, int8 or
// whatever else `convert` chooses.
#pragma once

#include <string_view>

#include "families/model.h"
#include "mil/builder.h"

namespace anemone::lower {

class Weights {
 public:
  virtual ~Weights() = default;
  // A projection as a convolution's weight [rows, columns, 1, 1], appended to the block: a constant, or a
  // constexpr operation over stored integers. All values times `factor`.
  virtual Value* projection(Builder& b, const WeightRef& ref, double factor, std::string_view name) = 0;
  // A vector in fp16, with the shape given: (value + offset) * factor.
  virtual Value* vector(Builder& b, const WeightRef& ref, Shape shape, double offset, double factor,
                        std::string_view name) = 0;
};

}  // namespace anemone::lower
