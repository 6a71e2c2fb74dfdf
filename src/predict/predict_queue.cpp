#include "predict/predict_queue.h"

#include <utility>

namespace anemone {

PredictQueue::PredictQueue(int in_flight) {
  for (int i = 0; in_flight > 1 && i < in_flight; ++i) threads_.emplace_back([this] { work(); });
}

PredictQueue::~PredictQueue() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = cancelled_ = true;
    waiting_.clear();
  }
  added_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void PredictQueue::add(std::function<void()> job) {
  if (threads_.empty()) {
    if (!cancelled()) run(job);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return;
    waiting_.push_back(std::move(job));
  }
  added_.notify_one();
}

void PredictQueue::finish() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return running_ == 0 && waiting_.empty(); });
  if (problem_) std::rethrow_exception(problem_);
}

void PredictQueue::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    waiting_.clear();
  }
  ended_.notify_all();
}

bool PredictQueue::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void PredictQueue::run(const std::function<void()>& job) {
  try {
    job();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!problem_) problem_ = std::current_exception();
    cancelled_ = true;
    waiting_.clear();
  }
}

void PredictQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    std::function<void()> job = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    lock.unlock();
    run(job);
    job = nullptr;  // what it holds goes before anybody hears that it ended
    lock.lock();
    --running_;
    ended_.notify_all();
  }
}

}  // namespace anemone
