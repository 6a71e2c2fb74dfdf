// Routers: what was chosen, by how much it counts, and whether another choice is as good.
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
struct Chosen {
  std::string text;
  int64_t count = 0;
  double sum = 0;  // of their weights
};

Chosen chosen_by(std::span<const float> shares) {
  Chosen out;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    out.text += fmt::format("{}{}", out.text.empty() ? "" : ", ", i);
    ++out.count;
    out.sum += static_cast<double>(shares[i]);
  }
  if (out.text.empty()) out.text = "none";
  return out;
}

constexpr double kSameSum = 0.01;  // of weights that sum to the same

}  // namespace

std::vector<RouterTie> near_ties(const Climber& c, const StepResult& r, const Golden& truth, int64_t first,
                                 int64_t last, Arithmetic a,
                                 const decltype(ReferenceOptions::taken)& settled) {
  std::vector<RouterTie> out;
  const double bar =
      a == Arithmetic::fp32 ? 0.002 : 0.05;  // of the gap; clean bundles stay below a third of it
  for (int64_t i = 0; i <= last && out.empty(); ++i) {
    const Experts* e = find_experts(c.full->model().layers[static_cast<size_t>(i)]);
    const Golden::Rows* rows = truth.find("router", i);
    const auto got = r.inner.find({"router", i});
    if (!e || !rows || got == r.inner.end()) continue;
    const auto width = static_cast<size_t>(rows->width);
    for (size_t t = 0; (t + 1) * width <= got->second.size(); ++t) {
      const int64_t token = first + static_cast<int64_t>(t);
      if (!rows->has(token) || settled.contains({static_cast<size_t>(i), token})) continue;
      const auto used = static_cast<size_t>(e->used);
      const std::span<const float> want = rows->row(token),
                                   have = std::span(got->second).subspan(t * width, width);
      const RouterChoice expected = choice_of(want, used);
      double apart = 0;  // a fault before the router moves its scores
      for (size_t j = 0; j < width; ++j)
        apart = std::max(apart, std::abs(static_cast<double>(have[j]) - want[j]));
      const RouterChoice made = choice_of(have, used);
      if (made.experts != expected.experts && expected.gap <= bar && apart <= 3 * bar * expected.spread)
        out.push_back({i, token, made.experts});
    }
  }
  return out;
}

bool same_choice(std::span<const float> have, std::span<const float> want) {
  constexpr float kNothing = 1e-9f;  // sums of exponentials may round to it
  for (size_t i = 0; i < want.size(); ++i)
    if ((have[i] == 0) != (want[i] == 0) && std::max(have[i], want[i]) > kNothing) return false;
  return true;
}

std::string choice_text(const StepResult& r, const Golden& truth, int64_t first, int64_t layer,
                        int64_t shown) {
  const Golden::Rows* rows = truth.find("shares", layer);
  const auto got = r.inner.find({"shares", layer});
  if (!rows || got == r.inner.end()) return "";
  const auto width = static_cast<size_t>(rows->width);
  std::string weighs;
  for (size_t t = 0; (t + 1) * width <= got->second.size(); ++t) {
    if (!rows->has(first + static_cast<int64_t>(t))) continue;
    const std::span<const float> mine = std::span(got->second).subspan(t * width, width),
                                 model = rows->row(first + static_cast<int64_t>(t));
    const Chosen have = chosen_by(mine), want = chosen_by(model);
    if (have.text != want.text) {
      const std::string how_many =
          have.count == want.count
              ? ""
              : fmt::format(" (it picks {} for a token, and the model {})", have.count, want.count);
      return fmt::format("layer {} chooses the experts {}, and the model {}{}: ", shown, have.text, want.text,
                         how_many);
    }
    if (weighs.empty() && std::abs(have.sum - want.sum) > kSameSum)
      weighs = fmt::format(" (the weights sum to {:.3g}, and the model's to {:.3g})", have.sum, want.sum);
  }
  return fmt::format("layer {} chooses the model's experts and weighs them otherwise{}: ", shown, weighs);
}

}  // namespace anemone
