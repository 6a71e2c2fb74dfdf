// Shards: how a model is cut into packages. Every package is a call per token, and a call costs more than the bytes
// it saves, so the fewest packages that stay under the limit are taken; among those, the cut whose largest package
// is smallest, so that none is left with too little work to stay on the engine.
//     ShardPlan p = plan_shards(model, 0, model.layers.size(), bytes_of_weight, {.bytes = 250'000'000});
//     p.calls();                                     // per token
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "families/model.h"

namespace anemone {

inline constexpr int64_t kHeadRows = 16384;  // of one head convolution, where nothing else is said

struct ShardLimits {
  uint64_t bytes = 250'000'000;   // most weights in one package; a layer that is larger stands alone
  int64_t head_rows = kHeadRows;  // rows of one head convolution: a head is cut between them only
  bool whole = false;             // no limit: all layers in one package, the whole head in another
};

struct Shard {
  size_t first = 0, last = 0;  // layers, or rows of the vocabulary: [first, last)
  uint64_t bytes = 0;          // of weights
};

struct ShardPlan {
  std::vector<Shard> layers, heads;

  size_t calls() const { return layers.size() + heads.size(); }
  uint64_t bytes() const;
};

// Bytes that a projection takes in the form it is stored in.
using WeightBytes = std::function<uint64_t(const WeightRef&)>;

// Layers [first, last) and the whole head of a model.
ShardPlan plan_shards(const Model& model, size_t first, size_t last, const WeightBytes& bytes,
                      const ShardLimits& limits);

// For encoders: the most tokens of a text, and the default lengths that texts are padded to.
int64_t longest_text(const Model& model);
std::vector<int64_t> text_lengths(const Model& model);

// Cuts a row of items into the fewest ranges of at most `limit`, evenly: the `first` and `last` of the result count
// items.
std::vector<Shard> cut_evenly(std::span<const uint64_t> items, uint64_t limit);

}  // namespace anemone
