// What storing the weights cost: the truth, which has the stored weights, against the model itself on the same text.
#include <algorithm>
#include <cmath>

#include "verify/climber.h"

namespace anemone {
namespace {

// Bounds of the grades, in nats of a next token.
constexpr double kExcellent = 0.002, kGood = 0.02, kFair = 0.1;

double log_probability(std::span<const float> logits, int32_t id) {
  const double most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - most);
  return static_cast<double>(logits[static_cast<size_t>(id)]) - most - std::log(sum);
}

std::string perplexity_text(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

}  // namespace

std::string_view StorageCost::grade() const {
  const double loss = std::max(divergence, error * error / 2);
  return loss < kExcellent ? "excellent" : loss < kGood ? "good" : loss < kFair ? "fair" : "poor";
}

std::string storage_problem(Climber& c, Rung& rung) {
  c.say("computing what storing the weights cost");
  const auto vocab = static_cast<size_t>(c.model.vocab);
  const auto count = std::min(c.truth.ids.size(), static_cast<size_t>(c.truth.logits.rows));
  ReferenceSession session(*c.full, {.positions = static_cast<int64_t>(c.truth.ids.size())});
  const std::vector<float> all = session.step(std::span(c.truth.ids).first(count));
  StorageCost cost;
  double own = 0, stored = 0;
  int64_t scored = 0;
  for (size_t t = 0; t < count; ++t) {
    const std::span<const float> expected = std::span(all).subspan(t * vocab, vocab);
    const std::span<const float> got = c.truth.logits.row(static_cast<int64_t>(t));
    const double d = divergence(got, expected);
    ++cost.positions;
    cost.divergence += d;
    cost.worst_divergence = std::max(cost.worst_divergence, d);
    cost.same_best += best_of(got) == best_of(expected) ? 1 : 0;
    if (t + 1 >= static_cast<size_t>(c.truth.prompt)) continue;
    own -= log_probability(expected, c.truth.ids[t + 1]);
    stored -= log_probability(got, c.truth.ids[t + 1]);
    ++scored;
  }
  cost.divergence /= static_cast<double>(std::max<int64_t>(1, cost.positions));
  cost.same_best = (cost.same_best - 1) / static_cast<double>(std::max<int64_t>(1, cost.positions));
  if (scored > 0) {
    cost.perplexity = std::exp(own / static_cast<double>(scored));
    cost.stored_perplexity = std::exp(stored / static_cast<double>(scored));
  }
  c.report.cost = cost;
  rung.notes.push_back(fmt::format(
      "storing the weights cost {:.2g} nats a token ({}): {:.0f}% of the best tokens are the model's, "
      "perplexity of the prompt {} instead of {}",
      cost.divergence, cost.grade(), 100 * cost.same_best, perplexity_text(cost.stored_perplexity),
      perplexity_text(cost.perplexity)));
  const auto& most = c.options.max_divergence;
  if (most && !(cost.divergence <= *most))
    return fmt::format("storing the weights cost {:.3g} nats a token, and at most {:.3g} was asked for",
                       cost.divergence, *most);
  if (cost.grade() == "poor") rung.verdict = Verdict::warned;
  return "";
}

}  // namespace anemone
