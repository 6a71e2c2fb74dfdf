#include "redact/window_pool.h"

#include <algorithm>

namespace anemone::redact {

WindowPool::WindowPool(std::shared_ptr<const RedactModel> model, int threads) : model_(std::move(model)) {
  const unsigned count =
      threads > 0 ? static_cast<unsigned>(threads) : std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
}

WindowPool::~WindowPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    waiting_.clear();
  }
  sent_.notify_all();
  for (std::thread& t : threads_) t.join();
}

std::shared_ptr<WindowJob> WindowPool::send(std::vector<int32_t> ids, size_t from, size_t count) {
  auto job = std::make_shared<WindowJob>();
  job->ids = std::move(ids);
  job->from = from;
  job->count = count;
  {
    const std::lock_guard lock(mutex_);
    tokens_ += count;
    ++unclaimed_;
    waiting_.push_back(job);
  }
  sent_.notify_one();
  return job;
}

void WindowPool::wait(const WindowJob& job) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return job.done.load(); });
}

void WindowPool::work() {
  while (true) {
    std::shared_ptr<WindowJob> job;
    {
      std::unique_lock lock(mutex_);
      sent_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      job->scores = model_->scores(job->ids, job->from, job->count);
    } catch (...) {
      job->problem = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      job->done = true;
    }
    done_.notify_all();
  }
}

}  // namespace anemone::redact
