#include "placement/function_plan.h"

#include "base/error.h"
#include "mil/verify.h"
#include "placement/op_view.h"

namespace anemone::placement {
namespace {

std::vector<OpCost> costs_of(const FunctionPlan& plan) {
  std::vector<OpCost> costs;
  costs.reserve(plan.ops.size());
  for (const PlannedOp& op : plan.ops) costs.push_back(op.cost);
  return costs;
}

void find_segments(FunctionPlan& plan) {
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    PlannedOp& op = plan.ops[i];
    if (plan.segments.empty() || plan.segments.back().ane != op.on_ane())
      plan.segments.push_back({op.on_ane(), i, i, 0});
    Segment& segment = plan.segments.back();
    segment.last = i + 1;
    segment.ms += op.cost[op.chosen].ms;
    op.segment = static_cast<int>(plan.segments.size()) - 1;
  }
  for (const Segment& segment : plan.segments) {
    if (segment.ane) plan.switches += 2;
    (segment.ane ? plan.ane_ms : plan.cpu_ms) += segment.ms;
    if (segment.ane) plan.ane_ops += segment.last - segment.first;
  }
}

}  // namespace

const PlannedOp* FunctionPlan::find(std::string_view name) const {
  for (const PlannedOp& op : ops)
    if (op.op->name() == name) return &op;
  for (const PlannedOp& op : ops)
    for (const auto& output : op.op->outputs)
      if (output->name == name) return &op;
  return nullptr;
}

FunctionPlan plan_function(const Function& function, const Chip& chip) {
  FunctionPlan plan;
  std::vector<OpCost> costs;
  for (const auto& op : function.body.ops) {
    if (is_data(*op)) continue;
    costs.push_back(estimate(*op, chip));
    plan.ops.push_back({op.get(), costs.back(), Backend::classic_cpu, 0});
    if (!costs.back().extrapolated.empty()) ++plan.extrapolated;
  }
  const std::vector<Backend> path = cheapest_path(costs);
  for (size_t i = 0; i < path.size(); ++i) plan.ops[i].chosen = path[i];
  find_segments(plan);
  plan.ms = path_cost(costs, path);
  return plan;
}

std::optional<double> price_of_moving(const FunctionPlan& plan, size_t op) {
  const std::vector<OpCost> costs = costs_of(plan);
  const std::vector<Backend> other =
      cheapest_path(costs, {.op = op, .on_ane = !plan.ops[op].on_ane(), .some_ane = false});
  if (other.empty()) return std::nullopt;
  return path_cost(costs, other) - plan.ms;
}

std::optional<double> missing_savings(const FunctionPlan& plan) {
  if (plan.ane_ops > 0) return std::nullopt;
  const std::vector<OpCost> costs = costs_of(plan);
  const std::vector<Backend> with = cheapest_path(costs, {.op = {}, .on_ane = true, .some_ane = true});
  if (with.empty()) return std::nullopt;
  return path_cost(costs, with) - plan.ms;
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
