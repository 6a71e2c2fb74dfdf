// Where the lowering gets its constants: an interface, so that the same graph is built over fp16, int8 or
// whatever else `convert` chooses.
//     HollowWeights hollow;                                  // no checkpoint is read
//     FunctionInterface i = build_layers(program, "main", model, hollow, spec);
//     for (const NamedWeight& w : i.weights) …               // what each weight of the model is called
#pragma once

#include <string_view>
#include <vector>

#include "families/model.h"
#include "lower/interface.h"
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

// Weights that have a type and no values, for the graph alone: its names, its size.
class HollowWeights : public Weights {
 public:
  // `packed`: projections are constexpr operations over stored integers instead of fp16 constants.
  explicit HollowWeights(bool packed = false) : packed_(packed) {}

  Value* projection(Builder& b, const WeightRef& ref, double factor, std::string_view name) override;
  Value* vector(Builder& b, const WeightRef& ref, Shape shape, double offset, double factor,
                std::string_view name) override;

 private:
  bool packed_;
};

// Passes on what it is asked for, and lists it.
class ListedWeights : public Weights {
 public:
  ListedWeights(Weights& from, std::vector<NamedWeight>& list) : from_(from), list_(list) {}

  // Of what is asked for from now on; -1: outside the layers.
  void set_layer(int64_t layer) { layer_ = layer; }
  Value* projection(Builder& b, const WeightRef& ref, double factor, std::string_view name) override;
  Value* vector(Builder& b, const WeightRef& ref, Shape shape, double offset, double factor,
                std::string_view name) override;

 private:
  Weights& from_;
  std::vector<NamedWeight>& list_;
  int64_t layer_ = -1;
};

}  // namespace anemone::lower
