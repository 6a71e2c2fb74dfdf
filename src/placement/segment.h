// Segmentation: the choice of a processor for every operation, as Core ML makes it: the cheapest path through
// the operations in program order, where every change of processor costs 0.125 ms and the program begins and
// ends on the CPU. So a stretch on the engine must save 0.25 ms of estimates wherever it lies.
//     std::vector<Processor> chosen = cheapest_path(costs);
//     path_cost(costs, chosen);                        // ms, switches included
// On a tie an operation stays on the engine; segment.cpp says what is known about ties.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "placement/cost.h"

namespace anemone::placement {

inline constexpr double kSwitchMs = 0.125;

struct PathRule {
  // Operation `op` must be on that device (by its place in `costs`).
  std::optional<size_t> op;
  bool on_ane = true;
  // At least one operation must be on the engine.
  bool some_ane = false;
};

// Empty when the rule cannot be kept.
std::vector<Processor> cheapest_path(std::span<const OpCost> costs, const PathRule& rule = {});

double path_cost(std::span<const OpCost> costs, std::span<const Processor> path);

}  // namespace anemone::placement
