// Attention, as written in families/blocks/attention.h.
#include <algorithm>
#include <cmath>

#include "reference/scope.h"

namespace anemone {
namespace {

class AttentionReference {
 public:
  AttentionReference(const ReferenceScope& scope, const Attention& attention, const LayerMemory& memory)
      : scope_(scope), a_(attention), memory_(memory) {}

  // Normalised and rotated, in place: [tokens, heads, head_dim].
  void place(const Norm* norm, std::vector<float>& x, int64_t heads, int64_t tokens) const {
    const int64_t dim = a_.head_dim;
    const bool wide = norm && a_.qk_norm->over_width, after = norm && a_.qk_norm->after_rope;
    if (norm && !after) scope_.normalise(*norm, x, wide ? heads * dim : dim);
    if (a_.rope)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          scope_.rotary(*a_.rope).rotate(&x[static_cast<size_t>((t * heads + h) * dim)],
                                         scope_.position() + t);
    if (after) scope_.normalise(*norm, x, dim);
  }

  // One query head of one new token over all that it sees.
  void attend(const float* q, int64_t token, int64_t head, float sink, float* out) const {
    const int64_t dim = a_.head_dim, width = a_.key_width();
    const int64_t kv_offset = head / (a_.heads / a_.kv_heads) * dim;
    const auto [first, last] = seen(token);
    std::vector<double> weights(static_cast<size_t>(last - first));
    double most = a_.sinks ? static_cast<double>(sink) : -INFINITY;
    for (int64_t j = first; j < last; ++j) {
      const float* k = &memory_.k[static_cast<size_t>(j * width + kv_offset)];
      double score = 0;
      for (int64_t i = 0; i < dim; ++i) score += static_cast<double>(q[i]) * k[i];
      score = softcapped(score * a_.scale, a_.softcap);
      weights[static_cast<size_t>(j - first)] = score;
      most = std::max(most, score);
    }
    double sum = a_.sinks ? std::exp(static_cast<double>(sink) - most) : 0;
    for (double& w : weights) sum += w = std::exp(w - most);
    std::vector<double> mixed(static_cast<size_t>(dim));
    for (int64_t j = first; j < last; ++j) {
      const float* v = &memory_.v[static_cast<size_t>(j * width + kv_offset)];
      const double w = weights[static_cast<size_t>(j - first)] / sum;
      for (int64_t i = 0; i < dim; ++i) mixed[static_cast<size_t>(i)] += w * v[i];
    }
    std::transform(mixed.begin(), mixed.end(), out, [](double value) { return static_cast<float>(value); });
  }

  // The largest magnitude that a sum of the scaled query times a key that it sees reaches on its way.
  float largest_score_sum(const std::vector<float>& q, int64_t tokens) const {
    const int64_t dim = a_.head_dim, width = a_.key_width();
    double largest = 0;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < a_.heads; ++h) {
        const float* query = &q[static_cast<size_t>((t * a_.heads + h) * dim)];
        const int64_t kv_offset = h / (a_.heads / a_.kv_heads) * dim;
        const auto [first, last] = seen(t);
        for (int64_t j = first; j < last; ++j) {
          const float* k = &memory_.k[static_cast<size_t>(j * width + kv_offset)];
          double sum = 0;
          for (int64_t i = 0; i < dim; ++i)
            largest = std::max(largest, std::abs(sum += a_.scale * static_cast<double>(query[i]) * k[i]));
        }
      }
    return static_cast<float>(largest);
  }

 private:
  // The rows of the memory that new token `token` sees: [first, last).
  std::pair<int64_t, int64_t> seen(int64_t token) const {
    const int64_t i = scope_.before() + token, all = static_cast<int64_t>(memory_.k.size()) / a_.key_width();
    switch (a_.reach.kind) {
      case Reach::Kind::causal: return {0, i + 1};
      case Reach::Kind::window: return {std::max<int64_t>(0, i - a_.reach.size + 1), i + 1};
      case Reach::Kind::full: return {0, all};
      case Reach::Kind::band:
        return {std::max<int64_t>(0, i - a_.reach.size), std::min(all, i + a_.reach.size + 1)};
    }
    return {0, 0};
  }

  const ReferenceScope& scope_;
  const Attention& a_;
  const LayerMemory& memory_;
};

}  // namespace

std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const Attention& a,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory) {
  std::vector<float> q = scope.project("q", layer, a.q, h, tokens);
  std::vector<float> k = scope.project("k", layer, a.k, h, tokens);
  const std::vector<float> v = scope.project("v", layer, a.v, h, tokens);
  const AttentionReference reference(scope, a, memory);
  reference.place(a.qk_norm ? &a.qk_norm->q : nullptr, q, a.heads, tokens);
  reference.place(a.qk_norm ? &a.qk_norm->k : nullptr, k, a.kv_heads, tokens);
  const auto at = static_cast<int64_t>(layer);
  scope.tap("q", at, q);
  scope.tap("k", at, k);
  scope.tap("v", at, v);
  memory.k.insert(memory.k.end(), k.begin(), k.end());
  memory.v.insert(memory.v.end(), v.begin(), v.end());
  if (scope.options().sums) scope.options().sums("scores", at, reference.largest_score_sum(q, tokens));
  const std::vector<float> sinks = a.sinks ? scope.weights().vector(a.sinks) : std::vector<float>();
  std::vector<float> mixed(q.size());
  const int64_t dim = a.head_dim;
  scope.pool().parallel_for(tokens * a.heads, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i % a.heads;
      reference.attend(&q[static_cast<size_t>(i * dim)], i / a.heads, head,
                       sinks.empty() ? 0 : sinks[static_cast<size_t>(head)],
                       &mixed[static_cast<size_t>(i * dim)]);
    }
  });
  return scope.project("o", layer, a.o, mixed, tokens);
}

}  // namespace anemone
