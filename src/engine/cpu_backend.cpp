#include "engine/cpu_backend.h"

#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/cpu_call.h"
#include "engine/cpu_function.h"
#include "engine/cpu_state.h"
#include "engine/kernel_choice.h"
#include "engine/together.h"

namespace anemone {
namespace {

class CpuPredictor : public Predictor {
 public:
  explicit CpuPredictor(std::shared_ptr<CpuFunction> function) : function_(std::move(function)) {}

  const Signature& signature() const override { return function_->signature(); }
  std::unique_ptr<State> make_state() const override {
    return std::make_unique<CpuState>(function_->info().function(), function_->arithmetic());
  }
  std::unique_ptr<Call> make_call(const InputShapes& shapes) const override {
    return std::make_unique<CpuCall>(function_, shapes);
  }
  uint64_t memory_bytes() const override { return function_->memory_bytes(); }

 private:
  std::shared_ptr<CpuFunction> function_;  // calls hold it, too
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const PredictOptions& options)
      : options_(options), pool_(std::make_shared<ThreadPool>(options.threads)) {
    if (options_.timeline)
      pool_->watch(
          [timeline = options_.timeline](int64_t begin, int64_t end) { timeline->add_part(begin, end); });
  }

  std::string_view name() const override { return "cpu"; }
  Arithmetic arithmetic() const override { return options_.arithmetic; }
  Timeline* timeline() const override { return options_.timeline.get(); }
  // Differences of one logit that were seen, 1 against 4 tokens a call (SmolLM2-135M): 2^-19 in fp32, 2^-7 in fp16.
  double close_call() const override {
    switch (options_.arithmetic) {
      case Arithmetic::fp32: return 0x1p-12;
      case Arithmetic::fp16: return 0x1p-5;
      // What differs in the last bit is rounded to another step of 8 bits now and then, and that goes on from layer to
      // layer: 2^-4.6, and 2^-3.1 with palettes, 64 tokens a call.
      case Arithmetic::fast: return 0x1p-2;
    }
    throw Error("this arithmetic has no bar for close choices");
  }
  bool maps_weights() const override { return true; }
  // One of them has the pool, the others have a core each.
  int calls_at_once() const override { return pool_->threads(); }
  bool can_tap() const override { return true; }
  std::unique_ptr<Predictor> open(std::shared_ptr<const Package> package, const std::string& function,
                                  const std::vector<std::string>& taps) const override {
    return std::make_unique<CpuPredictor>(
        std::make_shared<CpuFunction>(std::move(package), function, options_, taps, pool_));
  }
  void run_together(std::span<const CallTurn> turns) const override {
    if (turns.size() == 1) return turns[0].call->run(turns[0].state);
    run_all(turns, "together", execute_together);
  }
  int64_t most_in_turn() const override { return kSameOrderColumns; }
  void run_in_turn(std::span<const CallTurn> turns) const override {
    run_all(turns, "in turn", execute_in_turn);
  }

 private:
  void run_all(std::span<const CallTurn> turns, const char* how,
               void (*execute)(std::span<Executor* const>, ThreadPool&)) const {
    const TimedSlice slice(turns.empty() ? nullptr : timeline(), Timeline::Level::call, "calls",
                           fmt::format("{} {}", turns.size(), how));
    std::vector<CpuCall*> calls;
    for (const CallTurn& turn : turns) calls.push_back(dynamic_cast<CpuCall*>(turn.call));
    if (std::ranges::count(calls, nullptr)) return Backend::run_in_turn(turns);
    std::vector<Executor*> executors;
    for (size_t i = 0; i < turns.size(); ++i) executors.push_back(&calls[i]->prepare(turns[i].state));
    if (!executors.empty()) execute(executors, *pool_);
    for (CpuCall* call : calls) call->settle();
  }

  PredictOptions options_;
  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace

std::shared_ptr<const Backend> cpu_backend(const PredictOptions& options) {
  return std::make_shared<CpuBackend>(options);
}

std::unique_ptr<Predictor> make_predictor(std::shared_ptr<const Package> package, const std::string& function,
                                          const PredictOptions& options,
                                          const std::vector<std::string>& taps) {
  return cpu_backend(options)->open(std::move(package), function, taps);
}

}  // namespace anemone
