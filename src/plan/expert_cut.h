// ExpertCut: how a model is cut where its experts are calls of their own. Every layer with experts is cut at its
// router: the function before ends there, the host chooses, and the function behind begins with what the experts add.
// So the calls of a token are one more than the layers, and those of the experts that it uses.
//     for (const ExpertCut& cut : cut_at_experts(model, 0, n, bytes_of_weight, {.bytes = 250'000'000}, 1)) …
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/shards.h"

namespace anemone {

// How experts are computed.
enum class ExpertWay {
  all,     // all of them, in the function of their layer
  host,    // one call for each that a token uses
  groups,  // several in one call, for each group that has one
};
std::string_view way_name(ExpertWay way);

// Layers, or some of the experts of one layer: one package.
struct ExpertCut {
  size_t first = 0, last = 0;                 // layers [first, last); of experts, theirs
  bool behind_experts = false;                // the first layer begins behind its experts
  bool at_router = false;                     // the last one ends at its router
  int64_t first_expert = 0, last_expert = 0;  // [first, last); none: layers
  uint64_t bytes = 0;                         // of weights

  bool has_experts() const { return last_expert > first_expert; }
};

// Layers [first, last) of a model in the order of their computation. A package of experts holds whole groups.
std::vector<ExpertCut> cut_at_experts(const Model& model, size_t first, size_t last, const WeightBytes& bytes,
                                      const ShardLimits& limits, int64_t group);

// The sizes of the calls that experts get their tokens in, ascending: one, and twice as many as a call of several
// tokens sends to a group on average.
std::vector<int64_t> expert_slots(const Experts& experts, int64_t group, const std::vector<int64_t>& tokens);

// How many groups of a layer one token uses on average, where every choice is as likely as any other.
double groups_used(const Experts& experts, int64_t group);

}  // namespace anemone
