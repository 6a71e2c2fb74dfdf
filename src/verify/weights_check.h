// Every weight of a bundle against the checkpoint it was made from.
//     const auto bundle = Bundle::open("bundle", cpu_backend());
//     for (const WeightFigures& w : check_weights(checkpoint, model, *bundle, pool)) if (!w.problem.empty()) …
// Which weight belongs to which tensor is what the lowering says of the functions that it builds
// (FunctionInterface::weights): it builds them once more, without weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "families/model.h"
#include "runtime/bundle.h"
#include "verify/expert_weights.h"

namespace anemone {

struct WeightFigures {
  std::string name;     // in the package: "l0_q_weight"
  std::string tensor;   // in the checkpoint: "blk.0.attn_q.weight", with its rows where it is a part
  std::string package;  // the file
  std::string form;     // how it is stored: "fp16", "int8", "lut4" …
  int64_t count = 0;    // elements
  double sqnr = 0;      // dB: 10 log10(sum of squares / sum of squared differences); capped at 200
  double gain = 1;      // what the stored values must be multiplied by to fit best
  double max_abs = 0;   // largest difference
  std::string problem;  // empty: as it should be
  std::optional<OtherExpert> other;  // whose weights these are, where they are another expert's
};

// What is asked of a weight, by how it is stored: the least SQNR, and a gain of 1. fp16 weights are also held to
// their rounding, element by element.
double least_sqnr(const std::string& form);

// What the worst weight has wrong, in words: which one, where, and whether two experts are swapped.
std::string worst_text(const std::vector<WeightFigures>& weights);

// Worst first. `progress` hears what part is done; false cancels (an Error).
std::vector<WeightFigures> check_weights(const Checkpoint& checkpoint, const Model& model,
                                         const Bundle& bundle, ThreadPool& pool,
                                         const std::function<bool(double)>& progress = {});

}  // namespace anemone
