// Executor: runs one function over cells: plans what can be planned, runs the plan, does loops, branches and
// lists itself, and plans on. One executor serves one caller at a time; plans are shared through the cache.
//     Executor run(info, cache, pool, Arithmetic::fp16, taps);
//     run.set_input(id, type, data);   run.execute();   run.cell(output_id).data
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "engine/plan.h"
#include "predict/predictor.h"

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
  Executor(const FunctionInfo& info, PlanCache& cache, ThreadPool& pool, Arithmetic arithmetic,
           const std::vector<std::string>& taps);

  // Lends the memory of an input or state; it must stay until execute() is done.
  void set_input(int id, const Type* type, void* data, StateBounds* bounds = nullptr);
  void execute();
  const Cell& cell(int id) const { return cells_[static_cast<size_t>(id)]; }
  uint64_t arena_bytes() const;
  // fp16 arithmetic: the first operation whose result left the range of half, with finite inputs.
  const std::optional<NumericFault>& fault() const { return fault_; }

 private:
  void execute(const Block& block);
  void execute_nested(const Block& block);
  void drop_idle_arenas();
  void run_plan(const Plan& plan);
  void run_step(const Step& step);
  void run(const Step& step, const RunOp& work);
  void run(const Step& step, const LoadWeight& work);
  void run(const Step& step, const ReadState& work);
  void run(const Step& step, const WriteState& work);
  void run(const Step& step, const RunFused& work);
  void run_apart(const Plan& plan);
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
  PlanOptions plan_options_;
  bool half_;
  Cells cells_;
  std::unordered_map<const Plan*, std::pair<std::shared_ptr<const Plan>, Buffer>> arenas_;
  std::vector<const Plan*> in_use_;  // whose arenas hold values of the blocks that are being run
  std::optional<NumericFault> fault_;
  // Scratch of RunOp.
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace anemone
