#include "runtime/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace anemone {
namespace {

void softmax(std::span<double> x) {
  const double most = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - most);
  for (double& v : x) v /= sum;
}

}  // namespace

ExpertChoice choose_experts(const ExpertRule& rule, std::span<const float> logits, int64_t tokens) {
  const auto choices = static_cast<size_t>(rule.choices()), used = static_cast<size_t>(rule.used);
  ANEMONE_CHECK(logits.size() == choices * static_cast<size_t>(tokens));
  ExpertChoice out;
  out.uses.resize(choices);
  std::vector<double> all(choices), scores(choices), chosen(used);
  std::vector<size_t> order(choices);
  for (int64_t t = 0; t < tokens; ++t) {
    const std::span<const float> row = logits.subspan(static_cast<size_t>(t) * choices, choices);
    std::copy(row.begin(), row.end(), all.begin());
    scores = all;
    softmax(all);
    if (!rule.choice_bias.empty())
      std::transform(all.begin(), all.end(), rule.choice_bias.begin(), scores.begin(), std::plus<>());
    std::ranges::replace_if(scores, [](double s) { return std::isnan(s); }, -INFINITY);  // they have no order
    std::iota(order.begin(), order.end(), size_t{0});
    std::partial_sort(
        order.begin(), order.begin() + static_cast<ptrdiff_t>(used), order.end(),
        [&](size_t a, size_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
    for (size_t i = 0; i < used; ++i) chosen[i] = static_cast<double>(row[order[i]]);
    if (rule.share == Experts::Share::of_chosen) softmax(chosen);
    for (size_t i = 0; i < used; ++i) {
      const double share = rule.share == Experts::Share::of_all ? all[order[i]] : chosen[i];
      out.uses[order[i]].push_back({t, static_cast<float>(share)});
    }
  }
  return out;
}

}  // namespace anemone
