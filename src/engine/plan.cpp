#include "engine/plan.h"

#include <algorithm>
#include <climits>
#include <unordered_map>

#include "base/error.h"
#include "engine/kernel_choice.h"
#include "engine/layers.h"
#include "engine/place.h"
#include "engine/unroll.h"
#include "engine/widen_states.h"
#include "mil/fold.h"
#include "mil/verify.h"

namespace anemone {
namespace {

constexpr int kToEnd = INT_MAX;

class PlanBuilder {
 public:
  PlanBuilder(const FunctionInfo& info, const Block& block, size_t begin, const Cells& cells,
              const PlanOptions& options)
      : info_(info),
        block_(block),
        begin_(begin),
        cells_(cells),
        options_(options),
        plan_(std::make_unique<Plan>()) {}

  // Without the operations that `layers` leaves out: unroll() makes their steps. Empty: it cannot.
  std::unique_ptr<const Plan> make(std::shared_ptr<const Layers> layers) {
    layers_ = std::move(layers);
    plan_->next = add_operations();
    plan_->values = info_.values();
    const std::set<int> ids = staying();
    std::vector<int> places = std::move(places_);
    if (options_.fuse) {
      PlanEdit edit(*plan_, info_, block_, begin_, ids, options_.half, options_.fast);
      fuse_steps(edit);
      std::vector<int> from = edit.finish();
      for (int& step : from) step = places[static_cast<size_t>(step)];
      places = std::move(from);
    }
    if (layers_ && (plan_->next < block_.ops.size() || !unroll(*plan_, places, layers_))) return nullptr;
    if (plan_->next > begin_) widen_states(*plan_, cells_, ids, block_.ops[plan_->next - 1].get());
    place_values(*plan_, ids);
    return std::move(plan_);
  }

 private:
  // A value that this plan computes.
  struct Made {
    Type type;
    const void* known = nullptr;  // its elements, when folded
  };

  // Up to the first that cannot be planned yet.
  size_t add_operations() {
    made_.reserve(block_.ops.size() - begin_);
    plan_->steps.reserve((block_.ops.size() - begin_) / 2);
    for (size_t i = begin_; i < block_.ops.size(); ++i) {
      const Operation& op = *block_.ops[i];
      if (op.type == "const" || op.type.starts_with("constexpr_") || (layers_ && layers_->left_out(i)))
        continue;
      if (is_dynamic(op)) return i;
      try {
        if (!add(op, static_cast<int>(i))) return i;
      } catch (Error& e) {
        e.within(op_place(op));
        throw;
      }
      places_.resize(plan_->steps.size(), layers_ ? layers_->place(i) : 0);
    }
    return block_.ops.size();
  }

  // The number of a value that an operation looks at.
  int id_of(const Value* value) const {
    const int id = info_.id(value);
    return layers_ ? layers_->planned(id) : id;
  }

  const Type& type_of(int id) const {
    if (const auto it = made_.find(id); it != made_.end()) return it->second.type;
    const Cell& cell = cells_[static_cast<size_t>(id)];
    if (cell.type) return *cell.type;
    if (info_.is_constant(id)) return info_.value(id)->type;
    throw errorf("the value '{}' is used before it is computed", info_.value(id)->name);
  }

  // The elements of a value where they are known now.
  const void* known(int id) const {
    if (const auto it = made_.find(id); it != made_.end()) return it->second.known;
    if (info_.is_constant(id)) return info_.dense(id);
    const Cell& cell = cells_[static_cast<size_t>(id)];
    return cell.known ? cell.data : nullptr;
  }

  // Adds one operation; false when its result cannot be typed yet.
  bool add(const Operation& op, int index) {
    if (op.type == "read_state") return add_read_state(op, index);
    if (op.type == "write_state") return add_write_state(op);
    OpBinding binding = OpBinding::bind(op, info_.function().opset,
                                        [this](const Value* v) -> const Type& { return type_of(id_of(v)); });
    std::vector<Source> in = sources(binding);
    std::vector<const void*> data(in.size(), nullptr);
    bool all_known = true;
    for (size_t i = 0; i < in.size(); ++i) {
      data[i] = in[i].fixed ? in[i].fixed : in[i].id >= 0 ? known(in[i].id) : nullptr;
      const bool text = binding.operands[i].type.dtype == DType::string;
      if (!data[i] && !text) all_known = false;
    }
    Types types = binding.op->infer(OpCall(binding, data));
    if (types.size() != op.outputs.size())
      throw errorf("'{}' gives {} values", op.type, types.size())
          .found(fmt::format("{} names", op.outputs.size()));
    for (const Type& type : types)
      if (!type.fixed()) return false;
    check_declared(op, types);
    if ((all_known || binding.op->value_from_type) && !binding.op->random && fold(op, binding, data, types))
      return true;
    if (!binding.op->view_of.empty() && add_view(op, binding, data, types)) return true;
    void (*kernel)(const OpCall&) = choose_kernel(binding, types);
    emit({RunOp{std::move(binding), kernel}, std::move(in), std::move(types)}, op);
    return true;
  }

  void check_declared(const Operation& op, const Types& types) const {
    for (size_t i = 0; i < types.size(); ++i)
      if (!may_be_declared(types[i], op.outputs[i]->type))
        throw errorf("the declared type of '{}' is not what its inputs give", op.outputs[i]->name)
            .found(op.outputs[i]->type.text())
            .expected(types[i].text());
  }

  // Where the operands come from; weights that the kernel cannot read as stored are loaded by a step of their
  // own.
  std::vector<Source> sources(OpBinding& binding) {
    std::vector<Source> in(binding.operands.size());
    const auto& params = binding.version->params;
    for (size_t p = 0; p < params.size(); ++p)
      for (int k = 0; k < binding.ranges[p].count; ++k) {
        const auto i = static_cast<size_t>(binding.ranges[p].begin + k);
        Operand& operand = binding.operands[i];
        const Value* value = binding.sources[i] ? binding.sources[i]->value : nullptr;
        if (!value) {
          in[i].fixed = operand.constant ? info_.dense(*operand.constant) : nullptr;
          continue;
        }
        const int id = id_of(value);
        if (!info_.is_constant(id)) {
          in[i].id = id;
          continue;
        }
        operand.constant = value->constant();
        if (operand.type.dtype == DType::string || !operand.type.is_tensor()) continue;
        if ((params[p].flags & kStored) && operand.type.size() > kSmallElements) {
          operand.stored = info_.stored(id);
          continue;
        }
        in[i] = fixed(id);
      }
    return in;
  }

  // A constant for an operation that wants plain elements.
  Source fixed(int id) {
    if (const void* elements = info_.dense(id)) return {-1, elements, id};
    return {load(id), nullptr};
  }

  // A weight used by an operation that wants plain elements: expanded into the arena just before its first
  // use.
  int load(int id) {
    if (made_.contains(id)) return id;
    const auto weight = info_.stored(id);
    made_.emplace(id, Made{weight->type()});
    plan_->steps.push_back({LoadWeight{weight}, {}, {weight->type()}, {id}, info_.value(id)->producer});
    return id;
  }

  bool fold(const Operation& op, const OpBinding& binding, std::span<const void* const> data,
            const Types& types) {
    auto results = fold_call(binding, data, types, kSmallElements);
    if (!results) return false;
    for (size_t i = 0; i < types.size(); ++i) {
      const int id = info_.id(op.outputs[i].get());
      plan_->folded.push_back({id, types[i], std::move((*results)[i].data)});
      made_.emplace(id, Made{types[i], plan_->folded.back().data.data()});
    }
    return true;
  }

  // The output lies in the input's memory: as a whole, or as one stretch of it.
  bool add_view(const Operation& op, const OpBinding& binding, std::span<const void* const> data,
                const Types& types) {
    const auto& params = binding.version->params;
    for (size_t p = 0; p < params.size(); ++p) {
      if (params[p].name != binding.op->view_of) continue;
      const Binding* source = binding.sources[binding.ranges[p].begin];
      if (!source || !source->value || !types[0].is_tensor()) return false;
      const int of = id_of(source->value);
      if (info_.is_constant(of)) return false;
      int64_t offset = 0;
      if (binding.op->view_at) {
        const auto at = binding.op->view_at(OpCall(binding, data));
        if (!at) return false;
        offset = *at;
      }
      alias(info_.id(op.outputs[0].get()), of, types[0], offset);
      return true;
    }
    return false;
  }

  void alias(int id, int of, const Type& type, int64_t offset = 0) {
    Made made{type, nullptr};
    const auto it = made_.find(of);
    if (it != made_.end() && it->second.known)
      made.known = static_cast<const uint32_t*>(it->second.known) + offset;
    made_.emplace(id, std::move(made));
    plan_->aliases.push_back({plan_->steps.size(), {id, of, type, offset}});
  }

  // A read sees the state in place when no write comes before the last look at what was read; else it is a
  // copy.
  bool add_read_state(const Operation& op, int index) {
    const Value* state = op.value("input");
    if (!state || state->type.kind != Type::Kind::state) throw errorf("'input' must be a state");
    if (op.outputs.size() != 1) throw errorf("'read_state' gives one value");
    const int id = info_.id(op.outputs[0].get()), state_id = info_.id(state);
    if (!compatible(op.outputs[0]->type, state->type.content()))
      throw errorf("'{}' does not have the state's type", op.outputs[0]->name)
          .found(op.outputs[0]->type.text())
          .expected(state->type.content().text());
    if (last_look(id, index) < next_write(state, index)) {
      alias(id, state_id, state->type.content());
      return true;
    }
    emit({ReadState{}, {{state_id, nullptr}}, {state->type.content()}}, op);
    return true;
  }

  bool add_write_state(const Operation& op) {
    const Value* state = op.value("input");
    if (!state || state->type.kind != Type::Kind::state) throw errorf("'input' must be a state");
    const Input* data = op.input("data");
    if (!data || data->bindings.size() != 1 || !data->bindings[0].value)
      throw errorf("'data' must be a value");
    const int id = id_of(data->bindings[0].value);
    if (!compatible(type_of(id), state->type.content()))
      throw errorf("'data' does not have the state's type")
          .found(type_of(id).text())
          .expected(state->type.content().text());
    const Source source = info_.is_constant(id) ? fixed(id) : Source{id, nullptr};
    emit({WriteState{}, {source, {info_.id(state), nullptr}}, {state->type.content()}}, op);
    return true;
  }

  // The last operation of the block that looks at a value or at a view of it; kToEnd when it leaves the
  // block.
  int last_look(int id, int index) const {
    std::vector<int> group{id};  // the value and its views
    int last = index;
    const NumberedBlock& info = info_.block(block_);
    for (size_t member = 0; member < group.size(); ++member)
      for (const auto& [value, user] : info.users(group[member])) {
        if (user <= index) continue;
        const Operation& op = *block_.ops[static_cast<size_t>(user)];
        if (!op.blocks.empty()) return kToEnd;
        last = std::max(last, user);
        const Op* schema = find_op(op.type);
        if (schema && schema->view_of.empty()) continue;
        for (const auto& output : op.outputs)
          if (const int view = info_.id(output.get()); std::ranges::find(group, view) == group.end())
            group.push_back(view);
      }
    for (const int member : group)
      if (std::ranges::find(info.outputs, member) != info.outputs.end() ||
          options_.taps.contains(info_.value(member)->name))
        return kToEnd;
    return last;
  }

  int next_write(const Value* state, int index) const {
    for (const auto& [value, user] : info_.block(block_).users(info_.id(state))) {
      const Operation& op = *block_.ops[static_cast<size_t>(user)];
      if (user > index && (op.type == "write_state" || !op.blocks.empty())) return user;
    }
    // Behind a function's last operation nothing is written; a nested block may run again.
    return &block_ == &info_.function().body ? INT_MAX : static_cast<int>(block_.ops.size()) - 1;
  }

  void emit(Step step, const Operation& op) {
    step.operation = &op;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const int id = info_.id(op.outputs[i].get());
      step.out.push_back(id);
      made_.emplace(id, Made{step.types[i]});
    }
    plan_->steps.push_back(std::move(step));
  }

  // What is used behind the plan, or leaves the block.
  std::set<int> staying() const {
    std::set<int> ids(info_.block(block_).outputs.begin(), info_.block(block_).outputs.end());
    for (size_t i = plan_->next; i < block_.ops.size(); ++i)
      ids.insert(info_.block(block_).uses[i].begin(), info_.block(block_).uses[i].end());
    if (!options_.taps.empty())
      for (const auto& [id, made] : made_)
        if (options_.taps.contains(info_.value(id)->name)) ids.insert(id);
    return ids;
  }

  const FunctionInfo& info_;
  const Block& block_;
  const size_t begin_;
  const Cells& cells_;
  const PlanOptions& options_;
  std::unique_ptr<Plan> plan_;
  std::shared_ptr<const Layers> layers_;
  std::unordered_map<int, Made> made_;
  std::vector<int> places_;  // of steps, in the function
};

bool is_list(const Type& type) { return type.kind == Type::Kind::list; }

}  // namespace

bool is_dynamic(const Operation& op) {
  if (!op.blocks.empty()) return true;
  for (const auto& output : op.outputs)
    if (is_list(output->type)) return true;
  for (const Input& input : op.inputs)
    for (const Binding& binding : input.bindings)
      if (binding.value && is_list(binding.value->type)) return true;
  return false;
}

std::string op_place(const Operation& op) { return fmt::format("op '{}' ({})", op.name(), op.type); }

std::unique_ptr<const Plan> make_plan(const FunctionInfo& info, const Block& block, size_t begin,
                                      const Cells& cells, const PlanOptions& options) {
  const auto builder = [&] { return PlanBuilder(info, block, begin, cells, options); };
  const bool whole = &block == &info.function().body && begin == 0 && options.taps.empty();
  if (const auto layers = whole && options.unroll ? Layers::find(info, cells) : nullptr) {
    try {
      if (auto plan = builder().make(layers)) return plan;
    } catch (const Error&) {
      // Perhaps only because layers are left out; else the error comes again, with its place.
    }
  }
  return builder().make(nullptr);
}

}  // namespace anemone
