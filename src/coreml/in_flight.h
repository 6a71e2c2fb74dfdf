// InFlight: how many predictions of a backend are under way at once. Core ML lets asynchronous ones overlap; more than
// two or three only cost memory.
//     InFlight::Turn turn(places);                           // waits for a free place; gives it back at the end
#pragma once

#include <condition_variable>
#include <mutex>

namespace anemone {

class InFlight {
 public:
  explicit InFlight(int places) : count_(places), free_(places) {}

  int count() const { return count_; }

  class Turn {
   public:
    explicit Turn(InFlight& places) : places_(places) {
      std::unique_lock lock(places_.mutex_);
      places_.changed_.wait(lock, [&] { return places_.free_ > 0; });
      --places_.free_;
    }
    ~Turn() {
      const std::lock_guard lock(places_.mutex_);
      ++places_.free_;
      places_.changed_.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    InFlight& places_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int count_;
  int free_;
};

}  // namespace anemone
