// PredictQueue: how many predictions of a function are under way at once. Core ML lets asynchronous ones overlap, which
// hides the work of the host between them; more than two or three only cost memory.
//     PredictQueue::Turn turn(queue);                        // waits for a free place; gives it back at the end
#pragma once

#include <condition_variable>
#include <mutex>

namespace anemone {

class PredictQueue {
 public:
  explicit PredictQueue(int places) : free_(places) {}

  class Turn {
   public:
    explicit Turn(PredictQueue& queue) : queue_(queue) {
      std::unique_lock lock(queue_.mutex_);
      queue_.changed_.wait(lock, [&] { return queue_.free_ > 0; });
      --queue_.free_;
    }
    ~Turn() {
      std::lock_guard lock(queue_.mutex_);
      ++queue_.free_;
      queue_.changed_.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    PredictQueue& queue_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
};

}  // namespace anemone
