#include "placement/placed_function.h"

#include <algorithm>

#include "base/error.h"
#include "mil/verify.h"
#include "placement/op_view.h"

namespace anemone::placement {
namespace {

std::vector<OpCost> costs_of(const PlacedFunction& placed) {
  std::vector<OpCost> costs;
  costs.reserve(placed.ops.size());
  for (const PlacedOp& op : placed.ops) costs.push_back(op.cost);
  return costs;
}

void find_segments(PlacedFunction& placed) {
  for (size_t i = 0; i < placed.ops.size(); ++i) {
    PlacedOp& op = placed.ops[i];
    const bool ane = op.chosen == Processor::ane;
    if (placed.segments.empty() || placed.segments.back().ane != ane)
      placed.segments.push_back({ane, i, i, 0, 0});
    Segment& segment = placed.segments.back();
    segment.last = i + 1;
    segment.ms += op.cost[op.chosen].ms;
    segment.unknown += op.unknown();
    op.segment = static_cast<int>(placed.segments.size()) - 1;
  }
  for (const Segment& segment : placed.segments)
    if (segment.ane) placed.switches += 2;
}

void count_devices(PlacedFunction& placed) {
  for (const PlacedOp& op : placed.ops) {
    const Device device = op.device();
    const double ms = op.cost[op.chosen].ms;
    (device == Device::ane ? placed.ane_ms : device == Device::cpu ? placed.cpu_ms : placed.unknown_ms) += ms;
    ++(device == Device::ane ? placed.ane_ops : device == Device::cpu ? placed.cpu_ops : placed.unknown_ops);
  }
}

// Fills in what follows from the operations and their costs.
void choose(PlacedFunction& placed) {
  const std::vector<OpCost> costs = costs_of(placed);
  const std::vector<Processor> path = cheapest_path(costs);
  for (size_t i = 0; i < path.size(); ++i) {
    placed.ops[i].chosen = path[i];
    placed.extrapolated += !costs[i].extrapolated.empty();
  }
  find_segments(placed);
  count_devices(placed);
  placed.ms = path_cost(costs, path);
}

}  // namespace

Device PlacedOp::device() const {
  const bool refused = !cost[Processor::ane].supported;
  return refused ? Device::cpu : cost.probed ? device_of(chosen) : Device::unknown;
}

bool PlacedFunction::uses_ane() const {
  return std::any_of(segments.begin(), segments.end(), [](const Segment& s) { return s.ane; });
}

const PlacedOp* PlacedFunction::find(std::string_view name) const {
  for (const PlacedOp& op : ops)
    if (op.op->name() == name) return &op;
  for (const PlacedOp& op : ops)
    for (const auto& output : op.op->outputs)
      if (output->name == name) return &op;
  return nullptr;
}

PlacedFunction place_function(const Function& function, const Chip& chip) {
  PlacedFunction placed;
  for (const auto& op : function.body.ops)
    if (!is_data(*op)) placed.ops.push_back({op.get(), estimate(*op, chip), Processor::classic_cpu, 0});
  choose(placed);
  return placed;
}

std::optional<double> price_of_moving(const PlacedFunction& placed, size_t op) {
  const std::vector<OpCost> costs = costs_of(placed);
  const std::vector<Processor> other =
      cheapest_path(costs, {.op = op, .on_ane = placed.ops[op].chosen != Processor::ane, .some_ane = false});
  if (other.empty()) return std::nullopt;
  return path_cost(costs, other) - placed.ms;
}

std::optional<double> missing_savings(const PlacedFunction& placed) {
  if (placed.uses_ane()) return std::nullopt;
  const std::vector<OpCost> costs = costs_of(placed);
  const std::vector<Processor> with = cheapest_path(costs, {.op = {}, .on_ane = true, .some_ane = true});
  if (with.empty()) return std::nullopt;
  return path_cost(costs, with) - placed.ms;
}

PlacedFunction if_refused(const PlacedFunction& placed, const std::function<bool(const PlacedOp&)>& refused) {
  PlacedFunction other;
  other.ops = placed.ops;
  for (PlacedOp& op : other.ops)
    if (refused(op)) op.cost[Processor::ane].supported = false;
  choose(other);
  return other;
}

void fix_shapes(Function& function, const std::map<std::string, std::vector<int64_t>>& inputs) {
  for (const auto& input : function.inputs)
    if (const auto it = inputs.find(input->name);
        it != inputs.end() && it->second.size() == input->type.shape.size())
      input->type.shape = to_shape(it->second);
  for (const auto& op : function.body.ops) {
    if (is_data(*op) || !op->blocks.empty()) continue;
    try {
      const Types types = declared_types(*op, function.opset);
      for (size_t i = 0; i < types.size() && i < op->outputs.size(); ++i) op->outputs[i]->type = types[i];
    } catch (const Error&) {
      // A rule that does not hold here: the declared type stays.
    }
  }
}

}  // namespace anemone::placement
