// Waits for a handler that Core ML calls on a thread of its own, whenever it likes.
//     Waiting<MLModel*> loaded;
//     [MLModel loadContentsOfURL:url configuration:c completionHandler:loaded.handler()];
//     MLModel* model = loaded.wait([](double seconds) { return true; }, problem);
// Whoever gives up leaves: the handler holds what it writes to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "coreml/apple.h"

namespace anemone {

template <class Result>
class Waiting {
 public:
  using Handler = void (^)(Result, NSError*);

  Handler handler() {
    std::shared_ptr<Shared> shared = shared_;
    return ^(Result result, NSError* error) {
      std::lock_guard lock(shared->mutex);
      shared->result = result;
      shared->error = error;
      shared->done = true;
      shared->changed.notify_all();
    };
  }

  // Asks `go_on` twice a second. Null and no error: it said no.
  Result wait(const std::function<bool(double seconds)>& go_on, NSError* __strong& error) {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(shared_->mutex);
    while (!shared_->done) {
      shared_->changed.wait_for(lock, std::chrono::milliseconds(500));
      if (shared_->done) break;
      lock.unlock();
      const bool more =
          go_on(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      lock.lock();
      if (!more && !shared_->done) return nil;
    }
    error = shared_->error;
    return shared_->result;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    Result result = nil;
    NSError* error = nil;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace anemone
