// Tokens to judge a model by when no text is given: ordinary ones. BOS as the only token and rare tokens, whose
// embeddings are short because they were hardly ever trained, give false alarms.
//     std::vector<int32_t> ids = ordinary_ids(tokenizer.get(), vocab, row, 32);
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace anemone {

// A few sentences of plain prose.
extern const char* const kOrdinaryText;

// Gives row `id` of the embedding.
using EmbeddingRow = std::function<void(int64_t id, std::span<float> out)>;

// Whether an embedding is of a usual length: at least half and at most three times the median of all.
class Ordinary {
 public:
  Ordinary(int64_t vocab, int64_t hidden, EmbeddingRow row);
  bool operator()(int64_t id) const;

 private:
  double length(int64_t id) const;

  int64_t hidden_;
  EmbeddingRow row_;
  double median_ = 0;
};

// The ordinary text by the tokenizer, with what the model wants before it, cut at `most` tokens; without a
// tokenizer, ids spread over the vocabulary that are ordinary and not in `special`.
std::vector<int32_t> ordinary_ids(const Tokenizer* tokenizer, int64_t vocab, const Ordinary& ordinary,
                                  std::span<const int64_t> special, int64_t most);

}  // namespace anemone
