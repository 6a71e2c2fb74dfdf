#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

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
    key += fmt::format("|{}:{}{}", id, cell.type->text(), cell.halves ? "h" : "");
    if (cell.known && cell.type->is_tensor())
      key.append(static_cast<const char*>(cell.data), static_cast<size_t>(cell.type->size()) * 4);
  }
  return key;
}

// For profiles: the operation, or what a fused step is.
std::string_view kind_of(const Step& step) {
  struct Kind {
    std::string_view operator()(const RunOp& work) const { return work.binding.op->name; }
    std::string_view operator()(const LoadWeight&) const { return "load weight"; }
    std::string_view operator()(const ReadState&) const { return "read state"; }
    std::string_view operator()(const WriteState&) const { return "write state"; }
    std::string_view operator()(const RunFused& work) const { return work.kernel->name(); }
  };
  return std::visit(Kind{}, step.work);
}

bool finite(const float* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(data[i])) return false;
  return true;
}

}  // namespace

const std::vector<int>& PlanCache::live_in(const FunctionInfo& info, const Block& block, size_t begin) {
  const auto [it, fresh] = live_in_.try_emplace({&block, begin});
  if (!fresh) return it->second;
  if (begin == 0 && &block == &info.function().body) {  // nothing was computed before
    for (const auto& input : info.function().inputs) it->second.push_back(info.id(input.get()));
    return it->second;
  }
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

Executor::Executor(const FunctionInfo& info, PlanCache& cache, ThreadPool& pool, Arithmetic arithmetic,
                   const std::vector<std::string>& taps, Timeline* timeline)
    : info_(info),
      cache_(cache),
      pool_(pool),
      timeline_(timeline),
      plan_options_{.taps = {taps.begin(), taps.end()},
                    .half = arithmetic == Arithmetic::fp16,
                    .fast = arithmetic == Arithmetic::fast},
      half_(arithmetic == Arithmetic::fp16),
      cells_(static_cast<size_t>(info.values())) {}

void Executor::set_input(int id, const Type* type, void* data, StateBounds* bounds, bool halves) {
  cells_[static_cast<size_t>(id)] = {type, data, false, bounds, nullptr, nullptr, halves};
}

uint64_t Executor::arena_bytes() const {
  uint64_t sum = 0;
  for (const auto& [plan, held] : arenas_) {
    sum += held.second.size();
    for (const Step& step : plan->steps)
      if (const auto* fused = std::get_if<RunFused>(&step.work)) sum += fused->kernel->held_bytes();
  }
  return sum;
}

void Executor::execute() {
  reset();
  execute(info_.function().body);
}

void Executor::get_ready() {
  reset();
  enter(info_.function().body, 0);
  for (const auto& input : info_.function().inputs) set_input(info_.id(input.get()), nullptr, nullptr);
}

const Plan* Executor::whole_plan() {
  reset();
  const Plan& plan = enter(info_.function().body, 0);
  return plan.next < info_.function().body.ops.size() ? nullptr : &plan;
}

void Executor::reset() {
  fault_.reset();
  waiting_steps_ = 0;
  beside_ = false;
  // Nothing of an earlier call may be seen: its inputs are gone.
  std::vector<bool> given(cells_.size(), false);
  for (const auto& input : info_.function().inputs) given[static_cast<size_t>(info_.id(input.get()))] = true;
  for (size_t i = 0; i < cells_.size(); ++i)
    if (!given[i]) cells_[i] = {};
  in_use_.clear();
  drop_idle_arenas();
}

void Executor::start() {
  reset();
  beside_ = true;
  const Block& body = info_.function().body;
  const Plan& plan = enter(body, 0);
  if (plan.next < body.ops.size()) {
    run_plan(plan);
    run_operation(*body.ops[plan.next]);
    return execute(body, plan.next + 1);
  }
  cursor_ = {&plan};
  waiting_steps_ = plan.steps.size();
  run_to_shareable();
}

FusedCall Executor::waiting_call() const {
  return FusedCall(*waiting(), cells_, pool_, half_, half_ && !fault_);
}

bool Executor::run_waiting() {
  if (timeline_) timeline_->begin_step(kind_of(*waiting()));
  const TimedSlice slice(timeline_, Timeline::Level::step, kind_of(*waiting()), waiting()->operation->name());
  try {
    return std::get<RunFused>(waiting()->work).kernel->run(waiting_call());
  } catch (Error& e) {
    e.within(op_place(*waiting()->operation));
    throw;
  }
}

void Executor::pass(bool done) {
  const Step& step = *waiting();
  if (!done) run_apart(std::get<RunFused>(step.work).plain->plan());
  ++cursor_.step;
  run_to_shareable();
}

// The waiting step has its operands when this returns, and is prepared.
void Executor::run_to_shareable() {
  const auto shareable = [](const Step& step) {
    const auto* fused = std::get_if<RunFused>(&step.work);
    return fused && fused->kernel->shareable();
  };
  while (cursor_.step < waiting_steps_ && !shareable(cursor_.plan->steps[cursor_.step])) run_next(cursor_);
  take_aliases(cursor_);
  if (const Step* step = waiting()) std::get<RunFused>(step->work).kernel->prepare(waiting_call());
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

// The plan from operation `next` on, its memory at hand.
const Plan& Executor::enter(const Block& block, size_t next) {
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
  return *plan;
}

void Executor::execute(const Block& block, size_t next) {
  while (next < block.ops.size()) {
    const Plan& plan = enter(block, next);
    run_plan(plan);
    next = plan.next;
    if (next < block.ops.size()) run_operation(*block.ops[next++]);
  }
}

// One that no plan holds.
void Executor::run_operation(const Operation& op) {
  try {
    if (op.type == "cond")
      run_cond(op);
    else if (op.type == "while_loop")
      run_while(op);
    else {
      const TimedSlice slice(timeline_, Timeline::Level::step, op.type, op.name());
      run_dynamic(op);
    }
  } catch (Error& e) {
    if (op.blocks.empty()) e.within(op_place(op));
    throw;
  }
}

void Executor::run_plan(const Plan& plan) {
  Cursor at{&plan};
  while (at.step < plan.steps.size()) run_next(at);
  take_aliases(at);
}

// Those that hold from this step on.
void Executor::take_aliases(Cursor& at) {
  const auto& aliases = at.plan->aliases;
  for (; at.alias < aliases.size() && aliases[at.alias].first <= at.step; ++at.alias) {
    const Plan::Alias& alias = aliases[at.alias].second;
    Cell& cell = cells_[static_cast<size_t>(alias.id)];
    cell = cells_[static_cast<size_t>(alias.of)];
    cell.type = &alias.type;
    if (cell.data) cell.data = static_cast<std::byte*>(cell.data) + alias.offset * (cell.halves ? 2 : 4);
  }
}

void Executor::run_next(Cursor& at) {
  const Step& step = at.plan->steps[at.step];
  take_aliases(at);
  try {
    timeline_ ? run_timed(step) : run_step(step);
  } catch (Error& e) {
    e.within(op_place(*step.operation));
    throw;
  }
  ++at.step;
}

void Executor::run_step(const Step& step) {
  std::visit([&](const auto& work) { run(step, work); }, step.work);
}

void Executor::run_timed(const Step& step) {
  const std::string_view kind = kind_of(step);
  Timeline* const timeline = std::exchange(timeline_, nullptr);
  if (!beside_) timeline->begin_step(kind);
  const TimedSlice slice(timeline, Timeline::Level::step, kind, step.operation->name());
  try {
    run_step(step);
  } catch (...) {
    timeline_ = timeline;
    throw;
  }
  timeline_ = timeline;
}

const void* Executor::at(const Source& source) const {
  if (source.fixed) return source.fixed;
  return source.id >= 0 ? cells_[static_cast<size_t>(source.id)].data : nullptr;
}

void Executor::run(const Step& step, const LoadWeight& work) {
  auto* out = static_cast<uint32_t*>(result(step));
  pool_.parallel_for(step.types[0].size(), kGrain,
                     [&](int64_t begin, int64_t end) { work.weight->read(begin, end, out + begin); });
}

void Executor::run(const Step& step, const ReadState& work) {
  const Cell& state = cells_[static_cast<size_t>(step.in[0].id)];
  const auto* from = static_cast<const std::byte*>(state.data) + work.offset * (state.halves ? 2 : 4);
  const int64_t count = step.types[0].size();
  if (!state.halves) {
    std::memcpy(result(step), from, static_cast<size_t>(count) * 4);
    return;
  }
  auto* out = static_cast<float*>(result(step));
  pool_.parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    halves_to_floats(from + 2 * begin, end - begin, out + begin);
  });
}

void Executor::run(const Step& step, const WriteState&) {
  const Cell& state = cells_[static_cast<size_t>(step.in[1].id)];
  const int64_t count = step.types[0].size();
  if (state.halves)
    floats_to_halves(static_cast<const float*>(at(step.in[0])), count, static_cast<uint16_t*>(state.data));
  else
    std::memmove(state.data, at(step.in[0]), static_cast<size_t>(count) * 4);
  if (state.bounds) state.bounds->forget();
}

void Executor::run(const Step& step, const RunFused& work) {
  if (!work.kernel->run(FusedCall(step, cells_, pool_, half_, half_ && !fault_)))
    run_apart(work.plain->plan());
}

class Executor::Widened {
 public:
  Widened(Cells& cells, const Plan& plan) : cells_(cells) {
    for (const Step& step : plan.steps) {
      for (const Source& source : step.in) add(source.id, false);
      for (const int id : step.out) add(id, true);
    }
  }
  ~Widened() {
    for (One& one : all_) {
      if (one.written)
        floats_to_halves(reinterpret_cast<const float*>(one.memory.data()), one.cell.type->size(),
                         static_cast<uint16_t*>(one.cell.data));
      cells_[static_cast<size_t>(one.id)] = one.cell;
    }
  }
  Widened(const Widened&) = delete;
  Widened& operator=(const Widened&) = delete;

 private:
  struct One {
    int id;
    bool written;
    Cell cell;  // as it was
    Buffer memory;
  };

  void add(int id, bool written) {
    if (id < 0) return;
    Cell& cell = cells_[static_cast<size_t>(id)];
    for (One& one : all_)
      if (one.id == id) one.written |= written;
    if (!cell.halves) return;
    const int64_t count = cell.type->size();
    Buffer memory(static_cast<uint64_t>(count) * 4);
    halves_to_floats(static_cast<const std::byte*>(cell.data), count,
                     reinterpret_cast<float*>(memory.data()));
    all_.push_back({id, written, cell, std::move(memory)});
    cell.data = all_.back().memory.data();
    cell.halves = false;
  }

  Cells& cells_;
  std::vector<One> all_;
};

// The operations of a fused step, one by one, with memory for what the fused step does not make.
void Executor::run_apart(const Plan& plan) {
  const Widened widened(cells_, plan);
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

void Executor::run(const Step& step, const RunOp& work) {
  in_.resize(step.in.size());
  for (size_t i = 0; i < in_.size(); ++i) in_[i] = at(step.in[i]);
  out_.resize(step.out.size());
  for (size_t i = 0; i < out_.size(); ++i) out_[i] = result(step, i);
  work.run(OpCall(work.binding, in_, step.types, out_, pool_));
  if (!half_) return;
  std::vector<std::pair<const Type*, const void*>> in;
  for (size_t i = 0; i < in_.size(); ++i)
    if (const Type& type = work.binding.operands[i].type; in_[i] && type.is_tensor())
      in.push_back({&type, in_[i]});
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

}  // namespace anemone
