#include "serve/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/batch.h"
#include "serve/api_error.h"

namespace anemone::serve {
namespace {

using Seconds = std::chrono::duration<double>;

// A prompt that shares this much with one that is being read waits for it, and then goes on from a copy.
constexpr int64_t kWorthWaiting = 64;
// After so long without a request, texts are saved.
constexpr auto kPause = std::chrono::milliseconds(300);

}  // namespace

SchedulerCounts& SchedulerCounts::operator+=(const SchedulerCounts& other) {
  for (auto count :
       {&SchedulerCounts::tasks, &SchedulerCounts::cancelled, &SchedulerCounts::failed,
        &SchedulerCounts::prompt_tokens, &SchedulerCounts::reused_tokens, &SchedulerCounts::new_tokens,
        &SchedulerCounts::rounds, &SchedulerCounts::decoded_in_rounds, &SchedulerCounts::waiting,
        &SchedulerCounts::busy, &SchedulerCounts::cache_bytes, &SchedulerCounts::cached_sessions,
        &SchedulerCounts::file_bytes, &SchedulerCounts::files, &SchedulerCounts::files_read})
    this->*count += other.*count;
  prompt_seconds += other.prompt_seconds;
  decode_seconds += other.decode_seconds;
  return *this;
}

SchedulerCounts SchedulerCounts::totals() const {
  SchedulerCounts out = *this;
  out.waiting = out.busy = out.cache_bytes = out.cached_sessions = out.file_bytes = out.files = 0;
  return out;
}

Scheduler::Scheduler(std::shared_ptr<const Bundle> bundle, std::shared_ptr<const Tokenizer> tokenizer,
                     SchedulerOptions options)
    : bundle_(std::move(bundle)),
      tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      ends_(end_tokens(*bundle_, tokenizer_.get())),
      store_(options_.store.folder.empty() ? nullptr
                                           : std::make_unique<SessionStore>(bundle_, options_.store)),
      cache_(options_.cache_bytes, store_.get()),
      shown_(options_.slots) {
  thread_ = std::thread([this] { loop(); });
}

Scheduler::~Scheduler() { stop(); }

void Scheduler::begin_stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void Scheduler::stop() {
  begin_stop();
  if (thread_.joinable()) thread_.join();
}

bool Scheduler::submit(std::vector<AnswerTask> tasks) {
  {
    const std::lock_guard lock(mutex_);
    const size_t free = options_.slots - std::min<size_t>(options_.slots, counts_.busy);
    if (stop_ || waiting_.size() + tasks.size() > options_.queue + free) return false;
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
  if (store_) {
    out.file_bytes = store_->bytes();
    out.files = store_->files();
    out.files_read = store_->loaded();
  }
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

// False when the server stops.
bool Scheduler::wait_for_work() {
  std::unique_lock lock(mutex_);
  const auto work = [&] { return stop_ || !waiting_.empty() || !active_.empty(); };
  while (cache_.unsaved() && !changed_.wait_for(lock, kPause, work)) {
    lock.unlock();
    cache_.save_one();
    lock.lock();
  }
  changed_.wait(lock, work);
  return !stop_;
}

void Scheduler::loop() {
  while (wait_for_work()) {
    drop_unwanted();
    while (admit()) {
    }
    read_prompt();
    decode();
    publish();
  }
  const ApiError stops(503, "the server stops");
  while (!active_.empty()) {
    Slot& slot = *active_.back();
    count(slot, &SchedulerCounts::failed);
    cache_.keep(std::move(slot.session), slot.key);
    end(slot)->failed(stops);
  }
  std::deque<Waiting> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(waiting_);
  }
  for (const Waiting& w : left) w.task.sink->failed(stops);
  cache_.save_all();
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
    if (!slot->session)
      slot->session =
          std::make_unique<Session>(bundle_, SessionOptions{.positions = key, .chunk = 0, .function = {}});
    slot->reused = slot->session->position();
    slot->answer =
        std::make_unique<Answer>(slot->task.options, tokenizer_, ends_, slot->task.prompt, slot->task.seed);
    slot->task.sink->prompt_progress(slot->reused, static_cast<int64_t>(slot->task.prompt.size()),
                                     slot->reused);
    active_.push_back(std::move(slot));
  } catch (const std::exception& problem) {
    slot->task.sink->failed(fault_of_server("the answer could not begin", problem));
    const std::lock_guard lock(mutex_);
    ++counts_.failed;
  }
}

void Scheduler::drop_unwanted() {
  std::deque<Waiting> gone;  // who hung up in the queue makes room for others; sinks end outside of the lock
  {
    const std::lock_guard lock(mutex_);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->task.sink->wanted()) {
        ++it;
        continue;
      }
      gone.push_back(std::move(*it));
      it = waiting_.erase(it);
      ++counts_.cancelled;
    }
  }
  const Clock::time_point now = Clock::now();
  for (size_t i = active_.size(); i-- > 0;) {
    Slot& slot = *active_[i];
    const bool late = Seconds(now - slot.start).count() > options_.answer_seconds;
    if (slot.task.sink->wanted() && !late) continue;
    slot.answer->end(late ? StopReason::length : StopReason::cancelled);
    finish(slot);
  }
}

// One piece of one prompt: long ones take turns with each other and with the answers. The last token of a prompt is
// left to decode(): so its logits come from the same call, with the same bits, whether the tokens before it were read
// now or known already. A request that comes again with its seed gets the same answer.
void Scheduler::read_prompt() {
  for (size_t i = 0; i < active_.size(); ++i) {
    Slot& slot = *active_[(turn_ + i) % active_.size()];
    if (slot.decoding || slot.unread().size() == 1) continue;
    turn_ = (turn_ + i + 1) % active_.size();
    const size_t piece = std::min(static_cast<size_t>(bundle_->most_tokens()), slot.unread().size() - 1);
    const auto begin = Clock::now();
    std::vector<Turn> turns = {{.slot = &slot, .ids = slot.unread().first(piece)}};
    forward(turns);
    const std::lock_guard lock(mutex_);
    counts_.prompt_seconds += Seconds(Clock::now() - begin).count();
    return;
  }
}

// One token for each answer under way, and the last token of prompts.
void Scheduler::decode() {
  std::vector<Turn> turns;
  for (const auto& slot : active_)
    if (slot->decoding)
      turns.push_back({.slot = slot.get(), .ids = {&slot->answer->last(), 1}});
    else if (slot->unread().size() == 1)
      turns.push_back({.slot = slot.get(), .ids = slot->unread()});
  if (turns.empty()) return;
  const auto begin = Clock::now();
  forward(turns);
  const std::lock_guard lock(mutex_);
  counts_.decode_seconds += Seconds(Clock::now() - begin).count();
  ++counts_.rounds;
  counts_.decoded_in_rounds += turns.size();
}

// The tokens of every turn go through the model in one pass over the weights, and each slot takes what comes out.
void Scheduler::forward(std::vector<Turn>& turns) {
  const bool best = bundle_->info().argmax;
  std::vector<Batch::Turn> batch;
  for (const Turn& turn : turns) batch.push_back({.session = turn.slot->session.get(), .ids = turn.ids});
  try {
    best ? Batch::forward_best(batch) : Batch::forward(batch);
  } catch (const std::exception& problem) {
    const ApiError ours = fault_of_server("the model could not go on", problem);
    for (const Turn& turn : turns) fail(*turn.slot, ours);
    return;
  }
  for (size_t i = 0; i < turns.size(); ++i) {
    turns[i].logits = batch[i].logits;
    turns[i].best = static_cast<int32_t>(batch[i].best);
    try {
      take(turns[i]);
    } catch (const GrammarError& problem) {
      fail(*turns[i].slot, problem);
    } catch (const std::exception& problem) {
      fail(*turns[i].slot, fault_of_server("the answer could not go on", problem));
    }
  }
}

void Scheduler::take(const Turn& turn) {
  Slot& slot = *turn.slot;
  const auto prompt = static_cast<int64_t>(slot.task.prompt.size()), position = slot.session->position();
  if (!slot.decoding) {
    slot.decoding = position >= prompt;
    slot.first = Clock::now();
    slot.task.sink->prompt_progress(position, prompt, slot.reused);
    if (!slot.decoding) return;
  }
  const bool goes_on = bundle_->info().argmax ? slot.answer->emit(turn.best) : slot.answer->take(turn.logits);
  if (goes_on && position == slot.session->capacity()) slot.answer->end(StopReason::context);
  if (!goes_on || position == slot.session->capacity()) return finish(slot);
  GenerateStats& stats = slot.answer->stats();
  note_times(slot, stats);
  slot.task.sink->token(slot.answer->so_far(), slot.fresh);
  slot.fresh.clear();
}

void Scheduler::note_times(const Slot& slot, GenerateStats& stats) const {
  stats.prompt_tokens = static_cast<int64_t>(slot.task.prompt.size());
  stats.reused_tokens = slot.reused;
  stats.new_tokens = slot.answer->made();
  if (!slot.decoding) return;
  stats.first_seconds = Seconds(slot.first - slot.start).count();
  stats.decode_seconds = Seconds(Clock::now() - slot.first).count();
}

void Scheduler::finish(Slot& slot) {
  note_times(slot, slot.answer->stats());
  count(slot, slot.answer->so_far().why == StopReason::cancelled ? &SchedulerCounts::cancelled : nullptr);
  Generation out = slot.answer->finish();
  const std::string fresh = std::move(slot.fresh);
  cache_.keep(std::move(slot.session), slot.key);
  end(slot)->done(std::move(out), fresh);
}

// What an answer cost, however it ended; and how it did.
void Scheduler::count(const Slot& slot, uint64_t SchedulerCounts::*end) {
  const std::lock_guard lock(mutex_);
  const auto prompt = static_cast<int64_t>(slot.task.prompt.size());
  counts_.prompt_tokens +=
      static_cast<uint64_t>(std::max<int64_t>(std::min(slot.session->position(), prompt) - slot.reused, 0));
  counts_.reused_tokens += static_cast<uint64_t>(slot.reused);
  counts_.new_tokens += static_cast<uint64_t>(slot.answer->made());
  if (end) ++(counts_.*end);
}

// The slot is free; its sink is still to hear why.
std::shared_ptr<AnswerSink> Scheduler::end(Slot& slot) {
  std::shared_ptr<AnswerSink> sink = slot.task.sink;
  std::erase_if(active_, [&](const auto& s) { return s.get() == &slot; });
  publish();
  return sink;
}

void Scheduler::fail(Slot& slot, const std::exception& problem) {
  count(slot, &SchedulerCounts::failed);
  end(slot)->failed(problem);
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
    s.left = slot.task.options.max_new - s.made;
    const double seconds = slot.decoding ? Seconds(Clock::now() - slot.first).count() : 0;
    s.tokens_per_second = seconds > 0 ? static_cast<double>(s.made) / seconds : 0;
  }
  counts_.busy = active_.size();
  counts_.cache_bytes = cache_.bytes();
  counts_.cached_sessions = cache_.sessions();
}

}  // namespace anemone::serve
