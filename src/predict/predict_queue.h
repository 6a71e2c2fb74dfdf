// PredictQueue: predictions of many inputs, a few of them under way at once. That hides the work of the host between
// two predictions; what has no states to wait for gains from it.
//     PredictQueue queue(3);
//     for (const Text& text : texts) queue.add([&] { take(encoder.encode(text)); });
//     queue.finish();                                        // throws the first thing that went wrong
// A job runs on a thread of the queue, with calls of its own: never two on one call or state. Core ML's own limit is
// CoreMlOptions::in_flight.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace anemone {

class PredictQueue {
 public:
  // So many jobs at once, at least one. With one, add() runs the job itself, and no thread is made.
  explicit PredictQueue(int in_flight);
  // As cancel(), then waits for what is under way.
  ~PredictQueue();
  PredictQueue(const PredictQueue&) = delete;
  PredictQueue& operator=(const PredictQueue&) = delete;

  // Jobs begin in the order in which they came. After cancel(), and after an error, they are dropped.
  void add(std::function<void()> job);
  // Returns when nothing is under way and nothing waits. Throws what the first job that failed threw.
  void finish();
  // What has not begun never begins. What is under way goes on to its end: the device writes to its memory until then.
  void cancel();
  // No job will begin any more.
  bool cancelled() const;
  size_t in_flight() const { return threads_.empty() ? 1 : threads_.size(); }

 private:
  void work();
  void run(const std::function<void()>& job);

  mutable std::mutex mutex_;
  std::condition_variable added_, ended_;
  std::deque<std::function<void()>> waiting_;
  size_t running_ = 0;
  std::exception_ptr problem_;
  bool cancelled_ = false, closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace anemone
