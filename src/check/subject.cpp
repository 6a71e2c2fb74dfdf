#include "check/subject.h"

#include <algorithm>

#include "mil/stored.h"
#include "placement/support.h"

namespace anemone {
namespace {

// The operation is one for the engine: it is known to be taken there, and it is no mere keeper of a state.
bool engine_work(const placement::PlacedOp& op) {
  return op.cost[placement::Processor::ane].supported && !op.unknown() && !placement::is_state_op(*op.op) &&
         op.op->type != "cast" && op.op->type != "identity";
}

}  // namespace

FunctionIndex::FunctionIndex(const Function& function, const placement::PlacedFunction& placed)
    : outputs_(function.body.outputs.begin(), function.body.outputs.end()) {
  for_each_op(function.body, [&](const Operation& op) {
    for (const Input& input : op.inputs)
      for (const Binding& binding : input.bindings)
        if (binding.value) users_[binding.value].push_back(&op);
  });
  std::unordered_map<const Operation*, const placement::PlacedOp*> by_op;
  for (const placement::PlacedOp& op : placed.ops) by_op[op.op] = &op;
  for (const placement::PlacedOp& op : placed.ops) {
    Around& here = around_[op.op];
    for (const Input& input : op.op->inputs)
      for (const Binding& binding : input.bindings) {
        if (!binding.value || !binding.value->producer) continue;
        const auto before = by_op.find(binding.value->producer);
        if (before == by_op.end()) continue;
        here.before = here.before || engine_work(*before->second) || around_[before->first].before;
      }
  }
  for (size_t i = placed.ops.size(); i-- > 0;) {
    const placement::PlacedOp& op = placed.ops[i];
    bool behind = false;
    for (const auto& output : op.op->outputs)
      for (const Operation* user : users(output.get())) {
        const auto it = by_op.find(user);
        if (it != by_op.end()) behind = behind || engine_work(*it->second) || around_[user].behind;
      }
    around_[op.op].behind = behind;
  }
}

const std::vector<const Operation*>& FunctionIndex::users(const Value* value) const {
  static const std::vector<const Operation*> kNone;
  const auto it = users_.find(value);
  return it == users_.end() ? kNone : it->second;
}

const Operation* FunctionIndex::only_user(const Operation& op) const {
  if (op.outputs.empty()) return nullptr;
  const auto& all = users(op.outputs[0].get());
  return all.size() == 1 ? all[0] : nullptr;
}

bool FunctionIndex::in_the_middle(const Operation& op) const {
  const auto it = around_.find(&op);
  return it != around_.end() && it->second.before && it->second.behind;
}

bool FunctionIndex::is_output(const Value* value) const {
  return std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end();
}

bool is_readable(const Constant& c) {
  if (!c.type.is_tensor() || !c.type.fixed() || c.type.dtype == DType::string || c.is_strings()) return false;
  if (const auto* blob = std::get_if<Blob>(&c.data)) return blob->file != nullptr;
  return std::holds_alternative<Constant::Bytes>(c.data);
}

bool small_model(const PackageSubject& package) {
  constexpr uint64_t kFloor = 14'000'000;
  return std::max(package.bundle.weight_bytes, package.weight_bytes) < kFloor;
}

const Value* computed_operand(const Operation& op, std::string_view param) {
  const Value* value = op.value(param);
  return value && !placement::is_constant(*value) ? value : nullptr;
}

std::vector<float> constant_values(const Constant* constant, int64_t most) {
  if (!constant || !is_readable(*constant) || constant->type.size() > most) return {};
  const auto stored = stored_constant(*constant);
  if (constant->type.is_float()) return decode_floats(*stored);
  const std::vector<int32_t> ints = decode_ints(*stored);
  return {ints.begin(), ints.end()};
}

std::optional<double> scalar_constant(const Operation& op, std::string_view param) {
  const Input* input = op.input(param);
  if (!input || input->bindings.size() != 1) return std::nullopt;
  const std::vector<float> values = constant_values(input->bindings[0].constant(), 1);
  if (values.size() != 1) return std::nullopt;
  return values[0];
}

}  // namespace anemone
