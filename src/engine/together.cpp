#include "engine/together.h"

#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace anemone {
namespace {

// Runs body(i) for each, on a thread of its own where there are enough of them to keep the threads busy; fewer, and
// those that go in turn, leave the threads to the kernels inside.
template <class F>
void each(int64_t count, ThreadPool& pool, bool in_turn, F body) {
  if (in_turn || count < pool.threads()) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  pool.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

const FusedKernel& kernel_of(const Executor& executor) {
  return *std::get<RunFused>(executor.waiting()->work).kernel;
}

// Runs the waiting step of the first, and of all that share its weights. Says for each whether it was run.
class WaitingSteps {
 public:
  explicit WaitingSteps(std::span<Executor* const> waiting) : waiting_(waiting), done_(waiting.size()) {}

  std::vector<char> run() {
    std::vector<bool> taken(waiting_.size());
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (taken[i]) continue;
      const FusedKernel& kernel = kernel_of(*waiting_[i]);
      members_.clear();
      for (size_t j = i; j < waiting_.size(); ++j)
        if (!taken[j] && kernel.shares(kernel_of(*waiting_[j]))) {
          taken[j] = true;
          members_.push_back(j);
        }
      run_group(kernel);
    }
    return done_;
  }

 private:
  void run_group(const FusedKernel& kernel) {
    if (members_.size() == 1) {
      done_[members_[0]] = waiting_[members_[0]]->run_waiting();
      return;
    }
    std::vector<FusedTurn> turns;
    for (const size_t i : members_) turns.push_back({&kernel_of(*waiting_[i]), waiting_[i]->waiting_call()});
    const Executor& first = *waiting_[members_[0]];
    if (first.timeline()) first.timeline()->begin_step(kernel.name());
    const TimedSlice slice(first.timeline(), Timeline::Level::step, kernel.name(),
                           first.waiting()->operation->name());
    try {
      kernel.run_together(turns);
    } catch (Error& e) {
      e.within(op_place(*first.waiting()->operation));
      throw;
    }
    for (size_t n = 0; n < members_.size(); ++n) done_[members_[n]] = turns[n].done;
  }

  std::span<Executor* const> waiting_;
  std::vector<size_t> members_;
  std::vector<char> done_;  // each on a byte of its own
};

void walk(std::span<Executor* const> executors, ThreadPool& pool, bool in_turn) {
  Timeline* const timeline = executors[0]->timeline();
  const auto side_by_side = [&] {
    if (timeline) timeline->begin_step("side by side");
  };
  side_by_side();
  each(static_cast<int64_t>(executors.size()), pool, in_turn,
       [&](int64_t i) { executors[static_cast<size_t>(i)]->start(); });
  for (;;) {
    std::vector<Executor*> waiting;
    for (Executor* executor : executors)
      if (executor->waiting()) waiting.push_back(executor);
    if (waiting.empty()) return;
    const std::vector<char> done = WaitingSteps(waiting).run();
    side_by_side();
    each(static_cast<int64_t>(waiting.size()), pool, in_turn, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      waiting[at]->pass(done[at] != 0);
    });
  }
}

// Every state is looked at between two neighbouring projections only.
bool states_stay_between_projections(const Plan& plan, const FunctionInfo& info) {
  std::unordered_map<int, int> views, seen;  // what a value is a view of; state → behind which projection
  for (const auto& [step, alias] : plan.aliases) views[alias.id] = alias.of;
  for (const auto& input : info.function().inputs)
    if (input->type.kind == Type::Kind::state) seen.emplace(info.id(input.get()), -1);
  int projections = 0;
  for (const Step& step : plan.steps) {
    const auto* fused = std::get_if<RunFused>(&step.work);
    const bool waits = fused && fused->kernel->shareable();
    projections += waits;
    for (const Source& source : step.in) {
      int id = source.id;
      for (auto it = views.find(id); it != views.end(); it = views.find(id)) id = it->second;
      const auto state = seen.find(id);
      if (state == seen.end()) continue;
      if (waits || (state->second >= 0 && state->second != projections)) return false;
      state->second = projections;
    }
  }
  return true;
}

}  // namespace

void execute_together(std::span<Executor* const> executors, ThreadPool& pool) {
  if (executors.size() == 1) return executors[0]->execute();
  walk(executors, pool, false);
}

void execute_in_turn(std::span<Executor* const> executors, ThreadPool& pool) {
  const Plan* plan = executors.size() > 1 ? executors[0]->whole_plan() : nullptr;
  if (plan && states_stay_between_projections(*plan, executors[0]->info()))
    return walk(executors, pool, true);
  for (Executor* executor : executors) executor->execute();
}

}  // namespace anemone
