// Routers and their experts: what was chosen, whether another choice is as good, and what every expert computes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "verify/climber.h"

namespace anemone {
namespace {

// The experts of one token, by what they are chosen by, and how far the last of them lies above the next.
struct RouterChoice {
  std::vector<size_t> experts;  // sorted
  double gap = 0;               // in standard deviations of the scores
  double spread = 0;            // one of these
};

RouterChoice choice_of(std::span<const float> scores, size_t used) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  double sum = 0, squares = 0;
  for (const float s : scores) sum += s, squares += static_cast<double>(s) * s;
  const auto n = static_cast<double>(scores.size());
  const double spread = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
  RouterChoice out;
  out.spread = spread;
  if (used < order.size())
    out.gap = (static_cast<double>(scores[order[used - 1]]) - scores[order[used]]) / std::max(spread, 1e-30);
  out.experts.assign(order.begin(), order.begin() + static_cast<ptrdiff_t>(std::min(used, order.size())));
  std::sort(out.experts.begin(), out.experts.end());
  return out;
}

// The choices that count at all, as people write them.
std::string chosen_text(std::span<const float> shares) {
  std::string out;
  for (size_t i = 0; i < shares.size(); ++i)
    if (shares[i] != 0) out += fmt::format("{}{}", out.empty() ? "" : ", ", i);
  return out.empty() ? "none" : out;
}

// Numbers of the size of normed values.
float made_up(uint32_t& n) {
  n = n * 1664525u + 1013904223u;
  return static_cast<float>(n >> 16) / 16384.0f - 2.0f;
}

// One function of experts over made-up numbers, against the reference.
std::string function_problem(const Climber& c, size_t index, const StageFunction& f,
                             const Predictor& predictor, Arithmetic arithmetic) {
  const Stage& stage = c.bundle->info().stages[index];
  const auto layer = static_cast<size_t>(stage.first_layer - c.first_layer);
  const ResidualStep& step =
      c.reference->model().layers[layer].steps.at(experts_step(c.reference->model().layers[layer]));
  const Role& experts = f.find_input(Role::Kind::shares)->role;
  const int64_t width = f.most_tokens, hidden = c.bundle->info().hidden, count = experts.last - experts.first;
  Array x(DType::fp32, {1, hidden, width, 1}), shares(DType::fp32, {1, count, width, 1});
  std::vector<float> rows(static_cast<size_t>(width * hidden)), expected(rows.size());
  uint32_t n = 17 + static_cast<uint32_t>(experts.first);
  for (int64_t t = 0; t < width; ++t)
    for (int64_t i = 0; i < hidden; ++i)
      rows[static_cast<size_t>(t * hidden + i)] = x.values<float>()[static_cast<size_t>(i * width + t)] =
          made_up(n);
  const double scale = c.bundle->info().residual_scale * (step.norm_out ? 1 : step.scale);
  for (int64_t e = 0; e < count; ++e) {
    const std::vector<float> y =
        c.reference->expert(layer, static_cast<size_t>(experts.first + e), rows, width);
    for (int64_t t = 0; t < width; ++t) {
      const float share = 1.0f / static_cast<float>(1 + (e + t) % 4);
      shares.values<float>()[static_cast<size_t>(e * width + t)] = share;
      for (auto i = static_cast<size_t>(t * hidden); i < static_cast<size_t>((t + 1) * hidden); ++i)
        expected[i] += share * y[i];
    }
  }
  const Prediction result = predictor.predict({{f.find_input(Role::Kind::normed)->name, std::move(x)},
                                               {f.find_input(Role::Kind::shares)->name, std::move(shares)}});
  const Array& out = result.at(f.find_output(Role::Kind::mixed)->name);
  for (int64_t t = 0; t < width; ++t) {
    std::vector<float> got(static_cast<size_t>(hidden));
    for (int64_t i = 0; i < hidden; ++i)
      got[static_cast<size_t>(i)] = static_cast<float>(
          static_cast<double>(out.values<float>()[static_cast<size_t>(i * width + t)]) / scale);
    const std::string wrong = c.value_problem(
        compare(got,
                std::span(expected).subspan(static_cast<size_t>(t * hidden), static_cast<size_t>(hidden))),
        {arithmetic}, false);
    if (!wrong.empty())
      return fmt::format(
          "layer {}: {} {} give something else than the model's in {} arithmetic: {} (function '{}' of {})",
          stage.first_layer, count == 1 ? "expert" : "experts",
          count == 1 ? fmt::format("{}", experts.first)
                     : fmt::format("{} to {}", experts.first, experts.last - 1),
          arithmetic_name(arithmetic), wrong, f.name, stage.package);
  }
  return "";
}

}  // namespace

bool near_tie(const Climber& c, const StepResult& r, const Golden& truth, int64_t first, int64_t last,
              Arithmetic a) {
  const double bar =
      a == Arithmetic::fp32 ? 0.002 : 0.05;  // of the gap; clean bundles stay below a third of it
  for (int64_t i = 0; i <= last; ++i) {
    const Experts* e = find_experts(c.full->model().layers[static_cast<size_t>(i)]);
    const Golden::Rows* rows = truth.find("router", i);
    const auto got = r.inner.find({"router", i});
    if (!e || !rows || got == r.inner.end()) continue;
    const auto width = static_cast<size_t>(rows->width);
    for (size_t t = 0; (t + 1) * width <= got->second.size(); ++t) {
      if (!rows->has(first + static_cast<int64_t>(t))) continue;
      const auto used = static_cast<size_t>(e->used);
      const std::span<const float> want = rows->row(first + static_cast<int64_t>(t)),
                                   have = std::span(got->second).subspan(t * width, width);
      const RouterChoice expected = choice_of(want, used);
      double apart = 0;  // a fault before the router moves its scores
      for (size_t j = 0; j < width; ++j)
        apart = std::max(apart, std::abs(static_cast<double>(have[j]) - want[j]));
      if (choice_of(have, used).experts != expected.experts && expected.gap <= bar &&
          apart <= 3 * bar * expected.spread)
        return true;
    }
  }
  return false;
}

std::string choice_text(const StepResult& r, const Golden& truth, int64_t first, int64_t layer,
                        int64_t shown) {
  const Golden::Rows* rows = truth.find("shares", layer);
  const auto got = r.inner.find({"shares", layer});
  if (!rows || got == r.inner.end()) return "";
  const auto width = static_cast<size_t>(rows->width);
  for (size_t t = 0; (t + 1) * width <= got->second.size(); ++t) {
    if (!rows->has(first + static_cast<int64_t>(t))) continue;
    const std::string have = chosen_text(std::span(got->second).subspan(t * width, width)),
                      want = chosen_text(rows->row(first + static_cast<int64_t>(t)));
    if (have != want)
      return fmt::format("layer {} chooses the experts {}, and the model {}: ", shown, have, want);
  }
  return fmt::format("layer {} chooses the model's experts and weighs them otherwise: ", shown);
}

std::string experts_problem(const Climber& c, Arithmetic arithmetic) {
  if (!c.reference || !c.bundle->info().routes()) return "";
  c.say(fmt::format("every expert, {} arithmetic", arithmetic_name(arithmetic)));
  const auto backend = c.options.backend({.arithmetic = arithmetic, .threads = c.options.threads});
  const std::vector<Stage>& stages = c.bundle->info().stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].kind != StageKind::experts) continue;
    for (const StageFunction& f : stages[s].functions) {
      const auto package = std::shared_ptr<const Package>(c.bundle, &c.bundle->package(s));
      const auto predictor = backend->open(package, f.name);
      if (std::string problem = function_problem(c, s, f, *predictor, arithmetic); !problem.empty())
        return problem;
    }
  }
  return "";
}

}  // namespace anemone
