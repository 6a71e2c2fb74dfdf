#include "verify/prompt.h"

#include <algorithm>
#include <cmath>

namespace anemone {

const char* const kOrdinaryText =
    "The old man walked down to the harbour every morning, because he liked to watch the boats come in. His "
    "daughter had told him that the water was too cold for swimming, but he did not listen to her.";

namespace {

constexpr int64_t kSamples = 512;

// Spreads whole numbers over [0, count), the same on every machine (Knuth's multiplicative hash).
int64_t spread(int64_t i, int64_t count) {
  return static_cast<int64_t>((static_cast<uint64_t>(i) * 2654435761u + 12345u) %
                              static_cast<uint64_t>(count));
}

}  // namespace

Ordinary::Ordinary(int64_t vocab, int64_t hidden, EmbeddingRow row) : hidden_(hidden), row_(std::move(row)) {
  std::vector<double> lengths;
  for (int64_t i = 0; i < std::min(vocab, kSamples); ++i) lengths.push_back(length(spread(i, vocab)));
  if (lengths.empty()) return;
  const auto middle = lengths.begin() + static_cast<ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  median_ = *middle;
}

double Ordinary::length(int64_t id) const {
  std::vector<float> values(static_cast<size_t>(hidden_));
  row_(id, values);
  double squares = 0;
  for (const float v : values) squares += static_cast<double>(v) * v;
  return std::sqrt(squares);
}

bool Ordinary::operator()(int64_t id) const {
  const double l = length(id);
  return l >= 0.5 * median_ && l <= 3 * median_;
}

std::vector<int32_t> ordinary_ids(const Tokenizer* tokenizer, int64_t vocab, const Ordinary& ordinary,
                                  std::span<const int64_t> special, int64_t most) {
  std::vector<int32_t> ids;
  if (tokenizer) {
    ids = tokenizer->encode(kOrdinaryText, {.add_special = true});
    if (static_cast<int64_t>(ids.size()) > most) ids.resize(static_cast<size_t>(most));
    const bool fits = std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id < vocab; });
    if (fits && ids.size() > 1) return ids;
    ids.clear();
  }
  for (int64_t i = 0; i < 4 * vocab && static_cast<int64_t>(ids.size()) < most; ++i) {
    const int64_t id = spread(i * 7 + 3, vocab);
    const bool repeated = std::find(ids.begin(), ids.end(), id) != ids.end() && i < vocab;
    if (repeated || std::find(special.begin(), special.end(), id) != special.end() || !ordinary(id)) continue;
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace anemone
