#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace anemone {
namespace {

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long a worker looks for the next loop before it sleeps: about 20 µs, the gap between two kernels of a
// plan.
constexpr int kSpins = 2000;

}  // namespace

struct ThreadPool::Shared {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;
  std::atomic<bool> busy{false};  // a parallel_for uses the workers

  // One loop; written under `mutex` before `generation` moves.
  const std::function<void(int64_t, int64_t)>* body = nullptr;
  int64_t count = 0, chunk = 1;
  std::atomic<int64_t> next{0};
  std::atomic<int> running{0};
  std::atomic<uint64_t> generation{0};
  std::atomic<bool> stop{false};
  std::exception_ptr failure;

  void take_parts() {
    try {
      for (;;) {
        const int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
        if (begin >= count) return;
        (*body)(begin, std::min(count, begin + chunk));
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next.store(count, std::memory_order_relaxed);
    }
  }

  void work() {
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && generation.load(std::memory_order_acquire) == seen && !stop; ++spin)
        pause_cpu();
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation.load(std::memory_order_acquire) != seen; });
      }
      if (stop) return;
      seen = generation.load(std::memory_order_acquire);
      take_parts();
      running.fetch_sub(1, std::memory_order_release);
    }
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency())),
      shared_(std::make_unique<Shared>()) {
  for (int i = 1; i < threads_; ++i) shared_->workers.emplace_back([s = shared_.get()] { s->work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->wake.notify_all();
  for (std::thread& worker : shared_->workers) worker.join();
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (count + grain - 1) / grain;
  if (threads_ == 1 || grains == 1 || shared_->busy.exchange(true, std::memory_order_acquire))
    return body(0, count);
  // A few parts per thread, so that a slow core does not hold up the others.
  const int64_t parts = std::min<int64_t>(grains, int64_t{4} * threads_);
  {
    std::lock_guard lock(shared_->mutex);
    shared_->body = &body;
    shared_->count = count;
    shared_->chunk = (grains + parts - 1) / parts * grain;
    shared_->next.store(0, std::memory_order_relaxed);
    shared_->running.store(threads_ - 1, std::memory_order_relaxed);
    shared_->failure = nullptr;
    shared_->generation.fetch_add(1, std::memory_order_release);
  }
  shared_->wake.notify_all();
  shared_->take_parts();
  for (int spin = 0; shared_->running.load(std::memory_order_acquire) != 0; ++spin)
    spin < kSpins ? pause_cpu() : std::this_thread::yield();
  const std::exception_ptr failure = std::exchange(shared_->failure, nullptr);
  shared_->busy.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace anemone
