#include "mil/passes/rewriter.h"

#include <algorithm>

#include "mil/passes/fold_constants.h"

namespace anemone {

Rewriter::Rewriter(Function& function) : function_(function), builder_(function) {
  count_uses(function.body);
}

void Rewriter::count_uses(const Block& block) {
  for (const auto& op : block.ops) {
    for (const Input& input : op->inputs)
      for (const Binding& binding : input.bindings)
        if (binding.value) ++uses_[binding.value];
    for (const auto& inner : op->blocks) count_uses(*inner);
  }
  for (const Value* output : block.outputs) {
    ++uses_[output];
    outputs_.insert(output);
  }
}

int64_t Rewriter::uses(const Value* value) const {
  const auto it = uses_.find(value);
  return it == uses_.end() ? 0 : it->second;
}

Value* Rewriter::current(Value* value) const {
  for (auto it = replaced_.find(value); it != replaced_.end(); it = replaced_.find(value)) value = it->second;
  return value;
}

void Rewriter::rebind(Operation& op) const {
  for (Input& input : op.inputs)
    for (Binding& binding : input.bindings)
      if (binding.value) binding.value = current(binding.value);
}

int64_t Rewriter::run(const Visit& visit) {
  replaced_count_ = 0;
  rewrite(function_.body, builder_, visit);
  remove_dead_ops(function_);
  return replaced_count_;
}

void Rewriter::rewrite(Block& block, Builder& builder, const Visit& visit) {
  std::vector<std::unique_ptr<Operation>> old = std::move(block.ops);
  block.ops.clear();
  for (auto& op : old) {
    rebind(*op);
    for (const auto& inner : op->blocks) {
      Builder nested(builder, *inner);
      rewrite(*inner, nested, visit);
    }
    here_ = &builder;
    block_ = &block;
    mark_ = block.ops.size();
    if (op->type != "const" && visit(*op)) {
      ++replaced_count_;
      gone_.push_back(std::move(op));
    } else {
      block.ops.push_back(std::move(op));
    }
  }
  for (Value*& output : block.outputs) output = current(output);
}

Value* Rewriter::emit(std::string_view type, Args args, std::string_view name) {
  Value* out = here_->op(type, args, name);
  for (const auto& [param, arg] : args)
    if (const auto* value = std::get_if<Value*>(&arg); value && *value) ++uses_[*value];
  fold_operation(*block_, block_->ops.size() - 1, function_.opset);
  return out;
}

void Rewriter::take_name(Value* value, Value* from) {
  if (is_output(value) || is_output(from)) return;
  if (value->producer->outputs.size() != 1 || from->producer->outputs.size() != 1) return;
  const std::string name = from->name;
  builder_.rename(from, name + "_" + from->producer->type);
  builder_.rename(value, name);
}

bool Rewriter::replace(Operation& op, Value* by) {
  if (op.outputs.size() != 1 || !by) return false;
  Value* old = op.outputs[0].get();
  const auto first = block_->ops.begin() + static_cast<std::ptrdiff_t>(mark_);
  const bool fresh =
      std::any_of(first, block_->ops.end(), [&](const auto& made) { return made.get() == by->producer; });
  if (is_output(old) && (!fresh || by->constant())) {
    const bool here = std::any_of(block_->ops.begin(), block_->ops.end(),
                                  [&](const auto& made) { return made.get() == by->producer; });
    if (!here || by->constant() || is_output(by) || by->producer->outputs.size() != 1 || uses(by) != 1)
      return false;
  }
  if (fresh || is_output(old)) {
    std::swap(by->name, old->name);
    if (by->producer->outputs.size() == 1)
      by->producer->attributes.insert_or_assign("name", Constant::text(by->name));
  }
  if (is_output(old)) outputs_.insert(by);
  uses_[by] += uses(old);
  replaced_.emplace(old, by);
  return true;
}

Operation* made_by(const Value* value, std::string_view type) {
  return value && value->producer && value->producer->type == type ? value->producer : nullptr;
}

std::optional<float> one_number(const Value* value) {
  const auto numbers = known_floats(value, 1);
  return numbers && numbers->size() == 1 ? std::optional((*numbers)[0]) : std::nullopt;
}

std::optional<std::vector<int64_t>> known_integers(const Operation& op, std::string_view param) {
  const Input* input = op.input(param);
  return input && input->bindings.size() == 1 ? known_ints(input->bindings[0].constant()) : std::nullopt;
}

}  // namespace anemone
