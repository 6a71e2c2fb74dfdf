#include "redact/window_pool.h"

#include <algorithm>
#include <thread>

namespace anemone::redact {

WindowPool::WindowPool(std::shared_ptr<const RedactModel> model, int threads)
    : model_(std::move(model)),
      queue_(threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))) {}

// What goes wrong is the job's own: other windows go on.
std::shared_ptr<WindowJob> WindowPool::send(std::vector<int32_t> ids, size_t from, size_t count) {
  auto job = std::make_shared<WindowJob>();
  job->ids = std::move(ids);
  job->from = from;
  job->count = count;
  tokens_ += count;
  ++unclaimed_;
  queue_.add([this, job] {
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
  });
  return job;
}

void WindowPool::wait(const WindowJob& job) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return job.done.load(); });
}

}  // namespace anemone::redact
