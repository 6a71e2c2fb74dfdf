// Timeline: what ran when, on which thread: the steps of functions, the calls that they belong to, the tokens that
// those belong to. A backend that is given one (PredictOptions::timeline) writes to it; otherwise nothing is measured.
//     auto timeline = std::make_shared<Timeline>();
//     auto backend = cpu_backend({.timeline = timeline});   …run…
//     timeline->totals();                                   // per kind of step and name, the longest first
//     spill("t.json", timeline->trace());                   // for Perfetto and chrome://tracing
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace anemone {

class Timeline {
 public:
  // What a slice is, from the outside in. A part is a worker's share of a step of another thread.
  enum class Level : uint8_t { tokens, call, step, part };

  struct Total {
    std::string kind;  // an operation, or what a fused step is: "conv", "attention"
    std::string name;  // of the (last) operation
    int64_t count = 0;
    double ms = 0;
  };

  static int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  // A slice of the calling thread that has just ended. Any thread may add.
  void add(Level level, std::string_view kind, std::string_view name, int64_t begin_ns, int64_t end_ns);

  // The thread that leads begins a step: parts of it that other threads add are called after it.
  void begin_step(std::string_view kind);
  void add_part(int64_t begin_ns, int64_t end_ns);

  // Of the steps; those with the same kind and name together, the longest first.
  std::vector<Total> totals() const;
  // The time of all calls, in ms: what the shares of steps are of.
  double calls_ms() const;
  // As JSON in Chrome's trace event format: a row for each thread, slices inside one another.
  std::string trace() const;
  // Forgets what was added so far: a warm-up.
  void clear();

 private:
  struct Slice {
    Level level;
    uint32_t kind, name;  // in words_
    uint32_t thread;      // in the order in which they came
    int64_t begin_ns, end_ns;
  };

  uint32_t word(std::string_view text);
  void push(Level level, std::string_view kind, std::string_view name, int64_t begin_ns, int64_t end_ns);

  mutable std::mutex mutex_;
  std::vector<Slice> slices_;
  std::vector<std::string> words_;
  std::map<std::string, uint32_t, std::less<>> numbers_;
  std::map<std::thread::id, uint32_t> threads_;
  std::string step_;  // that runs
};

// Adds a slice from here to the end of the scope; nothing without a timeline.
//     const TimedSlice slice(timeline, Timeline::Level::call, "call", function);
class TimedSlice {
 public:
  TimedSlice(Timeline* timeline, Timeline::Level level, std::string_view kind, std::string_view name)
      : timeline_(timeline), level_(level) {
    if (!timeline_) return;
    kind_ = kind;
    name_ = name;
    begin_ns_ = Timeline::now_ns();
  }
  ~TimedSlice() {
    if (timeline_) timeline_->add(level_, kind_, name_, begin_ns_, Timeline::now_ns());
  }
  TimedSlice(const TimedSlice&) = delete;
  TimedSlice& operator=(const TimedSlice&) = delete;

 private:
  Timeline* timeline_;
  Timeline::Level level_;
  std::string kind_, name_;
  int64_t begin_ns_ = 0;
};

}  // namespace anemone
