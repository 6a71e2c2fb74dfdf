// Known mistakes: where a value drifts, the model is computed once more with one of them in it. The same values say
// what the bundle does.
#include <utility>

#include "verify/climber.h"
#include "verify/stored_weights.h"

namespace anemone {
namespace {

// What comes first of the values that experts have a part in.
bool before_experts(const std::string& part) {
  return part == "q" || part == "k" || part == "v" || part == "attn_out" || part == "attn_residual" ||
         part == "router" || part == "shares" || part.empty();
}

Attention* attention_of(Layer& layer) {
  for (ResidualStep& step : layer.steps)
    if (auto* a = std::get_if<Attention>(&step.block)) return a;
  return nullptr;
}

}  // namespace

Drift earlier(Drift layers, Drift experts) {
  if (experts.problem.empty()) return layers;
  if (layers.problem.empty()) return experts;
  // Outside of the layers the embedding comes before all of them, and the final norm behind.
  const bool layers_first =
      layers.part != "final_norm" &&
      (layers.layer < experts.layer || (layers.layer == experts.layer && before_experts(layers.part)));
  return layers_first ? layers : experts;
}

std::string attention_suspect(const Climber& c, const StepResult& r, std::span<const int32_t> ids,
                              int64_t first, const Drift& drift, const Judging& how) {
  const auto got = r.inner.find({"attn_out", drift.layer});
  if (drift.part != "attn_out" || !c.reference || got == r.inner.end()) return "";
  Model changed = c.reference->model();
  changed.layers.resize(static_cast<size_t>(drift.layer) + 1);
  Attention* attention = attention_of(changed.layers.back());
  if (!attention || !attention->sinks) return "";
  attention->sinks = {};
  const Reference reference(std::make_shared<const StoredWeights>(*c.bundle, c.model), std::move(changed),
                            c.options.threads);
  std::vector<float> without;
  ReferenceOptions options;
  options.positions = c.tokens;
  options.tap = [&](std::string_view name, int64_t layer, std::span<const float> values) {
    if (name == "attn_out" && layer == drift.layer)
      without.insert(without.end(), values.begin(), values.end());
  };
  ReferenceSession(reference, options).step(ids, LogitRows::none);
  const size_t width = without.size() / ids.size(), begin = static_cast<size_t>(first) * width;
  if (begin + got->second.size() > without.size()) return "";
  const Figures f = compare(got->second, std::span(without).subspan(begin, got->second.size()));
  return c.value_problem(f, how, false).empty()
             ? "; without its sinks the model gives just this: the sink is left out"
             : "";
}

std::string shared_suspect(const Climber& c, const StepResult& r, const Golden& truth, int64_t first,
                           const Drift& drift, const Judging& how) {
  const auto got = r.inner.find({"mlp_out", drift.layer});
  const Golden::Rows *chosen = truth.find("chosen_out", drift.layer),
                     *shared = truth.find("shared_out", drift.layer);
  if (drift.part != "mlp_out" || !chosen || !shared || got == r.inner.end()) return "";
  const auto tokens = static_cast<int64_t>(got->second.size()) / chosen->width;
  if (tokens < 1 || !chosen->has(first) || !chosen->has(first + tokens - 1)) return "";
  const auto begin = static_cast<size_t>((first - chosen->first) * chosen->width);
  std::vector<float> alone(chosen->values.begin() + static_cast<ptrdiff_t>(begin),
                           chosen->values.begin() + static_cast<ptrdiff_t>(begin + got->second.size()));
  if (c.value_problem(compare(got->second, alone), how, false).empty())
    return "; the chosen experts alone give just this: the shared expert is left out";
  for (size_t i = 0; i < alone.size(); ++i) alone[i] += shared->values[begin + i];
  return c.value_problem(compare(got->second, alone), how, false).empty()
             ? "; with a share of 1 the model gives just this: the share of the shared expert is left out"
             : "";
}

}  // namespace anemone
