// WayCost: what a token of a model with experts costs in each of the ways to compute them.
//     for (const WayCost& w : expert_costs(model, options, work)) …          // all, host, groups
//     fastest(costs).way;                                                    // what `convert --experts auto` takes
// The sums: a call of the layers for every cut, one for every expert (or group) that a token uses on average, one for
// every piece of the head; and the bytes that these calls read.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/expert_cut.h"
#include "plan/planner.h"

namespace anemone {

// `work` has the cache and the hidden size; weights and calls are counted here. Without experts: nothing.
std::vector<WayCost> expert_costs(const Model& model, const ModelPlanOptions& options, const TokenWork& work);
const WayCost& fastest(const std::vector<WayCost>& costs);

// Bytes of the packages of a model that is cut at its experts: weights, programs, manifests.
uint64_t cut_package_bytes(const Model& model, const std::vector<ExpertCut>& cuts,
                           const StorageForm& precision, int64_t group);

}  // namespace anemone
