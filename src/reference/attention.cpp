// Attention, as written in families/blocks/attention.h.
#include <algorithm>
#include <cmath>

#include "reference/time_mix.h"

namespace anemone {
namespace {

class AttentionReference {
 public:
  AttentionReference(const ReferenceScope& scope, const Attention& attention, const LayerMemory& memory)
      : scope_(scope), a_(attention), memory_(memory) {}

  // Keys and values of the tokens at hand.
  void take(const std::vector<float>& k, const std::vector<float>& v) {
    k_ = k.data();
    v_ = v.data();
    count_ = static_cast<int64_t>(k.size()) / a_.key_width();
  }

  // Normalised and rotated, in place: [tokens, heads, head_dim].
  void place(const Norm* norm, std::vector<float>& x, int64_t heads, int64_t tokens) const {
    const int64_t dim = a_.head_dim;
    const bool wide = norm && a_.qk_norm->over_width, after = norm && a_.qk_norm->after_rope;
    if (norm && !after) scope_.normalise(*norm, x, wide ? heads * dim : dim);
    if (a_.rope)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h)
          scope_.rotary(*a_.rope).rotate(&x[static_cast<size_t>((t * heads + h) * dim)],
                                         scope_.position_of(t));
    if (after) scope_.normalise(*norm, x, dim);
  }

  // One query head of one new token over all that it sees.
  void attend(const float* q, int64_t token, int64_t head, float sink, float* out) const {
    const int64_t dim = a_.head_dim;
    const int64_t kv_offset = head / (a_.heads / a_.kv_heads) * dim;
    const TokenRun& run = scope_.run_of(token);
    const auto [first, last] = seen(token);
    std::vector<double> weights(static_cast<size_t>(last - first));
    double most = a_.sinks ? static_cast<double>(sink) : -INFINITY;
    for (int64_t j = first; j < last; ++j) {
      const float* k = row(memory_.k, k_, run, j) + kv_offset;
      const double score = softcapped(dot(q, k) * a_.scale, a_.softcap);
      weights[static_cast<size_t>(j - first)] = score;
      most = std::max(most, score);
    }
    double sum = a_.sinks ? std::exp(static_cast<double>(sink) - most) : 0;
    for (double& w : weights) sum += w = std::exp(w - most);
    std::vector<double> mixed(static_cast<size_t>(dim));
    for (int64_t j = first; j < last; ++j) {
      const float* v = row(memory_.v, v_, run, j) + kv_offset;
      const double w = weights[static_cast<size_t>(j - first)] / sum;
      for (int64_t i = 0; i < dim; ++i) mixed[static_cast<size_t>(i)] += w * v[i];
    }
    std::transform(mixed.begin(), mixed.end(), out, [](double value) { return static_cast<float>(value); });
  }

  // The largest magnitude that a sum of the scaled query times a key that it sees reaches on its way.
  float largest_score_sum(const std::vector<float>& q, int64_t tokens) const {
    const int64_t dim = a_.head_dim;
    double largest = 0;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < a_.heads; ++h) {
        const float* query = &q[static_cast<size_t>((t * a_.heads + h) * dim)];
        const int64_t kv_offset = h / (a_.heads / a_.kv_heads) * dim;
        const auto [first, last] = seen(t);
        for (int64_t j = first; j < last; ++j) {
          const float* k = row(memory_.k, k_, scope_.run_of(t), j) + kv_offset;
          double sum = 0;
          for (int64_t i = 0; i < dim; ++i)
            largest = std::max(largest, std::abs(sum += a_.scale * static_cast<double>(query[i]) * k[i]));
        }
      }
    return static_cast<float>(largest);
  }

 private:
  // Row `j` as a token of the run sees it: remembered, or one of those at hand.
  const float* row(const std::vector<float>& remembered, const float* fresh, const TokenRun& run,
                   int64_t j) const {
    if (j < run.index) return &remembered[static_cast<size_t>(j * a_.key_width())];
    return fresh + (run.first + j - run.index) * a_.key_width();
  }

  double dot(const float* q, const float* k) const {
    constexpr int64_t kLanes = 8;  // sums side by side: a single one would wait for itself
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= a_.head_dim; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] += static_cast<double>(q[i + lane]) * static_cast<double>(k[i + lane]);
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    for (; i < a_.head_dim; ++i) sum += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    return sum;
  }

  // The rows that token `token` sees: [first, last).
  std::pair<int64_t, int64_t> seen(int64_t token) const {
    const int64_t i = scope_.index_of(token), all = scope_.before() + count_;
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
  const float *k_ = nullptr, *v_ = nullptr;  // of the tokens at hand
  int64_t count_ = 0;
};

MixedHeads plain_heads(const ReferenceScope& scope, size_t layer, const Attention& a,
                       const std::vector<float>& h, int64_t tokens) {
  MixedHeads out;
  out.q = scope.project("q", layer, a.q, h, tokens);
  out.k = scope.project("k", layer, a.k, h, tokens);
  out.v = scope.project("v", layer, a.v, h, tokens);
  return out;
}

}  // namespace

std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const Attention& a,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory) {
  auto [q, k, v] =
      a.mix ? mix_over_time(scope, layer, a, h, tokens, memory) : plain_heads(scope, layer, a, h, tokens);
  AttentionReference reference(scope, a, memory);
  reference.place(a.qk_norm ? &a.qk_norm->q : nullptr, q, a.heads, tokens);
  reference.place(a.qk_norm ? &a.qk_norm->k : nullptr, k, a.kv_heads, tokens);
  if (a.qk_norm && a.qk_norm->k_gain) {
    const std::vector<float> gain = scope.weights().vector(a.qk_norm->k_gain);
    const auto dim = static_cast<size_t>(a.head_dim);
    for (size_t i = 0; i < k.size(); ++i) k[i] *= gain[i / dim % gain.size()];
  }
  const auto at = static_cast<int64_t>(layer);
  scope.tap("q", at, q);
  scope.tap("k", at, k);
  scope.tap("v", at, v);
  reference.take(k, v);
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
  if (!scope.probes()) {
    memory.k.insert(memory.k.end(), k.begin(), k.end());
    memory.v.insert(memory.v.end(), v.begin(), v.end());
  }
  return scope.project("o", layer, a.o, mixed, tokens);
}

}  // namespace anemone
