// Reference: computes a described model from the checkpoint's tensors in fp32, plainly and without MIL: the
// second way, that everything else is held against.
//     auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open("model.gguf"));
//     Reference reference(checkpoint, describe(*checkpoint));
//     std::vector<float> logits = reference.logits(ids);                 // [tokens, vocab]
// For texts that grow, a session keeps keys and values:
//     ReferenceSession session(reference, {.positions = 512});
//     std::vector<float> last = session.step(prompt_ids, LogitRows::last);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "families/model.h"
#include "reference/rope.h"
#include "reference/weights.h"

namespace anemone {

// Values inside the model, as they come: what it is, of which layer (-1 outside of them), [tokens, width]
// dense. A long text comes in several pieces.
//     embed_out, layer_out, final_norm   the residual stream; attn_residual: in the middle of a layer
//     attn_out, mlp_out                  what the blocks give, before a norm behind them and before they are added
//     q, k, v                            heads side by side; q and k normalised and rotated, not yet scaled
//     gated                              what goes into down
using ReferenceTap = std::function<void(std::string_view name, int64_t layer, std::span<const float> values)>;
// The largest magnitude that a running sum of a product reached, terms taken in the order of the columns: of
// q, k, v, o, gate, up, down (bias included) and of the scaled scores.
using ReferenceSums = std::function<void(std::string_view name, int64_t layer, float largest)>;

struct ReferenceOptions {
  int64_t first_position = 0;  // of the first token
  // How many positions will be used in all, counted from 0: what longrope's choice goes by. 0: those of the
  // first step.
  int64_t positions = 0;
  LongRope long_rope = LongRope::by_length;
  ReferenceTap tap;
  ReferenceSums sums;  // costs about as much again as the step itself
};

enum class LogitRows { all, last, none };

class Reference {
 public:
  // threads: 0 means one per core. The description is one that describe() made for this checkpoint.
  Reference(std::shared_ptr<const Checkpoint> checkpoint, Model model, int threads = 0);

  const Model& model() const { return model_; }
  // The logits of every token, [tokens, vocab]. Error when an id is no row of the vocabulary.
  std::vector<float> logits(std::span<const int32_t> ids, const ReferenceOptions& options = {}) const;

 private:
  friend class ReferenceSession;

  std::shared_ptr<const Checkpoint> checkpoint_;
  Model model_;
  std::unique_ptr<ThreadPool> pool_;
  Weights weights_;
};

// One text on a Reference, which must outlive it.
class ReferenceSession {
 public:
  explicit ReferenceSession(const Reference& reference, ReferenceOptions options = {});

  // Appends tokens and returns their logits: [tokens, vocab], [vocab] of the last one, or nothing.
  std::vector<float> step(std::span<const int32_t> ids, LogitRows rows = LogitRows::all);
  // Where the next token goes.
  int64_t position() const { return options_.first_position + tokens_; }
  // What a layer remembers: [tokens, kv_heads, head_dim], keys normalised and rotated.
  std::span<const float> keys(size_t layer) const { return caches_.at(layer).k; }
  std::span<const float> values(size_t layer) const { return caches_.at(layer).v; }

 private:
  struct Cache {
    std::vector<float> k, v;  // [tokens, kv_heads, head_dim]
  };

  void check_ids(std::span<const int32_t> ids) const;
  void piece(std::span<const int32_t> ids, std::vector<float>& x);
  void attention(size_t layer, std::vector<float>& x, int64_t tokens);
  void attend(const Layer& layer, const Cache& cache, const float* q, int64_t token, int64_t head,
              float* out) const;
  float largest_score_sum(const Layer& layer, const Cache& cache, const std::vector<float>& q,
                          int64_t tokens) const;
  void mlp(size_t layer, std::vector<float>& x, int64_t tokens);
  std::vector<float> project(std::string_view name, size_t layer, const WeightRef& weight,
                             const WeightRef& bias, const std::vector<float>& x, int64_t tokens) const;
  void head_norm_and_rope(const Layer& layer, const WeightRef& norm, std::span<float> heads_of_tokens,
                          int64_t heads, int64_t tokens);
  void normalise(const WeightRef& weight, std::span<float> values, int64_t width) const;
  void tap(std::string_view name, int64_t layer, std::span<const float> values) const;
  std::vector<float> head(const float* x, int64_t tokens) const;

  const Reference& reference_;
  const Model& model_;
  ReferenceOptions options_;
  std::vector<RotaryTable> rotary_;
  std::vector<Cache> caches_;
  int64_t tokens_ = 0;
};

}  // namespace anemone
