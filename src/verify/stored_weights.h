// StoredWeights: a model's weights as a bundle stores them, so that the reference computes with the very numbers that
// the packages hold: what is left between the two is the graph.
//     auto stored = std::make_shared<const StoredWeights>(*bundle, model);
//     Reference reference(stored, as_stored(model));
// What the lowering folds into a weight (an offset, a scale) is taken out again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "mil/stored.h"
#include "reference/weights.h"
#include "runtime/bundle.h"

namespace anemone {

class ElementBound;
class PackageWeights;

class StoredWeights : public ReferenceSource {
 public:
  // Error when a package lacks a weight of its layers. `model` is the whole one; the bundle must outlive it.
  StoredWeights(const Bundle& bundle, const Model& model);
  ~StoredWeights() override;

  void read(const WeightRef& ref, int64_t begin, int64_t end, std::span<float> out) const override;
  void read_table(const WeightRef& ref, int64_t row, std::span<float> out) const override;

 private:
  // Rows [first, last) of a weight, as one constant holds them.
  struct Part {
    int64_t first = 0, last = 0;
    std::shared_ptr<const StoredTensor> stored;
    double offset = 0, factor = 1;
    std::shared_ptr<const ElementBound> form;  // of a matrix
  };

  void add_stage(size_t index, const Model& model);
  void add_function(size_t index, const StageFunction& function, const Model& model);

  const Bundle& bundle_;
  const Embedding embedding_;
  std::vector<std::unique_ptr<const PackageWeights>> packages_;
  std::map<WeightRef, std::vector<float>> numbers_;  // those that bundle.json holds
  std::map<WeightRef, std::vector<Part>> parts_;     // by the weight without its rows
};

// The model with its numbers as the packages hold them. The query's scale alone is worth it: packages have it in half,
// and softmax magnifies what rounding does to large scores.
Model as_stored(Model model);

}  // namespace anemone
