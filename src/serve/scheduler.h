// Scheduler: many answers on one bundle, side by side: every round one piece of one prompt, and one token for each
// answer that is under way. It has one thread; sinks hear from that thread.
//     Scheduler scheduler(bundle, tokenizer, {.slots = 4});
//     scheduler.submit({.prompt = ids, .options = options, .sink = sink});
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/answer.h"
#include "runtime/bundle.h"
#include "serve/prefix_cache.h"

namespace anemone::serve {

// Who waits for an answer. Called from the scheduler's thread, one call at a time; nothing is thrown.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // False: nobody waits any more. Asked from round to round.
  virtual bool wanted() const = 0;
  virtual void prompt_progress(int64_t /*done*/, int64_t /*total*/, int64_t /*reused*/) {}
  // One more token, and the text that became certain with it, which may be empty.
  virtual void token(const Generation& so_far, std::string_view fresh) = 0;
  // The last call, with what was held back; unless failed() is.
  virtual void done(Generation answer, std::string_view fresh) = 0;
  virtual void failed(const std::exception& problem) = 0;
};

struct AnswerTask {
  std::vector<int32_t> prompt;
  GenerateOptions options;
  uint64_t seed = 1;
  bool reuse = true;  // what earlier texts left in the cache
  std::shared_ptr<AnswerSink> sink;
};

struct SchedulerOptions {
  size_t slots = 4;
  size_t queue = 64;                // tasks that may wait
  uint64_t cache_bytes = 1u << 30;  // of sessions that nobody uses now
  double answer_seconds = 600;      // of one answer, from its start
  SessionStoreOptions store;        // files of such sessions
};

struct SlotState {
  bool busy = false;
  int64_t task = -1, prompt = 0, done = 0, reused = 0, made = 0, left = -1, position = 0;
  double tokens_per_second = 0;
};

struct SchedulerCounts {
  uint64_t tasks = 0, cancelled = 0, failed = 0, prompt_tokens = 0, reused_tokens = 0, new_tokens = 0,
           rounds = 0;
  uint64_t decoded_in_rounds = 0;  // tokens, one for each answer of a round
  double prompt_seconds = 0, decode_seconds = 0;
  uint64_t waiting = 0, busy = 0, cache_bytes = 0, cached_sessions = 0;
  uint64_t file_bytes = 0, files = 0, files_read = 0;  // of the store

  SchedulerCounts& operator+=(const SchedulerCounts& other);
  // Without what is only now: the rest stays true of a scheduler that has ended.
  SchedulerCounts totals() const;
};

class Scheduler {
 public:
  Scheduler(std::shared_ptr<const Bundle> bundle, std::shared_ptr<const Tokenizer> tokenizer,
            SchedulerOptions options);
  ~Scheduler();  // stop()
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // False when too many wait already, beside those that find a free slot.
  bool submit(std::vector<AnswerTask> tasks);
  // Ends what runs and what waits: sinks hear an ApiError 503. Returns when the thread has ended. For one thread at a
  // time, and never the scheduler's own.
  void stop();
  // The same, without waiting for the end.
  void begin_stop();
  std::vector<SlotState> slots() const;
  SchedulerCounts counts() const;
  bool idle() const;
  const SchedulerOptions& options() const { return options_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    int64_t number = 0;
    AnswerTask task;
  };
  struct Slot {
    int64_t number = -1;  // of the task
    AnswerTask task;
    std::unique_ptr<Session> session;
    std::unique_ptr<Answer> answer;
    std::string fresh;  // text since the sink heard last
    int64_t key = 0, reused = 0;
    bool decoding = false;
    Clock::time_point start, first;

    std::span<const int32_t> unread() const {
      return std::span(task.prompt).subspan(static_cast<size_t>(session->position()));
    }
  };

  // Tokens of a slot on their way through the model.
  struct Turn {
    Slot* slot = nullptr;
    std::span<const int32_t> ids;
    std::span<const float> logits = {};
    int32_t best = 0;  // of a bundle that gives no logits
  };

  void loop();
  bool admit();
  bool better_to_wait(const AnswerTask& task, int64_t key) const;
  void start(Waiting waiting, int64_t key);
  bool wait_for_work();
  void drop_unwanted();
  void read_prompt();
  void decode();
  void forward(std::vector<Turn>& turns);
  void take(const Turn& turn);
  void note_times(const Slot& slot, GenerateStats& stats) const;
  void finish(Slot& slot);
  void count(const Slot& slot, uint64_t SchedulerCounts::*end);
  std::shared_ptr<AnswerSink> end(Slot& slot);
  void fail(Slot& slot, const std::exception& problem);
  void publish();
  int64_t key_of(const AnswerTask& task) const;

  const std::shared_ptr<const Bundle> bundle_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const SchedulerOptions options_;
  const std::vector<int32_t> ends_;
  std::vector<std::unique_ptr<Slot>> active_;
  const std::unique_ptr<SessionStore> store_;  // null: no files
  PrefixCache cache_;
  size_t turn_ = 0;  // whose prompt is read next

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  int64_t next_number_ = 0;
  bool stop_ = false;
  std::vector<SlotState> shown_;
  SchedulerCounts counts_;
  std::thread thread_;
};

}  // namespace anemone::serve
