#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace anemone {
namespace {

constexpr int64_t kPiece =
    256;  // tokens that go through the layers together: bounds the memory of activations

size_t elements(int64_t a, int64_t b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

}  // namespace

Reference::Reference(std::shared_ptr<const Checkpoint> checkpoint, Model model, int threads)
    : checkpoint_(std::move(checkpoint)),
      model_(std::move(model)),
      pool_(std::make_unique<ThreadPool>(threads)),
      weights_(*checkpoint_, *pool_) {}

std::vector<float> Reference::logits(std::span<const int32_t> ids, const ReferenceOptions& options) const {
  return ReferenceSession(*this, options).step(ids);
}

ReferenceSession::ReferenceSession(const Reference& reference, ReferenceOptions options)
    : reference_(reference),
      model_(reference.model_),
      options_(std::move(options)),
      caches_(reference.model_.layers.size()) {
  if (options_.first_position < 0)
    throw errorf("the first position is {}: it cannot be negative", options_.first_position);
}

void ReferenceSession::check_ids(std::span<const int32_t> ids) const {
  for (const int32_t id : ids)
    if (id < 0 || id >= model_.vocab)
      throw Error("a token id is not in the vocabulary")
          .found(std::to_string(id))
          .expected(fmt::format("0 to {}", model_.vocab - 1));
}

std::vector<float> ReferenceSession::step(std::span<const int32_t> ids, LogitRows rows) {
  check_ids(ids);
  if (ids.empty()) return {};
  if (rotary_.empty()) {
    const int64_t used = position() + static_cast<int64_t>(ids.size());
    for (const Rope& rope : model_.ropes)
      rotary_.emplace_back(rope, std::max(options_.positions, used), options_.long_rope);
  }
  std::vector<float> logits;
  for (size_t at = 0; at < ids.size(); at += kPiece) {
    const auto part = ids.subspan(at, std::min(ids.size() - at, size_t{kPiece}));
    const int64_t tokens = static_cast<int64_t>(part.size());
    std::vector<float> x;
    piece(part, x);
    const bool last = at + part.size() == ids.size();
    if (rows == LogitRows::none || (rows == LogitRows::last && !last)) continue;
    const int64_t skipped = rows == LogitRows::last ? tokens - 1 : 0;
    const std::vector<float> values = head(x.data() + elements(skipped, model_.hidden), tokens - skipped);
    logits.insert(logits.end(), values.begin(), values.end());
  }
  return logits;
}

// Tokens through all layers and the final norm; x is [tokens, hidden] then.
void ReferenceSession::piece(std::span<const int32_t> ids, std::vector<float>& x) {
  const int64_t tokens = static_cast<int64_t>(ids.size()), hidden = model_.hidden;
  x.resize(elements(tokens, hidden));
  const float scale = static_cast<float>(model_.embedding_scale);
  for (size_t t = 0; t < ids.size(); ++t) {
    const std::span<float> row =
        std::span(x).subspan(t * static_cast<size_t>(hidden), static_cast<size_t>(hidden));
    reference_.weights_.row(model_.embedding, ids[t], row);
    for (float& value : row) value *= scale;
  }
  tap("embed_out", -1, x);
  for (RotaryTable& table : rotary_) table.cover(position(), position() + tokens);
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    attention(i, x, tokens);
    mlp(i, x, tokens);
    tap("layer_out", static_cast<int64_t>(i), x);
  }
  normalise(model_.final_norm, x, hidden);
  tap("final_norm", -1, x);
  tokens_ += tokens;
}

std::vector<float> ReferenceSession::project(std::string_view name, size_t layer, const WeightRef& weight,
                                             const WeightRef& bias, const std::vector<float>& x,
                                             int64_t tokens) const {
  const int64_t rows = weight.rows();
  std::vector<float> y(elements(tokens, rows));
  reference_.weights_.multiply(weight, x.data(), tokens, y.data());
  if (bias) {
    const std::vector<float> b = reference_.weights_.vector(bias);
    for (size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
  }
  if (options_.sums) {
    float largest = reference_.weights_.largest_running_sum(weight, x.data(), tokens);
    for (const float value : y) largest = std::max(largest, std::abs(value));
    options_.sums(name, static_cast<int64_t>(layer), largest);
  }
  return y;
}

void ReferenceSession::tap(std::string_view name, int64_t layer, std::span<const float> values) const {
  if (options_.tap) options_.tap(name, layer, values);
}

}  // namespace anemone
