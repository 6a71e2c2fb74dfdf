#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "grammar/token_masks.h"

namespace anemone {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
// How many tokens may be refused before the mask of the whole vocabulary is made, and how many are looked for so.
constexpr size_t kMostRefused = 64, kMostTried = 256;

struct Candidate {
  float logit;
  int32_t id;
};

bool worse(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
}

// The best one first.
std::vector<Candidate> heap_of(std::span<const float> logits) {
  std::vector<Candidate> out;
  out.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > kNone) out.push_back({logits[i], static_cast<int32_t>(i)});  // NaN is left out too
  if (out.empty()) throw errorf("no logit is a number").hint("the model overflows: see anemone verify");
  std::make_heap(out.begin(), out.end(), worse);
  return out;
}

std::vector<float> masked(std::span<const float> logits, GrammarMatcher& grammar) {
  std::vector<float> out(logits.begin(), logits.end());
  grammar.mask(out);
  return out;
}

// A heap of at least the `wanted` best tokens that the grammar allows. A model mostly wants what is allowed: so the
// first time that an answer comes to a state of the grammar, its best tokens are tried one by one, and the mask is
// made when too many of them are refused. The tokens are the same either way.
std::vector<Candidate> best_allowed(std::span<const float> logits, size_t wanted, GrammarMatcher& grammar) {
  if (wanted > kMostTried || grammar.has_mask()) return heap_of(masked(logits, grammar));
  std::vector<Candidate> all = heap_of(logits), kept;
  for (size_t refused = 0; kept.size() < wanted && !all.empty();) {
    std::pop_heap(all.begin(), all.end(), worse);
    if (grammar.allows(all.back().id))
      kept.push_back(all.back());
    else if (++refused > kMostRefused)
      return heap_of(masked(logits, grammar));
    all.pop_back();
  }
  return kept.empty() ? heap_of(masked(logits, grammar)) : kept;  // of none: an Error that says so
}

}  // namespace

void SamplerOptions::check() const {
  const auto refuse = [](const char* what, double value, const char* expected) {
    throw errorf("{} is out of range", what).found(fmt::format("{}", value)).expected(expected);
  };
  if (!(temperature >= 0 && std::isfinite(temperature))) refuse("the temperature", temperature, "0 or more");
  if (top_k < 0) refuse("top-k", static_cast<double>(top_k), "0 (all) or more");
  if (!(top_p > 0 && top_p <= 1)) refuse("top-p", top_p, "above 0, at most 1");
  if (!(min_p >= 0 && min_p <= 1)) refuse("min-p", min_p, "0 to 1");
  if (!(repetition_penalty > 0 && std::isfinite(repetition_penalty)))
    refuse("the repetition penalty", repetition_penalty, "above 0");
  if (!std::isfinite(presence_penalty)) refuse("the presence penalty", presence_penalty, "a number");
  if (!std::isfinite(frequency_penalty)) refuse("the frequency penalty", frequency_penalty, "a number");
  for (const auto& [id, bias] : biases)
    if (std::isnan(bias)) refuse("the bias of a token", bias, "a number");
}

// SplitMix64: small, good, and the same everywhere.
double Sampler::uniform() {
  uint64_t z = random_ += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

std::span<const float> Sampler::changed(std::span<const float> logits, const Past& past,
                                        std::vector<float>& own) const {
  if (!options_.changes_logits()) return logits;
  own.assign(logits.begin(), logits.end());
  const auto each = [&](std::span<const int32_t> ids, const auto& change) {
    std::vector<int32_t> sorted(ids.begin(), ids.end());
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0, next = 0; i < sorted.size(); i = next) {
      while (next < sorted.size() && sorted[next] == sorted[i]) ++next;
      if (sorted[i] >= 0 && static_cast<size_t>(sorted[i]) < own.size())
        change(own[static_cast<size_t>(sorted[i])], static_cast<double>(next - i));
    }
  };
  for (const auto& [id, bias] : options_.biases)
    if (id >= 0 && static_cast<size_t>(id) < own.size()) own[static_cast<size_t>(id)] += bias;
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0)
    each(past.answer, [&](float& l, double times) {
      l -= static_cast<float>(options_.presence_penalty + options_.frequency_penalty * times);
    });
  if (options_.repetition_penalty != 1) {
    const auto window = static_cast<size_t>(std::max<int64_t>(0, options_.repetition_window));
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    each(past.history.last(std::min(window, past.history.size())),
         [&](float& l, double) { l = l > 0 ? l / penalty : l * penalty; });
  }
  return own;
}

Sampler::Best Sampler::best(std::span<const float> logits, std::span<const int32_t> history,
                            std::span<const int32_t> answer, GrammarMatcher* grammar) const {
  std::vector<float> own;
  logits = changed(logits, {history, answer, grammar}, own);
  if (grammar) logits = own = masked(logits, *grammar);
  Best out{-1, 0, 0};
  float first = kNone, second = kNone;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float l = logits[i];
    if (l > first) {
      second = first;
      first = l;
      out.id = static_cast<int32_t>(i);
    } else if (l > second) {
      second = l;
    }
    if (std::isfinite(l)) out.scale = std::max(out.scale, std::abs(l));
  }
  if (out.id < 0) throw errorf("no logit is a number").hint("the model overflows: see anemone verify");
  out.margin = first - second;
  return out;
}

int32_t Sampler::pick(std::span<const float> logits, std::span<const int32_t> history,
                      std::span<const int32_t> answer, GrammarMatcher* grammar) {
  if (options_.greedy() && (!grammar || grammar->has_mask()))
    return best(logits, history, answer, grammar).id;
  std::vector<float> own;
  logits = changed(logits, {history, answer, grammar}, own);
  const size_t wanted = options_.greedy()    ? 1
                        : options_.top_k > 0 ? static_cast<size_t>(options_.top_k)
                                             : logits.size();
  std::vector<Candidate> heap = grammar ? best_allowed(logits, wanted, *grammar) : heap_of(logits);
  if (options_.greedy()) return heap.front().id;
  // Only as many are sorted as are kept: top-p and min-p mostly keep a handful of a large vocabulary.
  const float top = heap.front().logit;
  const auto likely_at = [&](float logit, double temperature) {
    return logit == top ? 1.0 : std::exp((static_cast<double>(logit) - top) / temperature);
  };
  const auto likely = [&](float logit) {
    return likely_at(logit, options_.temperature_last ? 1.0 : options_.temperature);
  };
  const size_t most =
      options_.top_k > 0 ? std::min(static_cast<size_t>(options_.top_k), heap.size()) : heap.size();
  std::vector<Candidate> kept;
  std::vector<double> p;
  const auto take = [&] {
    std::pop_heap(heap.begin(), heap.end(), worse);
    kept.push_back(heap.back());
    p.push_back(likely(heap.back().logit));
    heap.pop_back();
  };
  double sum = 0;  // of what top-k keeps
  if (options_.top_k > 0) {
    while (kept.size() < most) take();
    for (const double x : p) sum += x;
  } else {
    for (const Candidate& c : heap) sum += likely(c.logit);
  }
  double cumulated = 0;
  size_t keep = 0;
  for (; keep < most; ++keep) {
    if (keep == kept.size()) take();
    const bool unlikely = keep > 0 && p[keep] < options_.min_p;
    const bool enough = keep > 0 && options_.top_p < 1 && cumulated >= options_.top_p * sum;
    if (unlikely || enough) break;
    cumulated += p[keep];
  }
  p.resize(keep);
  for (size_t i = 0; i < keep && options_.temperature_last; ++i)
    p[i] = likely_at(kept[i].logit, options_.temperature);
  return kept[draw(p)].id;
}

size_t Sampler::draw(std::span<const double> weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  double at = uniform() * sum;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    if (at < weights[i]) return i;
    at -= weights[i];
  }
  return weights.size() - 1;
}

}  // namespace anemone
