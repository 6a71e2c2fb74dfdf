// What the lowering makes of a stage's part of a model: the weights by name, and the numbers of the graph that are the
// model's. It builds the functions once more, without weights.
//     const ExpectedStage expected = expected_stage(stage, function, model, info);
//     for (const NamedWeight& w : expected.weights) …
#pragma once

#include <string>
#include <vector>

#include "bundle/bundle_info.h"
#include "families/model.h"

namespace anemone {

struct ExpectedStage {
  // Numbers of the graph that are no weights: an epsilon, a scale, a cap, the numbers of rows.
  struct Number {
    std::string name;
    std::vector<float> values;
  };

  std::vector<NamedWeight> weights;
  std::vector<Number> numbers;
  std::vector<Tap> taps;
};

// The stage's layers are layers of the model. Its functions differ in sizes alone, but those of a stage of experts have
// weights of their own.
ExpectedStage expected_stage(const Stage& stage, const StageFunction& function, const Model& model,
                             const BundleInfo& info);

}  // namespace anemone
