// Experts, as written in families/blocks/experts.h. Only the chosen ones are computed.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "reference/scope.h"

namespace anemone {
namespace {

struct Choice {
  size_t which;
  double share;
};

std::vector<double> softmax(std::span<const double> x) {
  const double most = *std::max_element(x.begin(), x.end());
  std::vector<double> out(x.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += out[i] = std::exp(x[i] - most);
  for (double& value : out) value /= sum;
  return out;
}

// What one token chooses, by its logits. `all_scores` gets what the choice goes by; `taken`: the choice is made.
std::vector<Choice> choose(const Experts& e, std::span<const float> logits, std::span<const float> bias,
                           const std::vector<size_t>* taken, std::vector<float>& all_scores) {
  const std::vector<double> l(logits.begin(), logits.end()), p = softmax(l);
  std::vector<double> scores = bias.empty() ? l : p;
  for (size_t i = 0; i < bias.size(); ++i) scores[i] += static_cast<double>(bias[i]);
  for (const double score : scores) all_scores.push_back(static_cast<float>(score));
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(static_cast<size_t>(e.used));
  if (taken) order = *taken;
  std::vector<Choice> out;
  std::vector<double> chosen;
  for (const size_t i : order) chosen.push_back(l[i]);
  if (e.share == Experts::Share::of_chosen) chosen = softmax(chosen);
  for (size_t i = 0; i < order.size(); ++i)
    out.push_back({order[i], e.share == Experts::Share::of_all ? p[order[i]] : chosen[i]});
  return out;
}

std::vector<float> router_logits(const ReferenceScope& scope, size_t layer, const Experts& e,
                                 const std::vector<float>& h, int64_t tokens) {
  std::vector<float> x = h;
  if (const auto& n = e.router.network) {
    x = scope.project("router", layer, n->down, h, tokens);
    if (n->carry) {
      const std::vector<float> gain = scope.weights().vector(n->carry);
      for (size_t i = 0; i < x.size(); ++i) x[i] += scope.carried()[i] * gain[i % gain.size()];
    }
    scope.carried() = x;
    scope.normalise(n->norm, x, n->width);
    for (const Projection* p : {&n->first, &n->second}) {
      x = scope.project("router", layer, *p, x, tokens);
      for (float& v : x) v = static_cast<float>(activated(static_cast<double>(v), Activation::gelu));
    }
  }
  return scope.project("router", layer, e.router.logits, x, tokens);
}

std::vector<float> compute_expert(const ReferenceScope& scope, size_t layer, const GatedMlp& mlp,
                                  const std::vector<float>& h, int64_t tokens) {
  std::vector<float> gated = scope.project("gate", layer, mlp.gate, h, tokens);
  gate(mlp, gated, scope.project("up", layer, mlp.up, h, tokens));
  return scope.project("down", layer, mlp.down, gated, tokens);
}

// The expert that every token uses, on top of what the chosen ones gave.
void add_shared(const ReferenceScope& scope, size_t layer, const SharedExpert& shared,
                const std::vector<float>& h, int64_t tokens, std::vector<double>& sums) {
  const auto index = static_cast<int64_t>(layer);
  scope.tap("chosen_out", index, std::vector<float>(sums.begin(), sums.end()));
  const std::vector<float> y = compute_expert(scope, layer, shared.mlp, h, tokens);
  scope.tap("shared_out", index, y);
  std::vector<float> shares(static_cast<size_t>(tokens), 1.0f);
  if (shared.share.weight) {
    shares = scope.project("share", layer, shared.share, h, tokens);
    for (float& share : shares) share = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(share))));
    scope.tap("shared_share", index, shares);
  }
  const size_t width = y.size() / shares.size();
  for (size_t i = 0; i < y.size(); ++i)
    sums[i] += static_cast<double>(shares[i / width]) * static_cast<double>(y[i]);
}

}  // namespace

std::vector<float> Reference::expert(size_t layer, size_t index, const std::vector<float>& x,
                                     int64_t tokens) const {
  const Experts* e = find_experts(model_.layers.at(layer));
  ANEMONE_CHECK(e && x.size() == static_cast<size_t>(tokens * model_.hidden));
  const ReferenceOptions options;
  const ReferenceScope scope(model_, weights_, *pool_, options);
  return compute_expert(scope, layer, e->experts.at(index), x, tokens);
}

std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const Experts& e,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory&) {
  const std::vector<float> logits = router_logits(scope, layer, e, h, tokens);
  const std::vector<float> bias =
      e.router.choice_bias ? scope.weights().vector(e.router.choice_bias) : std::vector<float>();
  const auto width = h.size() / static_cast<size_t>(tokens), choices = static_cast<size_t>(e.choices());
  struct Visitor {
    size_t token;
    double share;
  };
  std::vector<std::vector<Visitor>> visitors(choices);  // of each expert
  std::vector<float> scores, shares(static_cast<size_t>(tokens) * choices);
  const auto& taken = scope.options().taken;
  for (size_t t = 0; t < static_cast<size_t>(tokens); ++t) {
    const auto made =
        taken.empty() ? taken.end() : taken.find({layer, scope.index_of(static_cast<int64_t>(t))});
    for (const Choice& c : choose(e, std::span(logits).subspan(t * choices, choices), bias,
                                  made == taken.end() ? nullptr : &made->second, scores)) {
      visitors[c.which].push_back({t, c.share});
      shares[t * choices + c.which] = static_cast<float>(c.share);
    }
  }
  scope.tap("router", static_cast<int64_t>(layer), scores);
  scope.tap("shares", static_cast<int64_t>(layer), shares);
  std::vector<double> sums(h.size());
  for (size_t i = 0; i < choices; ++i) {
    if (visitors[i].empty()) continue;
    const bool skip = i == e.experts.size();
    if (skip && e.skip == Experts::Skip::zero) continue;
    std::vector<float> x;
    for (const Visitor& v : visitors[i])
      x.insert(x.end(), h.begin() + static_cast<ptrdiff_t>(v.token * width),
               h.begin() + static_cast<ptrdiff_t>((v.token + 1) * width));
    const std::vector<float> y =
        skip ? x : compute_expert(scope, layer, e.experts[i], x, static_cast<int64_t>(visitors[i].size()));
    for (size_t v = 0; v < visitors[i].size(); ++v)
      for (size_t c = 0; c < width; ++c)
        sums[visitors[i][v].token * width + c] +=
            visitors[i][v].share * static_cast<double>(y[v * width + c]);
  }
  if (e.shared) add_shared(scope, layer, *e.shared, h, tokens, sums);
  return {sums.begin(), sums.end()};
}

}  // namespace anemone
