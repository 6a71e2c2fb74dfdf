// CpuFunction: one function of a package, compiled by the engine: what all its calls share, and the workspaces
// that they take turns with.
//     auto function = std::make_shared<CpuFunction>(package, "main", options, taps, pool);
//     Workspace& work = function->borrow();   …   function->give_back(work);
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/buffer.h"
#include "engine/executor.h"
#include "package/package.h"
#include "predict/predictor.h"

namespace anemone {

// What one call at a time works with.
struct Workspace {
  Workspace(const FunctionInfo& info, PlanCache& cache, ThreadPool& pool, Arithmetic arithmetic,
            const std::vector<std::string>& taps, Timeline* timeline)
      : executor(info, cache, pool, arithmetic, taps, timeline) {}

  // The buffer with at least so many bytes; what was in it may be lost.
  void* memory(Buffer& buffer, uint64_t bytes_needed);
  void measure();

  Executor executor;
  std::vector<Buffer> inputs;      // by CpuFunction::inputs(); made when needed
  std::vector<Buffer> results;     // by CpuFunction::results(); of those that lie nowhere else
  std::atomic<uint64_t> bytes{0};  // in all; read while a call runs
};

class CpuFunction {
 public:
  struct Input {
    const TensorInfo* info;
    int id;  // value number
  };
  // An output or a tap. A name may stand for several taps, in blocks of which one is run.
  struct Result {
    std::string name;
    int id;
  };

  // `name` empty: the package's default function. Error when there is none of that name, for a tap that is no
  // value of it, and for a state without a fixed shape.
  CpuFunction(std::shared_ptr<const Package> package, const std::string& name, const PredictOptions& options,
              std::vector<std::string> taps, std::shared_ptr<ThreadPool> pool);

  const Signature& signature() const { return signature_; }
  const FunctionInfo& info() const { return info_; }
  Arithmetic arithmetic() const { return arithmetic_; }
  bool half() const { return arithmetic_ == Arithmetic::fp16; }
  ThreadPool& pool() const { return *pool_; }
  Timeline* timeline() const { return timeline_.get(); }

  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Result>& results() const { return results_; }

  // The default of an optional input: its shape (Error when the input cannot have it) and its one value.
  std::vector<int64_t> default_shape(const TensorInfo& input) const;
  double default_value(const TensorInfo& input) const;

  Workspace& borrow();
  void give_back(Workspace& work);
  uint64_t memory_bytes() const;

 private:
  void add_inputs();
  void add_results();

  std::shared_ptr<const Package> package_;
  Signature signature_;
  Arithmetic arithmetic_;
  std::vector<std::string> taps_;
  FunctionInfo info_;
  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<Timeline> timeline_;
  std::vector<Input> inputs_;
  std::vector<Result> results_;
  PlanCache cache_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::vector<Workspace*> idle_;
};

}  // namespace anemone
