// The host's part of experts, written once more for the stepper: it shares nothing with the runtime's.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "bundle/check_ports.h"
#include "verify/stepper.h"

namespace anemone {
namespace {

// The best that is left is taken out as often as a token has choices; of equal ones the first.
std::vector<size_t> best_of_all(std::vector<double> scores, int64_t used) {
  std::vector<size_t> out;
  for (int64_t i = 0; i < used; ++i) {
    size_t best = scores.size();
    for (size_t j = 0; j < scores.size(); ++j)
      if (!std::isnan(scores[j]) && (best == scores.size() || scores[j] > scores[best])) best = j;
    if (best == scores.size()) break;  // what is no number is nobody's choice
    out.push_back(best);
    scores[best] = NAN;
  }
  return out;
}

// exp(x) of each over the sum of those in `among`.
double share_of(const std::vector<double>& logits, size_t which, const std::vector<size_t>& among) {
  double sum = 0;
  for (const size_t other : among) sum += std::exp(logits[other] - logits[which]);
  return 1 / sum;
}

// What stands in columns that are nobody's.
float filler(int64_t i) { return static_cast<float>((i * 7919) % 641) / 320.0f - 1.0f; }

}  // namespace

// Chooses experts for each token; `router` and `shares` are known to the reference too.
void Stepper::take_routes(size_t index, const StageFunction& f, const Prediction& result, const Pass& pass,
                          Handed& handed, StepResult& out) const {
  const Stage& stage = info().stages[index];
  const ExpertRule& rule = *stage.rule;
  const auto choices = static_cast<size_t>(rule.choices());
  const Array& logits = result.at(f.find_output(Role::Kind::router)->name);
  handed.normed = result.at(f.find_output(Role::Kind::normed)->name);
  handed.shares.assign(static_cast<size_t>(pass.tokens), std::vector<double>(choices));
  handed.mixed = Array(DType::fp32, {1, info().hidden, pass.width, 1});
  std::vector<size_t> everyone(choices);
  for (size_t i = 0; i < choices; ++i) everyone[i] = i;
  std::vector<float> all_scores, all_shares;
  for (size_t t = 0; t < static_cast<size_t>(pass.tokens); ++t) {
    std::vector<double> row(choices);
    for (size_t i = 0; i < choices; ++i)
      row[i] = static_cast<double>(logits.values<float>()[i * static_cast<size_t>(pass.width) + t]);
    std::vector<double> scores = row;
    if (!rule.choice_bias.empty())
      for (size_t i = 0; i < choices; ++i) scores[i] = share_of(row, i, everyone) + rule.choice_bias[i];
    const std::vector<size_t> chosen = best_of_all(scores, rule.used);
    for (const size_t i : chosen)
      handed.shares[t][i] = share_of(row, i, rule.share == Experts::Share::of_all ? everyone : chosen);
    all_scores.insert(all_scores.end(), scores.begin(), scores.end());
    all_shares.insert(all_shares.end(), handed.shares[t].begin(), handed.shares[t].end());
  }
  // A skip that passes adds what the experts would have seen; padding holds what the caller asked for.
  for (int64_t c = 0; c < info().hidden; ++c)
    for (int64_t t = 0; t < pass.width; ++t) {
      const auto at = static_cast<size_t>(c * pass.width + t);
      float& to = handed.mixed.values<float>()[at];
      if (t < pass.tokens && rule.skip == Experts::Skip::pass)
        to = static_cast<float>(handed.shares[static_cast<size_t>(t)].back() * rule.skip_scale *
                                static_cast<double>(handed.normed.values<float>()[at]));
      else if (pass.noisy(t))
        to = filler(c * pass.width + t);
    }
  if (!options_.taps) return;
  const int64_t layer = stage.last_layer - 1 - first_layer_;
  out.inner[{"router", layer}] = std::move(all_scores);
  out.inner[{"shares", layer}] = std::move(all_shares);
}

// Small calls for a pass of one token, large ones for more: so functions of all sizes are used.
void Stepper::run_experts(size_t index, const Pass& pass, Handed& handed, StepResult& out) const {
  const std::vector<StageFunction>& functions = info().stages[index].functions;
  std::map<std::pair<int64_t, int64_t>, const StageFunction*> by_experts;
  for (const StageFunction& f : functions) {
    const Role& shares = f.find_input(Role::Kind::shares)->role;
    const StageFunction*& known = by_experts[{shares.first, shares.last}];
    if (!known || (pass.width == 1 ? f.most_tokens < known->most_tokens : f.most_tokens > known->most_tokens))
      known = &f;
  }
  for (const auto& [experts, f] : by_experts) {
    std::vector<int64_t> tokens;
    for (int64_t t = 0; t < pass.tokens; ++t) {
      const std::vector<double>& row = handed.shares[static_cast<size_t>(t)];
      if (std::any_of(row.begin() + experts.first, row.begin() + experts.second,
                      [](double share) { return share != 0; }))
        tokens.push_back(t);
    }
    const std::span<const int64_t> all(tokens);
    const auto size = static_cast<size_t>(f->most_tokens);
    for (size_t at = 0; at < all.size(); at += size)
      call_experts(index, *f, pass, all.subspan(at, std::min(size, all.size() - at)), handed, out);
  }
  // Padding that repeats the last token repeats what its experts add.
  if (pass.padding != Padding::repeat) return;
  for (int64_t c = 0; c < info().hidden; ++c)
    for (int64_t t = pass.tokens; t < pass.width; ++t)
      handed.mixed.values<float>()[static_cast<size_t>(c * pass.width + t)] =
          handed.mixed.values<float>()[static_cast<size_t>(c * pass.width + pass.tokens - 1)];
}

void Stepper::call_experts(size_t index, const StageFunction& f, const Pass& pass,
                           std::span<const int64_t> tokens, Handed& handed, StepResult& out) const {
  const Port &x = *f.find_input(Role::Kind::normed), &shares = *f.find_input(Role::Kind::shares),
             &y = *f.find_output(Role::Kind::mixed);
  const int64_t width = f.most_tokens, hidden = info().hidden, count = shares.role.last - shares.role.first;
  const auto from = handed.normed.values<float>();
  Array seen(DType::fp32, {1, hidden, width, 1}), parts(DType::fp32, {1, count, width, 1});
  for (int64_t i = 0; i < width; ++i) {
    const bool real = static_cast<size_t>(i) < tokens.size();
    const int64_t token = real ? tokens[static_cast<size_t>(i)] : 0;
    for (int64_t c = 0; c < hidden; ++c)
      seen.values<float>()[static_cast<size_t>(c * width + i)] =
          real ? from[static_cast<size_t>(c * pass.width + token)] : filler(c * width + i);
    for (int64_t e = 0; real && e < count; ++e)
      parts.values<float>()[static_cast<size_t>(e * width + i)] = static_cast<float>(
          handed.shares[static_cast<size_t>(token)][static_cast<size_t>(shares.role.first + e)]);
  }
  const Prediction result = predict(index, f.name, pass, {{x.name, seen}, {shares.name, parts}}, nullptr);
  check_output(result.at(y.name).shape(), y, info(), width);
  if (result.fault && !out.fault) out.fault = result.fault;
  for (size_t i = 0; i < tokens.size(); ++i)
    for (int64_t c = 0; c < hidden; ++c)
      handed.mixed.values<float>()[static_cast<size_t>(c * pass.width + tokens[i])] +=
          result.at(y.name).values<float>()[static_cast<size_t>(c * width) + i];
}

}  // namespace anemone
