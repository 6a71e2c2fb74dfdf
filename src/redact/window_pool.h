// WindowPool: computes the scores of windows, several at once and in any order; who asked takes them in his own.
//     WindowPool pool(model, 4);
//     auto job = pool.send(ids, 0, 100);
//     pool.wait(*job);                                        // job->scores; throws what went wrong
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "predict/predict_queue.h"
#include "redact/model.h"

namespace anemone::redact {

struct WindowJob {
  std::vector<int32_t> ids;
  size_t from = 0, count = 0;  // the tokens whose scores are wanted
  std::vector<float> scores;   // log probabilities, [count, labels]
  std::exception_ptr problem;
  std::atomic<bool> done = false;
};

class WindowPool {
 public:
  WindowPool(std::shared_ptr<const RedactModel> model, int threads);
  WindowPool(const WindowPool&) = delete;
  WindowPool& operator=(const WindowPool&) = delete;

  const RedactModel& model() const { return *model_; }
  size_t threads() const { return queue_.in_flight(); }
  std::shared_ptr<WindowJob> send(std::vector<int32_t> ids, size_t from, size_t count);
  // Returns when the job is done.
  void wait(const WindowJob& job);
  // Who sent jobs needs them no more.
  void forget(size_t jobs) { unclaimed_ -= jobs; }
  // Jobs that were sent and not forgotten.
  size_t pending() const { return unclaimed_; }
  // Tokens of all jobs that were sent.
  uint64_t tokens() const { return tokens_; }

 private:
  std::shared_ptr<const RedactModel> model_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::atomic<size_t> unclaimed_ = 0;
  std::atomic<uint64_t> tokens_ = 0;
  PredictQueue queue_;  // its jobs use all the others
};

}  // namespace anemone::redact
