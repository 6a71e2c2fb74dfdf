#include "reference/reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "reference/head.h"
#include "reference/scope.h"

namespace anemone {
namespace {

constexpr int64_t kPiece =
    256;  // tokens that go through the layers together: bounds the memory of activations

size_t elements(int64_t a, int64_t b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

}  // namespace

Reference::Reference(std::shared_ptr<const Checkpoint> checkpoint, Model model, int threads)
    : Reference(std::make_shared<const ReferenceCheckpoint>(std::move(checkpoint)), std::move(model),
                threads) {}

Reference::Reference(std::shared_ptr<const ReferenceSource> weights, Model model, int threads)
    : source_(std::move(weights)),
      model_(std::move(model)),
      pool_(std::make_unique<ThreadPool>(threads)),
      weights_(*source_, *pool_) {}

std::vector<float> Reference::logits(std::span<const int32_t> ids, const ReferenceOptions& options) const {
  return ReferenceSession(*this, options).step(ids);
}

void expect_next_tokens(const Model& model) {
  if (!model.generates() || !model.causal())
    throw errorf("a model of family {} reads a whole text at once and predicts no token", model.family)
        .hint("this is for models that write text");
}

ReferenceSession::ReferenceSession(const Reference& reference, ReferenceOptions options)
    : reference_(reference),
      model_(reference.model_),
      options_(std::move(options)),
      scope_(std::make_unique<ReferenceScope>(model_, reference.weights_, *reference.pool_, options_)),
      memories_(reference.model_.layers.size()) {
  if (options_.first_position < 0)
    throw errorf("the first position is {}: it cannot be negative", options_.first_position);
}

ReferenceSession::~ReferenceSession() = default;

int64_t ReferenceSession::position() const { return scope_->position(); }

void ReferenceSession::check_ids(std::span<const int32_t> ids, int64_t used) const {
  for (const int32_t id : ids)
    if (id < 0 || id >= model_.vocab)
      throw Error("a token id is not in the vocabulary")
          .found(std::to_string(id))
          .expected(fmt::format("0 to {}", model_.vocab - 1));
  if (model_.embedding.positions &&
      used + model_.embedding.first_position > model_.embedding.positions.rows())
    throw errorf("the text is longer than the model's table of positions")
        .found(fmt::format("{} tokens", used))
        .expected(
            fmt::format("at most {}", model_.embedding.positions.rows() - model_.embedding.first_position));
}

std::vector<float> ReferenceSession::step(std::span<const int32_t> ids, LogitRows rows) {
  check_ids(ids, scope_->before() + static_cast<int64_t>(ids.size()));
  if (ids.empty()) return {};
  const bool causal = model_.causal();
  if (!causal && scope_->before() > 0) throw Error("a text that is seen whole is computed in one step");
  const size_t most = causal ? size_t{kPiece} : ids.size();
  std::vector<float> result;
  for (size_t at = 0; at < ids.size(); at += most) {
    const auto part = ids.subspan(at, std::min(ids.size() - at, most));
    const auto tokens = static_cast<int64_t>(part.size());
    scope_->take({{.index = scope_->before(), .count = tokens}}, static_cast<int64_t>(ids.size() - at),
                 false);
    const std::vector<float> x = run_layers(part);
    scope_->advance(tokens);
    const bool last = at + part.size() == ids.size();
    if (rows == LogitRows::none || (rows == LogitRows::last && !last)) continue;
    const int64_t skipped = rows == LogitRows::last ? tokens - 1 : 0;
    const std::vector<float> values =
        compute_head(*scope_, std::span(x).subspan(elements(skipped, model_.hidden)), tokens - skipped);
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

std::vector<float> ReferenceSession::probe(std::span<const int32_t> ids, std::vector<TokenRun> runs) {
  ANEMONE_CHECK(model_.causal() && !runs.empty());
  int64_t end = 0;
  for (const TokenRun& run : runs) end = std::max(end, run.index + run.count);
  check_ids(ids, end);
  scope_->take(std::move(runs), end, true);
  return compute_head(*scope_, run_layers(ids), static_cast<int64_t>(ids.size()));
}

std::vector<float> ReferenceSession::embed(std::span<const int32_t> ids) const {
  const Embedding& e = model_.embedding;
  const ReferenceWeights& weights = reference_.weights_;
  const auto hidden = static_cast<size_t>(model_.hidden);
  std::vector<float> x(ids.size() * hidden), other(hidden);
  const auto scale = static_cast<float>(e.scale);
  for (size_t t = 0; t < ids.size(); ++t) {
    const std::span<float> row = std::span(x).subspan(t * hidden, hidden);
    weights.table_row(e.tokens, ids[t], row);
    for (float& value : row) value *= scale;
    const auto add = [&](const WeightRef& table, int64_t index) {
      if (!table) return;
      weights.table_row(table, index, other);
      for (size_t i = 0; i < hidden; ++i) row[i] += other[i];
    };
    const int64_t at = scope_->index_of(static_cast<int64_t>(t));
    add(e.positions, at + e.first_position);
    add(e.types,
        static_cast<size_t>(at) < options_.types.size() ? options_.types[static_cast<size_t>(at)] : 0);
  }
  const std::vector<float> bias = e.bias ? weights.vector(e.bias) : std::vector<float>();
  const std::vector<float> gain = e.gain ? weights.vector(e.gain) : std::vector<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (!bias.empty()) x[i] += bias[i % hidden];
    if (!gain.empty()) x[i] *= gain[i % hidden];
  }
  if (e.norm) scope_->normalise(*e.norm, x, model_.hidden);
  return x;
}

void ReferenceSession::run_step(size_t layer, const ResidualStep& step, bool last, std::vector<float>& x,
                                int64_t tokens) {
  const auto at = static_cast<int64_t>(layer);
  std::vector<float> h = x;
  if (step.norm_in) scope_->normalise(*step.norm_in, h, model_.hidden);
  std::vector<float> y = std::visit(
      [&](const auto& block) { return compute_block(*scope_, layer, block, h, tokens, memories_[layer]); },
      step.block);
  scope_->tap(is_mixer(step.block) ? "attn_out" : "mlp_out", at, y);
  if (step.norm_out) scope_->normalise(*step.norm_out, y, model_.hidden);
  const auto vector = [&](const WeightRef& ref) {
    return ref ? reference_.weights_.vector(ref) : std::vector<float>();
  };
  const std::vector<float> bias = vector(step.bias), gain = vector(step.gain),
                           stream_bias = vector(step.stream_bias), stream_gain = vector(step.stream_gain);
  const auto width = static_cast<size_t>(model_.hidden);
  const auto balanced = [width](double value, const std::vector<float>& b, const std::vector<float>& g,
                                size_t i) {
    if (!b.empty()) value += static_cast<double>(b[i % width]);
    return g.empty() ? value : value * static_cast<double>(g[i % width]);
  };
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(balanced(static_cast<double>(x[i]), stream_bias, stream_gain, i) +
                              balanced(static_cast<double>(y[i]) * step.scale, bias, gain, i));
  if (step.norm_sum) scope_->normalise(*step.norm_sum, x, model_.hidden);
  scope_->tap(last ? "layer_out" : "attn_residual", at, x);
}

// Tokens through all layers and the final norm: [tokens, hidden].
std::vector<float> ReferenceSession::run_layers(std::span<const int32_t> ids) {
  const auto tokens = static_cast<int64_t>(ids.size());
  std::vector<float> x = embed(ids);
  scope_->tap("embed_out", -1, x);
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    const std::vector<ResidualStep>& steps = model_.layers[i].steps;
    for (size_t j = 0; j < steps.size(); ++j) run_step(i, steps[j], j + 1 == steps.size(), x, tokens);
  }
  if (model_.final_norm) scope_->normalise(*model_.final_norm, x, model_.hidden);
  scope_->tap("final_norm", -1, x);
  return x;
}

}  // namespace anemone
