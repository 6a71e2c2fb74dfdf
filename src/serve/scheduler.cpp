#include "serve/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace anemone::serve {
namespace {

using Seconds = std::chrono::duration<double>;

// A prompt that shares this much with one that is being read waits for it, and then goes on from a copy.
constexpr int64_t kWorthWaiting = 64;

int64_t shared_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

Scheduler::Scheduler(std::shared_ptr<const Bundle> bundle, std::shared_ptr<const Tokenizer> tokenizer,
                     SchedulerOptions options)
    : bundle_(std::move(bundle)),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      ends_(end_tokens(*bundle_, tokenizer_.get())),
      cache_(options.cache_bytes),
      shown_(options.slots) {
  thread_ = std::thread([this] { loop(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Scheduler::submit(std::vector<AnswerTask> tasks) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || waiting_.size() + tasks.size() > options_.queue + options_.slots) return false;
    for (AnswerTask& task : tasks) waiting_.push_back({next_number_++, std::move(task)});
  }
  changed_.notify_all();
  return true;
}

std::vector<SlotState> Scheduler::slots() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

SchedulerCounts Scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  SchedulerCounts out = counts_;
  out.waiting = waiting_.size();
  return out;
}

bool Scheduler::idle() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && counts_.busy == 0;
}

// Longrope chooses its factors by the length that a text may reach, as `run` does.
int64_t Scheduler::key_of(const AnswerTask& task) const {
  const int64_t capacity = bundle_->tiers().back(), prompt = static_cast<int64_t>(task.prompt.size());
  const int64_t room = capacity - prompt;
  const int64_t positions =
      task.options.max_new > room ? capacity : prompt + std::max<int64_t>(task.options.max_new, 1);
  const auto& ropes = bundle_->info().ropes;
  const bool far = std::any_of(ropes.begin(), ropes.end(), [&](const RopeTable& r) {
    return !r.long_frequencies.empty() && positions > r.original_context;
  });
  const bool near =
      std::any_of(ropes.begin(), ropes.end(), [](const RopeTable& r) { return !r.long_frequencies.empty(); });
  return near && !far ? ropes.front().original_context : 0;  // 0: as far as the context goes
}

void Scheduler::loop() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !waiting_.empty() || !active_.empty(); });
      if (stop_) break;
    }
    drop_unwanted();
    while (admit()) {
    }
    read_prompt();
    decode();
    publish();
  }
  for (const auto& slot : active_) slot->answer->end(StopReason::cancelled);
  while (!active_.empty()) finish(*active_.back());
  std::deque<Waiting> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(waiting_);
  }
  for (const Waiting& w : left) w.task.sink->failed(errorf("the server stops"));
  publish();
}

// A free slot for the task that waits longest, unless it should wait for another one's prompt.
bool Scheduler::admit() {
  if (active_.size() >= options_.slots) return false;
  Waiting next;
  int64_t key = 0;
  {
    const std::lock_guard lock(mutex_);
    auto it = waiting_.begin();
    for (; it != waiting_.end(); ++it) {
      key = key_of(it->task);
      if (!it->task.sink->wanted() || !better_to_wait(it->task, key)) break;
    }
    if (it == waiting_.end()) return false;
    next = std::move(*it);
    waiting_.erase(it);
    ++counts_.tasks;
  }
  if (!next.task.sink->wanted()) {
    const std::lock_guard lock(mutex_);
    ++counts_.cancelled;
    return true;
  }
  start(std::move(next), key);
  return true;
}

bool Scheduler::better_to_wait(const AnswerTask& task, int64_t key) const {
  return task.reuse && std::any_of(active_.begin(), active_.end(), [&](const auto& slot) {
           if (slot->decoding || slot->key != key) return false;
           const int64_t common = shared_prefix(task.prompt, slot->task.prompt);
           return common - slot->session->position() >= kWorthWaiting;
         });
}

void Scheduler::start(Waiting waiting, int64_t key) {
  auto slot = std::make_unique<Slot>();
  slot->number = waiting.number;
  slot->task = std::move(waiting.task);
  slot->key = key;
  slot->start = Clock::now();
  slot->task.options.on_text = [raw = slot.get()](std::string_view piece) { raw->fresh += piece; };
  try {
    if (slot->task.reuse) {
      std::vector<PrefixCache::Running> running;
      for (const auto& other : active_) running.push_back({other->session.get(), other->key});
      slot->session = cache_.take(slot->task.prompt, running, key);
    }
    if (!slot->session) slot->session = std::make_unique<Session>(bundle_, SessionOptions{.positions = key, .chunk = 0, .function = {}});
    slot->reused = slot->session->position();
    slot->answer =
        std::make_unique<Answer>(slot->task.options, tokenizer_, ends_, slot->task.prompt, slot->task.seed);
    active_.push_back(std::move(slot));
  } catch (const std::exception& problem) {
    slot->task.sink->failed(problem);
    const std::lock_guard lock(mutex_);
    ++counts_.failed;
  }
}

void Scheduler::drop_unwanted() {
  const Clock::time_point now = Clock::now();
  for (size_t i = active_.size(); i-- > 0;) {
    Slot& slot = *active_[i];
    const bool late = Seconds(now - slot.start).count() > options_.answer_seconds;
    if (slot.task.sink->wanted() && !late) continue;
    slot.answer->end(late ? StopReason::length : StopReason::cancelled);
    finish(slot);
  }
}

// One piece of one prompt: long ones take turns with each other and with the answers.
void Scheduler::read_prompt() {
  for (size_t i = 0; i < active_.size(); ++i) {
    Slot& slot = *active_[(turn_ + i) % active_.size()];
    if (slot.decoding) continue;
    turn_ = (turn_ + i + 1) % active_.size();
    const auto begin = Clock::now();
    try {
      const std::span<const int32_t> prompt(slot.task.prompt);
      const auto done = static_cast<size_t>(slot.session->position());
      const size_t piece = std::min(static_cast<size_t>(bundle_->most_tokens()), prompt.size() - done);
      const std::span<const int32_t> fed = prompt.subspan(done, piece);
      const bool last = done + piece == prompt.size();
      if (bundle_->info().argmax) {
        const auto token = static_cast<int32_t>(slot.session->forward_best(fed));
        if (last && (slot.decoding = true) && !slot.answer->emit(token)) return finish(slot);
      } else {
        const std::span<const float> logits = slot.session->forward_view(fed, true);
        if (last) {
          slot.decoding = true;
          slot.first = Clock::now();
        }
        slot.task.sink->prompt_progress(slot.session->position(), static_cast<int64_t>(prompt.size()),
                                        slot.reused);
        if (last) take_logits(slot, logits);
      }
    } catch (const std::exception& problem) {
      fail(slot, problem);
    }
    const std::lock_guard lock(mutex_);
    counts_.prompt_seconds += Seconds(Clock::now() - begin).count();
    return;
  }
}

void Scheduler::take_logits(Slot& slot, std::span<const float> logits) {
  const bool goes_on = slot.answer->take(logits);
  if (goes_on && slot.session->position() == slot.session->capacity()) {
    slot.answer->end(StopReason::context);
    return finish(slot);
  }
  if (!goes_on) return finish(slot);
  slot.task.sink->token(slot.answer->so_far(), slot.fresh);
  slot.fresh.clear();
}

// One token for each answer under way.
void Scheduler::decode() {
  std::vector<Slot*> set;
  for (const auto& slot : active_)
    if (slot->decoding) set.push_back(slot.get());
  if (set.empty()) return;
  const auto begin = Clock::now();
  for (Slot* slot : set) {
    try {
      const std::span<const int32_t> fed(&slot->answer->last(), 1);
      if (bundle_->info().argmax) {
        const bool goes_on = slot->answer->emit(static_cast<int32_t>(slot->session->forward_best(fed)));
        if (!goes_on || slot->session->position() == slot->session->capacity()) finish(*slot);
      } else {
        take_logits(*slot, slot->session->forward_view(fed, true));
      }
    } catch (const std::exception& problem) {
      fail(*slot, problem);
    }
  }
  const std::lock_guard lock(mutex_);
  counts_.decode_seconds += Seconds(Clock::now() - begin).count();
  ++counts_.rounds;
}

void Scheduler::finish(Slot& slot) {
  Generation out = slot.answer->finish();
  const Clock::time_point now = Clock::now();
  out.stats.prompt_tokens = static_cast<int64_t>(slot.task.prompt.size());
  out.stats.reused_tokens = slot.reused;
  if (slot.decoding) {
    out.stats.first_seconds = Seconds(slot.first - slot.start).count();
    out.stats.decode_seconds = Seconds(now - slot.first).count();
  }
  {
    const std::lock_guard lock(mutex_);
    counts_.cancelled += out.why == StopReason::cancelled;
    counts_.prompt_tokens += static_cast<uint64_t>(slot.session->position() - slot.reused);
    counts_.reused_tokens += static_cast<uint64_t>(slot.reused);
    counts_.new_tokens += static_cast<uint64_t>(out.stats.new_tokens);
  }
  const std::shared_ptr<AnswerSink> sink = slot.task.sink;
  const std::string fresh = std::move(slot.fresh);
  cache_.keep(std::move(slot.session), slot.key);
  std::erase_if(active_, [&](const auto& s) { return s.get() == &slot; });
  publish();
  sink->done(std::move(out), fresh);
}

void Scheduler::fail(Slot& slot, const std::exception& problem) {
  const std::shared_ptr<AnswerSink> sink = slot.task.sink;
  std::erase_if(active_, [&](const auto& s) { return s.get() == &slot; });
  {
    const std::lock_guard lock(mutex_);
    ++counts_.failed;
  }
  publish();
  sink->failed(problem);
}

// What others may look at.
void Scheduler::publish() {
  const std::lock_guard lock(mutex_);
  shown_.assign(options_.slots, {});
  for (size_t i = 0; i < active_.size(); ++i) {
    const Slot& slot = *active_[i];
    SlotState& s = shown_[i];
    s.busy = true;
    s.task = slot.number;
    s.prompt = static_cast<int64_t>(slot.task.prompt.size());
    s.position = slot.session ? slot.session->position() : 0;
    s.done = std::min(s.position, s.prompt);
    s.reused = slot.reused;
    s.made = slot.answer ? slot.answer->made() : 0;
    const double seconds = slot.decoding ? Seconds(Clock::now() - slot.first).count() : 0;
    s.tokens_per_second = seconds > 0 ? static_cast<double>(s.made) / seconds : 0;
  }
  counts_.busy = active_.size();
  counts_.cache_bytes = cache_.bytes();
  counts_.cached_sessions = cache_.sessions();
}

}  // namespace anemone::serve
