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
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
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
//     attn_out, mlp_out                  what the blocks give (attn_out: of any mixer), before a norm behind them,
//                                        a scale, and before they are added
//     q, k, v                            heads side by side; q and k normalised and rotated, not yet scaled
//     gate, up                           what the two projections of an MLP give (a plain one has no gate)
//     gated                              what goes into down
//     router, shares                     what experts are chosen by, and by how much each choice counts (0: not chosen)
//     chosen_out, shared_out             what the chosen experts give together, and what a shared one gives
//     shared_share                       by how much the shared one counts
//     recurrent                          what a recurrent layer remembers after each token
using ReferenceTap = std::function<void(std::string_view name, int64_t layer, std::span<const float> values)>;
// The largest magnitude that a running sum of a product reached, terms taken in the order of the columns: of
// q, k, v, o, gate, up, down (bias included) and of the scaled scores.
using ReferenceSums = std::function<void(std::string_view name, int64_t layer, float largest)>;

// What a layer remembers of the tokens so far.
struct LayerMemory {
  std::vector<float> k, v;     // [tokens, kv_heads, head_dim], keys normalised and rotated
  std::vector<float> columns;  // of a recurrent layer: its state, the newest column last
};

struct ReferenceOptions {
  int64_t first_position = 0;  // of the first token
  // How many positions will be used in all, counted from 0: what longrope's choice goes by. 0: those of the
  // first step.
  int64_t positions = 0;
  LongRope long_rope = LongRope::by_length;
  std::vector<int32_t> types;  // of the tokens, where the model has token types; empty: all 0
  // Choices that tokens take whatever their scores are, by layer and by the place of the token in the text: where two
  // are as good, somebody else may have taken the other one.
  std::map<std::pair<size_t, int64_t>, std::vector<size_t>> taken;
  ReferenceTap tap;
  ReferenceSums sums;  // costs about as much again as the step itself
};

enum class LogitRows { all, last, none };

// Tokens of a probe that follow each other.
struct TokenRun {
  int64_t index = 0;  // how many tokens come before the first
  int64_t first = 0;  // which of the ids it is
  int64_t count = 0;
};

class Reference {
 public:
  // threads: 0 means one per core. The description is one that describe() made for this checkpoint.
  Reference(std::shared_ptr<const Checkpoint> checkpoint, Model model, int threads = 0);
  // The same model over weights that were stored in another form.
  Reference(std::shared_ptr<const ReferenceSource> weights, Model model, int threads = 0);

  const Model& model() const { return model_; }
  // The logits of every token, [tokens, vocab]. Error when an id is no row of the vocabulary.
  std::vector<float> logits(std::span<const int32_t> ids, const ReferenceOptions& options = {}) const;
  // What one expert of a layer gives for tokens that see `x` [tokens, hidden].
  std::vector<float> expert(size_t layer, size_t index, const std::vector<float>& x, int64_t tokens) const;

 private:
  friend class ReferenceSession;

  std::shared_ptr<const ReferenceSource> source_;
  Model model_;
  std::unique_ptr<ThreadPool> pool_;
  ReferenceWeights weights_;
};

// Error unless the model predicts the next token of a text.
void expect_next_tokens(const Model& model);

class ReferenceScope;

// One text on a Reference, which must outlive it.
class ReferenceSession {
 public:
  explicit ReferenceSession(const Reference& reference, ReferenceOptions options = {});
  ~ReferenceSession();

  // Appends tokens and returns what the head gives of them: for logits [tokens, vocab], [vocab] of the last one, or
  // nothing. Where tokens see what comes behind them, a text is one step, and what compute_head says comes back.
  std::vector<float> step(std::span<const int32_t> ids, LogitRows rows = LogitRows::all);
  // Tokens at places of their own: each run is computed as if it came next at `index`, over what was remembered up to
  // there, and leaves no trace. The logits of all, [tokens, vocab]. For causal models.
  std::vector<float> probe(std::span<const int32_t> ids, std::vector<TokenRun> runs);
  // Where the next token goes.
  int64_t position() const;
  const LayerMemory& memory(size_t layer) const { return memories_.at(layer); }
  // What a probe finds there instead.
  void set_memory(size_t layer, LayerMemory memory) { memories_.at(layer) = std::move(memory); }

 private:
  void check_ids(std::span<const int32_t> ids, int64_t used) const;
  std::vector<float> embed(std::span<const int32_t> ids) const;
  void run_step(size_t layer, const ResidualStep& step, bool last, std::vector<float>& x, int64_t tokens);
  std::vector<float> run_layers(std::span<const int32_t> ids);

  const Reference& reference_;
  const Model& model_;
  ReferenceOptions options_;
  std::unique_ptr<ReferenceScope> scope_;
  std::vector<LayerMemory> memories_;
};

}  // namespace anemone
