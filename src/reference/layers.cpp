// The maths of a layer, as written in families/model.h.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/reference.h"

namespace anemone {
namespace {

double softcapped(double value, double cap) { return cap > 0 ? cap * std::tanh(value / cap) : value; }

double activated(double z, Activation activation) {
  switch (activation) {
    case Activation::silu: return z / (1 + std::exp(-z));
    case Activation::gelu: return 0.5 * z * (1 + std::erf(z / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * z * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
  }
  return z;
}

void add(std::vector<float>& x, const std::vector<float>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

// Every run of `width` values by itself.
void ReferenceSession::normalise(const WeightRef& weight, std::span<float> values, int64_t width) const {
  const std::vector<float> w = reference_.weights_.vector(weight);
  const size_t n = static_cast<size_t>(width);
  for (size_t begin = 0; begin < values.size(); begin += n) {
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += static_cast<double>(values[begin + i]) * values[begin + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + model_.norm_eps);
    for (size_t i = 0; i < n; ++i)
      values[begin + i] = static_cast<float>(values[begin + i] * scale * (w[i] + model_.norm_offset));
  }
}

void ReferenceSession::head_norm_and_rope(const Layer& layer, const WeightRef& norm,
                                          std::span<float> heads_of_tokens, int64_t heads, int64_t tokens) {
  if (model_.head_norm == HeadNorm::before_rope) normalise(norm, heads_of_tokens, model_.head_dim);
  const RotaryTable& table = rotary_[layer.rope];
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < heads; ++h)
      table.rotate(&heads_of_tokens[static_cast<size_t>((t * heads + h) * model_.head_dim)], position() + t);
  if (model_.head_norm == HeadNorm::after_rope) normalise(norm, heads_of_tokens, model_.head_dim);
}

void ReferenceSession::attention(size_t index, std::vector<float>& x, int64_t tokens) {
  const Layer& layer = model_.layers[index];
  std::vector<float> h = x;
  normalise(layer.attention_norm, h, model_.hidden);
  std::vector<float> q = project("q", index, layer.q, layer.q_bias, h, tokens);
  std::vector<float> k = project("k", index, layer.k, layer.k_bias, h, tokens);
  const std::vector<float> v = project("v", index, layer.v, layer.v_bias, h, tokens);
  head_norm_and_rope(layer, layer.q_norm, q, model_.heads, tokens);
  head_norm_and_rope(layer, layer.k_norm, k, model_.kv_heads, tokens);
  const auto at = static_cast<int64_t>(index);
  tap("q", at, q);
  tap("k", at, k);
  tap("v", at, v);
  Cache& cache = caches_[index];
  cache.k.insert(cache.k.end(), k.begin(), k.end());
  cache.v.insert(cache.v.end(), v.begin(), v.end());

  const int64_t dim = model_.head_dim;
  if (options_.sums) options_.sums("scores", at, largest_score_sum(layer, cache, q, tokens));
  std::vector<float> mixed(q.size());
  reference_.pool_->parallel_for(tokens * model_.heads, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      attend(layer, cache, &q[static_cast<size_t>(i * dim)], i / model_.heads, i % model_.heads,
             &mixed[static_cast<size_t>(i * dim)]);
  });
  std::vector<float> out = project("o", index, layer.o, layer.o_bias, mixed, tokens);
  tap("attn_out", at, out);
  if (layer.post_attention_norm) normalise(layer.post_attention_norm, out, model_.hidden);
  add(x, out);
  tap("attn_residual", static_cast<int64_t>(index), x);
}

// One query head of one new token over all that it sees.
void ReferenceSession::attend(const Layer& layer, const Cache& cache, const float* q, int64_t token,
                              int64_t head, float* out) const {
  const int64_t dim = model_.head_dim, width = model_.kv_heads * dim;
  const int64_t kv_offset = head / (model_.heads / model_.kv_heads) * dim;
  const int64_t last = tokens_ + token;  // of the cache
  const int64_t first = layer.window > 0 ? std::max<int64_t>(0, last - layer.window + 1) : 0;
  std::vector<double> weights(static_cast<size_t>(last - first + 1));
  double most = -INFINITY;
  for (int64_t j = first; j <= last; ++j) {
    const float* k = &cache.k[static_cast<size_t>(j * width + kv_offset)];
    double score = 0;
    for (int64_t i = 0; i < dim; ++i) score += static_cast<double>(q[i]) * k[i];
    score = softcapped(score * model_.query_scale, model_.attention_softcap);
    weights[static_cast<size_t>(j - first)] = score;
    most = std::max(most, score);
  }
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - most);
  std::vector<double> mixed(static_cast<size_t>(dim));
  for (int64_t j = first; j <= last; ++j) {
    const float* v = &cache.v[static_cast<size_t>(j * width + kv_offset)];
    const double w = weights[static_cast<size_t>(j - first)] / sum;
    for (int64_t i = 0; i < dim; ++i) mixed[static_cast<size_t>(i)] += w * v[i];
  }
  std::transform(mixed.begin(), mixed.end(), out, [](double value) { return static_cast<float>(value); });
}

// Of the scaled query times the keys that it sees.
float ReferenceSession::largest_score_sum(const Layer& layer, const Cache& cache, const std::vector<float>& q,
                                          int64_t tokens) const {
  const int64_t dim = model_.head_dim, width = model_.kv_heads * dim;
  const double scale = model_.query_scale;
  double largest = 0;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < model_.heads; ++h) {
      const float* query = &q[static_cast<size_t>((t * model_.heads + h) * dim)];
      const int64_t last = tokens_ + t, kv_offset = h / (model_.heads / model_.kv_heads) * dim;
      const int64_t first = layer.window > 0 ? std::max<int64_t>(0, last - layer.window + 1) : 0;
      for (int64_t j = first; j <= last; ++j) {
        const float* k = &cache.k[static_cast<size_t>(j * width + kv_offset)];
        double sum = 0;
        for (int64_t i = 0; i < dim; ++i)
          largest = std::max(largest, std::abs(sum += scale * static_cast<double>(query[i]) * k[i]));
      }
    }
  return static_cast<float>(largest);
}

void ReferenceSession::mlp(size_t index, std::vector<float>& x, int64_t tokens) {
  const Layer& layer = model_.layers[index];
  std::vector<float> h = x;
  normalise(layer.mlp_norm, h, model_.hidden);
  std::vector<float> gate = project("gate", index, layer.gate, layer.gate_bias, h, tokens);
  const std::vector<float> up = project("up", index, layer.up, layer.up_bias, h, tokens);
  for (size_t i = 0; i < gate.size(); ++i)
    gate[i] = static_cast<float>(activated(gate[i], model_.activation) * up[i]);
  tap("gated", static_cast<int64_t>(index), gate);
  std::vector<float> out = project("down", index, layer.down, layer.down_bias, gate, tokens);
  tap("mlp_out", static_cast<int64_t>(index), out);
  if (layer.post_mlp_norm) normalise(layer.post_mlp_norm, out, model_.hidden);
  add(x, out);
}

std::vector<float> ReferenceSession::head(const float* x, int64_t tokens) const {
  std::vector<float> logits(static_cast<size_t>(tokens * model_.vocab));
  reference_.weights_.multiply(model_.lm_head, x, tokens, logits.data());
  if (model_.logit_softcap > 0)
    for (float& value : logits) value = static_cast<float>(softcapped(value, model_.logit_softcap));
  return logits;
}

}  // namespace anemone
