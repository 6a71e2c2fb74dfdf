#include "placement/segment.h"

#include <limits>

namespace anemone::placement {
namespace {

// Credited per operation on the engine, so that a tie ends there. Far below any difference of estimates.
//
// Core ML breaks ties by the rounding of its sums, and their order is not known. What was tried on the study's 224
// programs: this rule is exact for 192. Sums in doubles of 0.125 + Σ over segments of (operations in order, + 0.125
// for segments on the engine), engine on equality, are exact for 205. That is not used: the ties are only about 58
// distinct cases, and a slightly different order of the same sums gives 166. No bracketing of the sums explains all
// ties: the best one for chains of nine operations is right for 26 of 28 distinct chains.
constexpr double kTie = 1e-9;
constexpr double kNever = std::numeric_limits<double>::infinity();

// A state of the search: the processor of the last operation, and whether the engine was used so far.
constexpr size_t kStates = 6;
constexpr size_t state_of(Processor processor, bool used) {
  return static_cast<size_t>(processor) * 2 + used;
}

struct Path {
  double cost = kNever;
  uint8_t from = 0;
};

double enter(const Path& before, size_t state, Processor to) {
  const auto from = static_cast<Processor>(state / 2);
  return before.cost + (from == to ? 0 : kSwitchMs);
}

bool allowed(const PathRule& rule, size_t op, Processor processor) {
  return rule.op != op || rule.on_ane == (processor == Processor::ane);
}

}  // namespace

std::vector<Processor> cheapest_path(std::span<const OpCost> costs, const PathRule& rule) {
  std::vector<std::array<Path, kStates>> steps(costs.size() + 1);
  // Before the first operation the program is on the CPU, whichever library.
  steps[0][state_of(Processor::classic_cpu, false)].cost = 0;
  steps[0][state_of(Processor::bnns, false)].cost = 0;
  for (size_t i = 0; i < costs.size(); ++i)
    for (const Processor to : kProcessors) {
      const Offer& offer = costs[i][to];
      if (!offer.supported || !allowed(rule, i, to)) continue;
      for (size_t s = 0; s < kStates; ++s) {
        if (steps[i][s].cost == kNever) continue;
        const double cost = enter(steps[i][s], s, to) + offer.ms - (to == Processor::ane ? kTie : 0);
        Path& best = steps[i + 1][state_of(to, s % 2 || to == Processor::ane)];
        if (cost < best.cost) best = {cost, static_cast<uint8_t>(s)};
      }
    }
  size_t state = kStates;
  double least = kNever;
  for (size_t s = 0; s < kStates; ++s) {
    const bool on_ane = static_cast<Processor>(s / 2) == Processor::ane;
    const double cost = steps.back()[s].cost + (on_ane ? kSwitchMs : 0);
    if (cost < least && (s % 2 || !rule.some_ane)) {
      least = cost;
      state = s;
    }
  }
  if (state == kStates) return {};
  std::vector<Processor> path(costs.size());
  for (size_t i = costs.size(); i-- > 0;) {
    path[i] = static_cast<Processor>(state / 2);
    state = steps[i + 1][state].from;
  }
  return path;
}

double path_cost(std::span<const OpCost> costs, std::span<const Processor> path) {
  double total = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    total += costs[i][path[i]].ms;
    const bool first = i == 0;
    if (first ? path[i] == Processor::ane : path[i] != path[i - 1]) total += kSwitchMs;
  }
  return total + (!path.empty() && path.back() == Processor::ane ? kSwitchMs : 0);
}

}  // namespace anemone::placement
