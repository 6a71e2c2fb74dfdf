// Whose weights a package holds, where those of an expert are not its own.
//     if (const auto swap = other_expert(checkpoint, model, named, weights)) …   // swap->expert, swap->holds
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "families/model.h"
#include "lower/interface.h"
#include "verify/package_weights.h"

namespace anemone {

struct OtherExpert {
  int64_t layer = 0, expert = 0;  // whose weight it should be
  int64_t holds = 0;              // whose it is

  bool operator==(const OtherExpert&) const = default;
};

// `weights`: of the function where the named one should be. Nothing for a weight that is no expert's, and for one that
// is like nobody's.
std::optional<OtherExpert> other_expert(const Checkpoint& checkpoint, const Model& model,
                                        const NamedWeight& named, const PackageWeights& weights);

}  // namespace anemone
