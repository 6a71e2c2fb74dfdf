// Executor: runs one function over cells: plans what can be planned, runs the plan, does loops, branches and
// lists itself, and plans on. One executor serves one caller at a time; plans are shared through the cache.
//     Executor run(info, cache, pool, Arithmetic::fp16, taps);
//     run.set_input(id, type, data);   run.execute();   run.cell(output_id).data
// Executors can run side by side (together.h): start(), then pass() for every step that waiting() names.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "engine/fused.h"
#include "engine/plan.h"
#include "predict/predictor.h"
#include "predict/timeline.h"

namespace anemone {

// Plans by block, start and the types of what flows in. Shared by all executors of a function.
class PlanCache {
 public:
  std::shared_ptr<const Plan> find_or_make(const FunctionInfo& info, const Block& block, size_t begin,
                                           const Cells& cells, const PlanOptions& options);

 private:
  // The values that flow into what follows `begin`; computed once.
  const std::vector<int>& live_in(const FunctionInfo& info, const Block& block, size_t begin);

  std::mutex mutex_;
  std::map<std::pair<const Block*, size_t>, std::vector<int>> live_in_;
  std::unordered_map<std::string, std::shared_ptr<const Plan>> plans_;
  std::deque<std::string> order_;  // oldest first, so that shapes without end do not fill the memory
};

class Executor {
 public:
  // `taps`: values that must be there when execute() is done, whatever else could be done with their memory.
  // `timeline`: where the times of steps go; may be null.
  Executor(const FunctionInfo& info, PlanCache& cache, ThreadPool& pool, Arithmetic arithmetic,
           const std::vector<std::string>& taps, Timeline* timeline = nullptr);

  // Lends the memory of an input or state; it must stay until execute() is done.
  // `halves`: a state whose elements are kept as fp16.
  void set_input(int id, const Type* type, void* data, StateBounds* bounds = nullptr, bool halves = false);
  void execute();
  // Makes the plan, or the first of them, and its memory, for inputs of which only the types are known.
  void get_ready();
  // The plan of the whole function for the inputs at hand; null where it cannot be planned before it runs.
  const Plan* whole_plan();
  const FunctionInfo& info() const { return info_; }
  // execute() in pieces: runs up to the first step whose kernel is shareable(), or to the end. A function that cannot
  // be planned as a whole runs to the end at once.
  void start();
  // The step that start() or pass() stopped before; empty at the end.
  const Step* waiting() const {
    return cursor_.step < waiting_steps_ ? &cursor_.plan->steps[cursor_.step] : nullptr;
  }
  FusedCall waiting_call() const;
  // Runs the waiting step by itself, with all threads; true as FusedKernel::run().
  bool run_waiting();
  Timeline* timeline() const { return timeline_; }
  // Goes on behind the waiting step to the next one. `done`: it was run, else its operations run one by one.
  void pass(bool done);
  const Cell& cell(int id) const { return cells_[static_cast<size_t>(id)]; }
  uint64_t arena_bytes() const;
  // fp16 arithmetic: the first operation whose result left the range of half, with finite inputs.
  const std::optional<NumericFault>& fault() const { return fault_; }

 private:
  // How far a plan has been run.
  struct Cursor {
    const Plan* plan = nullptr;
    size_t step = 0, alias = 0;
  };

  void reset();
  const Plan& enter(const Block& block, size_t next);
  void execute(const Block& block, size_t next = 0);
  void run_operation(const Operation& op);
  void execute_nested(const Block& block);
  void drop_idle_arenas();
  void run_plan(const Plan& plan);
  void take_aliases(Cursor& at);
  void run_next(Cursor& at);
  void run_to_shareable();
  void run_step(const Step& step);
  void run_timed(const Step& step);
  void run(const Step& step, const RunOp& work);
  void run(const Step& step, const LoadWeight& work);
  void run(const Step& step, const ReadState& work);
  void run(const Step& step, const WriteState& work);
  void run(const Step& step, const RunFused& work);
  void run_apart(const Plan& plan);
  // States in 4-byte elements for operations that run one by one; written back when it goes.
  class Widened;
  const void* at(const Source& source) const;
  void* result(const Step& step, size_t i = 0) const { return cells_[static_cast<size_t>(step.out[i])].data; }

  // In executor_control.cpp.
  void run_dynamic(const Operation& op);
  void run_cond(const Operation& op);
  void run_while(const Operation& op);
  const void* operand_data(Operand& operand, const Binding* source, std::deque<Buffer>& loaded) const;

  void settle(const Operation& op, const Type& type, void* data,
              std::span<const std::pair<const Type*, const void*>> in);

  const FunctionInfo& info_;
  PlanCache& cache_;
  ThreadPool& pool_;
  Timeline* timeline_;  // null inside a step that is timed as a whole
  PlanOptions plan_options_;
  bool half_;
  Cells cells_;
  std::unordered_map<const Plan*, std::pair<std::shared_ptr<const Plan>, Buffer>> arenas_;
  std::vector<const Plan*> in_use_;  // whose arenas hold values of the blocks that are being run
  std::optional<NumericFault> fault_;
  Cursor cursor_;             // of start() and pass()
  size_t waiting_steps_ = 0;  // of its plan; 0: nothing is waiting
  bool beside_ = false;       // others: the threads are not this one's to lead
  // Scratch of RunOp.
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace anemone
