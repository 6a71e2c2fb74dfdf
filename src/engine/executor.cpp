#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "engine/fused.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

constexpr size_t kMostPlans = 256;
constexpr size_t kMostArenas = 64;
constexpr int64_t kGrain = 1 << 14;

std::string key_of(const Block& block, size_t begin, std::span<const int> ids, const Cells& cells) {
  std::string key = fmt::format("{}/{}", static_cast<const void*>(&block), begin);
  for (const int id : ids) {
    const Cell& cell = cells[static_cast<size_t>(id)];
    if (!cell.type) continue;
    key += fmt::format("|{}:{}", id, cell.type->text());
    if (cell.known && cell.type->is_tensor())
      key.append(static_cast<const char*>(cell.data), static_cast<size_t>(cell.type->size()) * 4);
  }
  return key;
}

bool finite(const float* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(data[i])) return false;
  return true;
}

// Memory of its own for one value.
struct Owned {
  Type type;
  Buffer memory;
};

}  // namespace

const std::vector<int>& PlanCache::live_in(const FunctionInfo& info, const Block& block, size_t begin) {
  const auto [it, fresh] = live_in_.try_emplace({&block, begin});
  if (!fresh) return it->second;
  std::vector<bool> used(static_cast<size_t>(info.values()));
  const auto mark = [&](std::span<const int> ids) {
    for (const int id : ids) used[static_cast<size_t>(id)] = true;
  };
  mark(info.block(block).outputs);
  for (size_t i = begin; i < block.ops.size(); ++i) mark(info.block(block).uses[i]);
  for (size_t i = begin; i < block.ops.size(); ++i)
    for (const auto& output : block.ops[i]->outputs) used[static_cast<size_t>(info.id(output.get()))] = false;
  for (int id = 0; id < info.values(); ++id)
    if (used[static_cast<size_t>(id)] && !info.is_constant(id)) it->second.push_back(id);
  return it->second;
}

std::shared_ptr<const Plan> PlanCache::find_or_make(const FunctionInfo& info, const Block& block,
                                                    size_t begin, const Cells& cells,
                                                    const PlanOptions& options) {
  std::lock_guard lock(mutex_);
  const std::string key = key_of(block, begin, live_in(info, block, begin), cells);
  if (const auto it = plans_.find(key); it != plans_.end()) return it->second;
  std::shared_ptr<const Plan> plan = make_plan(info, block, begin, cells, options);
  if (order_.size() == kMostPlans) {
    plans_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(key);
  return plans_[key] = std::move(plan);
}

Executor::Executor(const FunctionInfo& info, PlanCache& cache, ThreadPool& pool,
                   const PredictOptions& options)
    : info_(info),
      cache_(cache),
      pool_(pool),
      plan_options_{.taps = {options.taps.begin(), options.taps.end()},
                    .half = options.arithmetic == Arithmetic::fp16},
      half_(options.arithmetic == Arithmetic::fp16),
      cells_(static_cast<size_t>(info.values())) {}

void Executor::set_input(int id, const Type* type, void* data, StateBounds* bounds) {
  cells_[static_cast<size_t>(id)] = {type, data, false, bounds, nullptr, nullptr};
}

uint64_t Executor::arena_bytes() const {
  uint64_t sum = 0;
  for (const auto& [plan, held] : arenas_) sum += held.second.size();
  return sum;
}

void Executor::execute() {
  fault_.reset();
  // Nothing of an earlier call may be seen: its inputs are gone.
  std::vector<bool> given(cells_.size(), false);
  for (const auto& input : info_.function().inputs) given[static_cast<size_t>(info_.id(input.get()))] = true;
  for (size_t i = 0; i < cells_.size(); ++i)
    if (!given[i]) cells_[i] = {};
  in_use_.clear();
  drop_idle_arenas();
  execute(info_.function().body);
}

// Shapes without end do not fill the memory.
void Executor::drop_idle_arenas() {
  if (arenas_.size() <= kMostArenas) return;
  std::erase_if(arenas_, [&](const auto& entry) {
    return std::find(in_use_.begin(), in_use_.end(), entry.first) == in_use_.end();
  });
}

// A block that may run again, for other shapes: nothing of the run before is seen. Its results lie in arenas
// that hold until the next one is run.
void Executor::execute_nested(const Block& block) {
  for (const auto& op : block.ops)
    for (const auto& output : op->outputs) cells_[static_cast<size_t>(info_.id(output.get()))] = {};
  const size_t outer = in_use_.size();
  drop_idle_arenas();
  execute(block);
  in_use_.resize(outer);
}

void Executor::execute(const Block& block) {
  size_t next = 0;
  while (next < block.ops.size()) {
    const std::shared_ptr<const Plan> plan = cache_.find_or_make(info_, block, next, cells_, plan_options_);
    auto& [held, arena] = arenas_[plan.get()];
    held = plan;
    in_use_.push_back(plan.get());
    if (arena.size() < static_cast<uint64_t>(plan->arena_bytes))
      arena = Buffer(static_cast<uint64_t>(plan->arena_bytes));
    if (cells_.size() < static_cast<size_t>(plan->values)) cells_.resize(static_cast<size_t>(plan->values));
    for (const Plan::Place& p : plan->places)
      cells_[static_cast<size_t>(p.id)] = {&p.type, arena.data() + p.offset};
    for (const Plan::Folded& f : plan->folded)
      cells_[static_cast<size_t>(f.id)] = {&f.type, const_cast<uint32_t*>(f.data.data()), true};
    run_plan(*plan);
    next = plan->next;
    if (next == block.ops.size()) break;
    const Operation& op = *block.ops[next++];
    try {
      if (op.type == "cond")
        run_cond(op);
      else if (op.type == "while_loop")
        run_while(op);
      else
        run_dynamic(op);
    } catch (Error& e) {
      if (op.blocks.empty()) e.within(op_place(op));
      throw;
    }
  }
}

void Executor::run_plan(const Plan& plan) {
  auto alias = plan.aliases.begin();
  const auto take_aliases = [&](size_t step) {
    for (; alias != plan.aliases.end() && alias->first <= step; ++alias) {
      Cell& cell = cells_[static_cast<size_t>(alias->second.id)];
      cell = cells_[static_cast<size_t>(alias->second.of)];
      cell.type = &alias->second.type;
      if (cell.data) cell.data = static_cast<uint32_t*>(cell.data) + alias->second.offset;
    }
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    take_aliases(i);
    try {
      run_step(plan.steps[i]);
    } catch (Error& e) {
      e.within(op_place(*plan.steps[i].operation));
      throw;
    }
  }
  take_aliases(plan.steps.size());
}

void Executor::run_step(const Step& step) {
  const auto at = [&](const Source& s) { return s.fixed ? s.fixed : cells_[static_cast<size_t>(s.id)].data; };
  const auto bytes = [&] { return static_cast<size_t>(step.types[0].size()) * 4; };
  switch (step.kind) {
    case Step::Kind::kernel: return run_kernel(step);
    case Step::Kind::load_weight: {
      auto* out = static_cast<uint32_t*>(cells_[static_cast<size_t>(step.out[0])].data);
      return pool_.parallel_for(step.types[0].size(), kGrain, [&](int64_t begin, int64_t end) {
        step.weight->read(begin, end, out + begin);
      });
    }
    case Step::Kind::read_state:
      std::memcpy(cells_[static_cast<size_t>(step.out[0])].data, at(step.in[0]), bytes());
      return;
    case Step::Kind::write_state:
      std::memmove(const_cast<void*>(at(step.in[1])), at(step.in[0]), bytes());
      if (StateBounds* bounds = cells_[static_cast<size_t>(step.in[1].id)].bounds) bounds->forget();
      return;
    case Step::Kind::fused:
      if (!step.fused->run(FusedCall(step, cells_, pool_, half_, half_ && !fault_))) run_apart(*step.plain);
      return;
  }
}

// The operations of a fused step, one by one, with memory for what the fused step does not make.
void Executor::run_apart(const Plan& plan) {
  std::deque<Buffer> memory;
  std::vector<int> made;
  for (const Step& step : plan.steps)
    for (size_t i = 0; i < step.out.size(); ++i) {
      Cell& cell = cells_[static_cast<size_t>(step.out[i])];
      if (cell.data) continue;
      memory.emplace_back(static_cast<uint64_t>(step.types[i].size()) * 4);
      cell = {&step.types[i], memory.back().data()};
      made.push_back(step.out[i]);
    }
  run_plan(plan);
  for (const int id : made) cells_[static_cast<size_t>(id)] = {};
  for (const auto& [step, alias] : plan.aliases) cells_[static_cast<size_t>(alias.id)] = {};
}

void Executor::run_kernel(const Step& step) {
  in_.resize(step.in.size());
  for (size_t i = 0; i < in_.size(); ++i) {
    const Source& s = step.in[i];
    in_[i] = s.fixed ? s.fixed : s.id >= 0 ? cells_[static_cast<size_t>(s.id)].data : nullptr;
  }
  out_.resize(step.out.size());
  for (size_t i = 0; i < out_.size(); ++i) out_[i] = cells_[static_cast<size_t>(step.out[i])].data;
  step.run(OpCall(step.binding, in_, step.types, out_, pool_));
  if (!half_) return;
  std::vector<std::pair<const Type*, const void*>> in;
  for (size_t i = 0; i < in_.size(); ++i)
    if (in_[i] && step.binding.operands[i].type.is_tensor())
      in.push_back({&step.binding.operands[i].type, in_[i]});
  for (size_t i = 0; i < out_.size(); ++i) settle(*step.operation, step.types[i], out_[i], in);
}

// fp16 arithmetic: rounds what declares fp16 and notes the first result that is not finite though the inputs
// were.
void Executor::settle(const Operation& op, const Type& type, void* data,
                      std::span<const std::pair<const Type*, const void*>> in) {
  if (!type.is_tensor() || type.dtype != DType::fp16) return;
  auto* values = static_cast<float*>(data);
  const int64_t count = type.size();
  pool_.parallel_for(count, kGrain,
                     [&](int64_t begin, int64_t end) { round_halves(values + begin, end - begin); });
  if (fault_ || finite(values, count)) return;
  for (const auto& [in_type, in_data] : in)
    if (in_type->is_float() && !finite(static_cast<const float*>(in_data), in_type->size())) return;
  const bool nan = std::any_of(values, values + count, [](float v) { return std::isnan(v); });
  fault_ = NumericFault{op.name(), nan};
}

// An operation whose types are known only now that its inputs are there.
void Executor::run_dynamic(const Operation& op) {
  OpBinding binding = OpBinding::bind(op, info_.function().opset, [this](const Value* value) -> const Type& {
    const Cell& cell = cells_[static_cast<size_t>(info_.id(value))];
    return cell.type ? *cell.type : value->type;
  });
  std::vector<const void*> data(binding.operands.size(), nullptr);
  std::deque<Buffer> loaded;
  for (size_t i = 0; i < data.size(); ++i) {
    Operand& operand = binding.operands[i];
    const Value* value = binding.sources[i] ? binding.sources[i]->value : nullptr;
    if (!value) {
      if (operand.constant) data[i] = info_.dense(*operand.constant);
      continue;
    }
    const int id = info_.id(value);
    const Cell& cell = cells_[static_cast<size_t>(id)];
    if (cell.list) {
      data[i] = cell.list.get();
    } else if (cell.data) {
      data[i] = cell.data;
    } else if (info_.is_constant(id)) {
      operand.constant = value->constant();
      if (operand.type.dtype == DType::string) continue;
      data[i] = info_.dense(id);
      if (data[i]) continue;
      const auto weight = info_.stored(id);
      loaded.emplace_back(static_cast<uint64_t>(weight->type().size()) * 4);
      weight->read(0, weight->type().size(), loaded.back().data());
      data[i] = loaded.back().data();
    }
  }
  const Types types = binding.op->infer(OpCall(binding, data));
  if (types.size() != op.outputs.size())
    throw errorf("'{}' gives {} values", op.type, types.size())
        .found(fmt::format("{} names", op.outputs.size()));
  if (!binding.op->run) throw errorf("'{}' cannot be run here", op.type);
  std::vector<void*> out;
  std::vector<Cell> results(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    auto owned = std::make_shared<Owned>();
    owned->type = types[i];
    if (types[i].kind == Type::Kind::list) {
      results[i].list = std::make_shared<TensorList>();
      out.push_back(results[i].list.get());
    } else {
      if (!types[i].fixed()) throw errorf("the shape of the result is not known").found(types[i].text());
      owned->memory = Buffer(static_cast<uint64_t>(types[i].size()) * 4);
      results[i].data = owned->memory.data();
      out.push_back(results[i].data);
    }
    results[i].type = &owned->type;
    results[i].owner = std::move(owned);
  }
  binding.op->run(OpCall(binding, data, types, out, pool_));
  for (size_t i = 0; i < types.size(); ++i) {
    if (half_) settle(op, types[i], results[i].data, {});
    cells_[static_cast<size_t>(info_.id(op.outputs[i].get()))] = std::move(results[i]);
  }
}

void Executor::keep(Cell& cell) {
  if (cell.list || !cell.type) return;
  auto owned = std::make_shared<Owned>();
  owned->type = *cell.type;
  owned->memory = Buffer(static_cast<uint64_t>(cell.type->size()) * 4);
  if (owned->memory.size()) std::memcpy(owned->memory.data(), cell.data, owned->memory.size());
  cell.data = owned->memory.data();
  cell.type = &owned->type;
  cell.known = false;
  cell.owner = std::move(owned);
}

namespace {

// What a block gives or a loop starts from: the cell of a value, or a constant's elements.
Cell cell_of(const FunctionInfo& info, const Cells& cells, const Value* value) {
  const int id = info.id(value);
  Cell cell = cells[static_cast<size_t>(id)];
  if (cell.type || !info.is_constant(id)) return cell;
  auto owned = std::make_shared<Owned>();
  const auto weight = info.stored(id);
  owned->type = weight->type();
  owned->memory = Buffer(static_cast<uint64_t>(owned->type.size()) * 4);
  weight->read(0, owned->type.size(), owned->memory.data());
  cell.type = &owned->type;
  cell.data = owned->memory.data();
  cell.owner = std::move(owned);
  return cell;
}

bool truth(const Cell& cell, const Operation& op) {
  if (!cell.type || !cell.data || cell.type->dtype != DType::boolean || cell.type->size() != 1)
    throw errorf("the condition is not one bool")
        .at(op_place(op))
        .found(cell.type ? cell.type->text() : "nothing");
  return *static_cast<const int32_t*>(cell.data) != 0;
}

}  // namespace

void Executor::run_cond(const Operation& op) {
  const Value* predicate = op.value("pred");
  if (!predicate || op.blocks.size() != 2) throw errorf("needs 'pred' and two blocks").at(op_place(op));
  const Block& taken = *op.blocks[truth(cell_of(info_, cells_, predicate), op) ? 0 : 1];
  if (taken.outputs.size() != op.outputs.size())
    throw errorf("a block gives the wrong number of values").at(op_place(op));
  execute_nested(taken);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    Cell cell = cell_of(info_, cells_, taken.outputs[i]);
    keep(cell);
    cells_[static_cast<size_t>(info_.id(op.outputs[i].get()))] = std::move(cell);
  }
}

void Executor::run_while(const Operation& op) {
  const Input* vars = op.input("loop_vars");
  if (!vars || op.blocks.size() != 2) throw errorf("needs 'loop_vars' and two blocks").at(op_place(op));
  const Block& condition = *op.blocks[0];
  const Block& body = *op.blocks[1];
  const size_t n = vars->bindings.size();
  if (condition.inputs.size() != n || body.inputs.size() != n || body.outputs.size() != n ||
      op.outputs.size() != n || condition.outputs.size() != 1)
    throw errorf("the loop's blocks do not take and give {} values", n).at(op_place(op));
  std::vector<Cell> current;
  for (const Binding& binding : vars->bindings) {
    if (!binding.value) throw errorf("a loop variable is a constant in place").at(op_place(op));
    current.push_back(cell_of(info_, cells_, binding.value));
    current.back().known = false;  // it will not be what it was
  }
  const auto enter = [&](const Block& block) {
    for (size_t i = 0; i < n; ++i) cells_[static_cast<size_t>(info_.id(block.inputs[i].get()))] = current[i];
    execute_nested(block);
  };
  for (;;) {
    enter(condition);
    if (!truth(cell_of(info_, cells_, condition.outputs[0]), op)) break;
    enter(body);
    std::vector<Cell> following;
    for (const Value* value : body.outputs) {
      following.push_back(cell_of(info_, cells_, value));
      keep(following.back());
    }
    current = std::move(following);
  }
  for (size_t i = 0; i < n; ++i) {
    keep(current[i]);
    cells_[static_cast<size_t>(info_.id(op.outputs[i].get()))] = std::move(current[i]);
  }
}

}  // namespace anemone
