// ThreadPool: runs a loop over [0, count) on all cores and returns when every part is done.
//     pool.parallel_for(rows, 64, [&](int64_t begin, int64_t end) { … });
// Parts are disjoint ranges; a body writes only what belongs to its range, so results do not depend on the
// number of threads. The first exception thrown by a body is thrown again by parallel_for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace anemone {

class ThreadPool {
 public:
  // threads: how many run at once, the caller included; 0 means one per core.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // Called by each worker behind its share of a loop, with the times of its begin and end (of steady_clock, in ns).
  // To be set while no loop runs.
  void watch(std::function<void(int64_t begin_ns, int64_t end_ns)> watcher);

  // Calls body(begin, end) for ranges that cover [0, count), each a multiple of `grain` long but the last.
  // One call at a time uses the workers: a nested or concurrent one runs on its own thread alone.
  void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct Shared;

  int threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace anemone
