#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
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

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// How long a worker looks for the next loop before it sleeps: about 20 µs, the gap between two kernels of a
// plan.
constexpr int kSpins = 2000;

// The gate of a loop: its number, whether it is open, and how many workers are inside.
constexpr uint64_t kInside = 0xffff, kOpen = 0x10000, kNumber = 0x20000;

}  // namespace

struct ThreadPool::Shared {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;
  std::atomic<bool> busy{false};  // a parallel_for uses the workers

  // One loop; written while the gate is closed.
  const std::function<void(int64_t, int64_t)>* body = nullptr;
  int64_t count = 0, grain = 1;
  int64_t shares =
      1;  // a part is one of so many of what is left: parts get smaller, so that all end together
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::function<void(int64_t, int64_t)> watcher;

  // A late worker finds the gate closed: nobody waits for a worker that has not started.
  std::atomic<uint64_t> gate{0};
  std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};

  void take_parts() {
    try {
      for (;;) {
        int64_t begin = next.load(std::memory_order_relaxed), part = 0;
        do {
          if (begin >= count) return;
          part = std::max(grain, (count - begin) / shares / grain * grain);
        } while (!next.compare_exchange_weak(begin, begin + part, std::memory_order_relaxed));
        (*body)(begin, std::min(count, begin + part));
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next.store(count, std::memory_order_relaxed);
    }
  }

  // A loop that this worker has not been in is open.
  bool called(uint64_t seen) const {
    const uint64_t now = gate.load();
    return (now & kOpen) && now / kNumber != seen;
  }

  void work() {
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && !called(seen) && !stop; ++spin) pause_cpu();
      if (!called(seen)) {
        std::unique_lock lock(mutex);
        ++sleeping;
        wake.wait(lock, [&] { return stop || called(seen); });
        --sleeping;
      }
      if (stop) return;
      uint64_t now = gate.load();
      if (!(now & kOpen) || now / kNumber == seen) continue;
      if (!gate.compare_exchange_strong(now, now + 1, std::memory_order_acquire)) continue;
      seen = now / kNumber;
      if (watcher) {
        const int64_t begin = now_ns();
        take_parts();
        watcher(begin, now_ns());
      } else {
        take_parts();
      }
      gate.fetch_sub(1, std::memory_order_release);
    }
  }

  void open(const std::function<void(int64_t, int64_t)>& loop, int64_t n, int64_t least) {
    body = &loop;
    count = n;
    grain = least;
    next.store(0, std::memory_order_relaxed);
    gate.store((gate.load() / kNumber + 1) * kNumber + kOpen);
    if (sleeping.load() == 0) return;
    { std::lock_guard lock(mutex); }  // one that is about to sleep is asleep after this
    wake.notify_all();
  }

  // Waits for the workers that are inside and lets no other in.
  void close() {
    for (int spin = 0;; ++spin) {
      uint64_t now = gate.load() & ~kInside;
      if (gate.compare_exchange_weak(now, now - kOpen, std::memory_order_acquire)) return;
      spin < kSpins ? pause_cpu() : std::this_thread::yield();
    }
  }
};

ThreadPool::ThreadPool(int threads)
    : threads_(threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency())),
      shared_(std::make_unique<Shared>()) {
  shared_->shares = int64_t{2} * threads_;
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

void ThreadPool::watch(std::function<void(int64_t, int64_t)> watcher) {
  shared_->watcher = std::move(watcher);
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (count + grain - 1) / grain;
  if (threads_ == 1 || grains == 1 || shared_->busy.exchange(true, std::memory_order_acquire))
    return body(0, count);
  shared_->open(body, count, grain);
  shared_->take_parts();
  shared_->close();
  const std::exception_ptr failure = std::exchange(shared_->failure, nullptr);
  shared_->busy.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace anemone
