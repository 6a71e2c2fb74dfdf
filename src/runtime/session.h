// Session: one text on a bundle: its states, its position. Many sessions can share a bundle.
//     Session session(bundle, {.positions = 300});
//     session.forward(prompt);                     // fills the cache, chunk by chunk
//     int64_t next = session.best();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/bundle.h"

namespace anemone {

struct SessionOptions {
  int64_t positions =
      0;  // how many it will use in all; 0: as many as the longest context. Longrope's choice goes by it
  int64_t chunk = 0;     // most tokens at once; 0: what the functions take
  std::string function;  // only this one; empty: whichever fits best
};

class Session {
 public:
  explicit Session(std::shared_ptr<const Bundle> bundle, SessionOptions options = {});

  // Appends tokens. The logits of all of them, [tokens, vocab], or of the last alone. Error at the context's
  // end, and for a bundle that gives only the best token.
  std::vector<float> forward(std::span<const int32_t> ids, bool last_only = false);
  // Appends tokens and gives the best next token after the last; works for every bundle.
  int64_t forward_best(std::span<const int32_t> ids);

  int64_t position() const { return position_; }
  int64_t capacity() const { return bundle_->tiers().back(); }
  // The first operation that left half's range, in fp16 arithmetic.
  const std::optional<NumericFault>& fault() const { return fault_; }

 private:
  struct Chunk {
    const StageFunction* function = nullptr;  // of the layer stages, by name also in the others
    int64_t tokens = 0;                       // real ones
    int64_t width = 0;                        // what the function takes; the rest is padding
  };
  using Arrays = std::map<std::string, Array>;

  Chunk choose(int64_t left) const;
  void move_to_tier(int64_t context);
  Arrays common_inputs(const Chunk& chunk) const;
  Array run_layers(std::span<const int32_t> ids, const Chunk& chunk);
  void run_stage(size_t stage, const Chunk& chunk, Arrays& inputs, Array& x);
  void run_head(const Array& y, const Chunk& chunk,
                const std::function<void(const HeadPiece&, const Prediction&)>& take);
  void advance(std::span<const int32_t> ids,
               const std::function<void(const Array& y, const Chunk& chunk, bool last)>& done);
  void keep_rows(size_t stage, const Prediction& result, const Chunk& chunk);

  std::shared_ptr<const Bundle> bundle_;
  SessionOptions options_;
  int64_t tier_;  // the context in use
  int64_t position_ = 0;
  std::vector<std::unique_ptr<State>> states_;        // by stage
  std::vector<std::map<std::string, Array>> caches_;  // kv io: by stage, k_cache_i and v_cache_i
  Prediction whole_;  // of a stage that holds layers and head: what the last call gave
  std::optional<NumericFault> fault_;
};

}  // namespace anemone
