// Session: one text on a bundle: its states, its position. Many sessions can share a bundle.
//     Session session(bundle, {.positions = 300});
//     std::vector<float> logits = session.forward(prompt, true);     // fills the cache, chunk by chunk
//     Session other = session.fork();                                // goes on from here, on its own
//     session.rewind(session.common_prefix(next_prompt));            // only what differs is computed anew
// A session belongs to one thread at a time; sessions of one bundle run beside each other, each with the same
// results as alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/bundle.h"
#include "runtime/stage_pass.h"

namespace anemone {

struct SessionOptions {
  int64_t positions =
      0;  // how many it will use in all; 0: as many as the longest context. Longrope's choice goes by it
  int64_t chunk = 0;     // most tokens at once; 0: what the functions take
  std::string function;  // only this one; empty: whichever fits best
};

// Thrown by a call that its progress callback stopped. The session stays usable, with the chunks that were
// done.
class Cancelled : public Error {
 public:
  Cancelled() : Error("cancelled") {}
};

// Bytes, as the backend holds them.
struct MemoryUse {
  uint64_t weights = 0;  // mapped from the bundle's files, shared by all of its sessions
  uint64_t cache = 0;    // what this session remembers: keys, values, recurrent states and their snapshots
  uint64_t arena = 0;    // working memory, shared by sessions that take turns
};

// What a session remembers, apart from the bundle: for files (session_file.h). Caches have a row for each token.
struct SessionPast {
  struct Point {  // what recurrent layers remembered when so many tokens had been seen
    int64_t position = 0;
    std::vector<std::vector<Kept>> stages;
  };
  std::vector<int32_t> ids;
  int64_t tier = 0;
  std::vector<std::vector<Kept>> stages;
  std::vector<Point> points;
};

struct Flight;  // tokens on their way through the stages, chunk by chunk

class Session {
 public:
  // Told how many of a call's tokens are done, before each chunk; false stops the call.
  using Progress = std::function<bool(int64_t done, int64_t total)>;

  explicit Session(std::shared_ptr<const Bundle> bundle, SessionOptions options = {});

  // Appends tokens. The logits of all of them, [tokens, vocab], or of the last alone. Error at the context's
  // end, and for a bundle that gives only the best token.
  std::vector<float> forward(std::span<const int32_t> ids, bool last_only = false);
  // The same in memory of the session, which holds it until its next call.
  std::span<const float> forward_view(std::span<const int32_t> ids, bool last_only = false);
  // The logits of all of them as forward() gives them token by token, bit for bit. Where goes_in_turn(), several tokens
  // need one pass over the weights: Backend::most_in_turn() at most.
  std::vector<float> forward_in_turn(std::span<const int32_t> ids);
  bool goes_in_turn() const;
  // Appends tokens and gives the best next token after the last; works for every bundle.
  int64_t forward_best(std::span<const int32_t> ids);

  // A session of its own with the same past.
  Session fork() const;
  SessionPast past() const;
  // Takes what past() of another session of the same bundle gave, with the same options; this one is new. Error when it
  // does not fit; the session is then of no use.
  void assume(SessionPast past);
  // Forgets all tokens from `position` on. What comes next is as in a session that never saw them. A recurrent state
  // cannot be cut back: it is taken from the nearest snapshot before, and the tokens since then are computed again.
  void rewind(int64_t position);
  // From now on rewind() to the present position computes nothing again, however many calls come after it. One position
  // at a time: the last pin counts, until a rewind goes behind it.
  void pin() { pinned_ = position_; }
  // How many of these tokens are the session's past already, in the same order from the start.
  int64_t common_prefix(std::span<const int32_t> ids) const;
  // Makes room: keeps the first `first` tokens and the last `recent` and forgets the rest. The kept keys carry
  // the rotation of their old positions, so the recent tokens are computed again at their new ones: what comes
  // next is as in a session that was given just the kept tokens. Only the first rows stay as they are.
  void slide(int64_t first, int64_t recent);

  // Makes plans and memory for a call that begins with about so many tokens, before it is known which. For idle
  // moments: what it makes serves every session of the bundle.
  void get_ready(int64_t tokens);
  void watch(Progress progress) { progress_ = std::move(progress); }

  int64_t position() const { return position_; }
  const std::vector<int32_t>& ids() const { return ids_; }  // position() of them
  int64_t capacity() const;
  MemoryUse memory() const;
  // Bytes that went from the memory of calls into the session's since it was made (logits, rows of caches that the host
  // keeps, recurrent states and their snapshots), or that calls could not read where they lay.
  uint64_t copied_bytes() const { return copied_bytes_; }
  const std::shared_ptr<const Bundle>& bundle() const { return bundle_; }
  // The first operation that left the range of fp16, in fp16 arithmetic.
  const std::optional<NumericFault>& fault() const { return fault_; }

 private:
  struct Chunk {
    const StageFunction* function = nullptr;  // of the first stage
    int64_t tokens = 0;                       // real ones
    int64_t width = 0;                        // what the function takes; the rest is padding
  };
  using Snapshot = SessionPast::Point;
  // What is wanted of the tokens of a call.
  enum class Want : uint8_t { nothing, logits, last_logits, best };
  friend class Batch;
  friend struct Flight;

  Chunk choose(int64_t left) const;
  void check(std::span<const int32_t> ids) const;
  // For so many rows of logits; Error for a bundle that gives none.
  void make_room(size_t rows);
  bool head_takes_one() const;
  int64_t head_column(const Chunk& chunk) const;
  // Feeds tokens chunk by chunk, moving to a longer tier where this one is full.
  void advance(std::span<const int32_t> ids, Want want);
  // All of them side by side, each to its end. Nothing runs unless every flight can.
  static void advance(std::span<Flight> flights);
  static void run_chunks(std::span<Flight* const> flights);
  static std::string flights_text(std::span<Flight* const> flights);
  static void run_layers(std::span<Flight* const> flights);
  static void run_heads(std::span<Flight* const> flights);
  void begin_chunk(Flight& flight);
  // A pass over the tokens of the flight's chunk, which begins at `position`.
  std::unique_ptr<StagePass> make_pass(const Flight& flight, int64_t position, StageCalls& calls) const;
  // Tokens one by one, all of them in one walk through the weights; `rows` of logits are there already.
  void run_in_turn(std::span<const int32_t> ids, int64_t rows);
  static void finish(std::span<Flight* const> flights);
  void end_chunk(Flight& flight);
  void take_head(Flight& flight, const StageFunction& function, const Call& call);

  // session_past.cpp
  const StageFunction& layer_function(size_t stage) const;  // any of the tier in use
  void prepare_kept(size_t stage, const StageFunction& function);
  void keep_outputs(size_t stage, const StageFunction& function, const Call& call, const Chunk& chunk);
  void move_to_tier(int64_t context);
  void take_snapshot();
  void thin_snapshots();
  void restore(const Snapshot& snapshot);
  void forget_recurrent();

  std::shared_ptr<const Bundle> bundle_;
  SessionOptions options_;
  int64_t tier_;  // the context in use
  int64_t position_ = 0;
  std::vector<int32_t> ids_;
  Progress progress_;
  std::vector<std::unique_ptr<State>> states_;  // by stage
  std::vector<std::vector<Kept>> kept_;         // by stage, where the host keeps caches
  StageCalls calls_;
  std::deque<StageCalls> turn_calls_;  // of tokens that go in turn, by their place
  std::vector<float> logits_;          // what forward_view() gives
  int64_t best_ = -1;                  // what forward_best() gives, with the score of it
  float best_score_ = 0;
  uint64_t copied_bytes_ = 0;
  std::vector<Snapshot> snapshots_;  // ascending; only with recurrent states
  int64_t pinned_ = -1;              // whose snapshot is kept
  std::optional<NumericFault> fault_;
};

}  // namespace anemone
