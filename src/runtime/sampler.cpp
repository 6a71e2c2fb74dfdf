#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>

namespace anemone {

// SplitMix64: small, good, and the same everywhere.
double Sampler::uniform() {
  uint64_t z = random_ += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

int32_t Sampler::pick(std::span<const float> logits, std::span<const int32_t> history) {
  std::vector<std::pair<float, int32_t>> candidates;
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates.push_back({logits[i], static_cast<int32_t>(i)});
  if (options_.repetition_penalty != 1) {
    const auto window = static_cast<size_t>(std::max<int64_t>(0, options_.repetition_window));
    std::vector<int32_t> recent(history.end() - static_cast<ptrdiff_t>(std::min(window, history.size())),
                                history.end());
    std::sort(recent.begin(), recent.end());
    recent.erase(std::unique(recent.begin(), recent.end()), recent.end());
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const int32_t id : recent)
      if (id >= 0 && static_cast<size_t>(id) < candidates.size()) {
        float& l = candidates[static_cast<size_t>(id)].first;
        l = l > 0 ? l / penalty : l * penalty;
      }
  }
  // Better first; of equals the lower id.
  const auto better = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  if (options_.temperature <= 0)
    return std::min_element(candidates.begin(), candidates.end(), better)->second;
  size_t keep = options_.top_k > 0 ? std::min(static_cast<size_t>(options_.top_k), candidates.size())
                                   : candidates.size();
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(keep), candidates.end(),
                    better);
  candidates.resize(keep);
  std::vector<double> p(keep);
  double sum = 0;
  for (size_t i = 0; i < keep; ++i)
    sum += p[i] = std::exp((candidates[i].first - candidates[0].first) / options_.temperature);
  double cumulated = 0;
  for (size_t i = 0; i < keep; ++i) {
    const bool unlikely = i > 0 && p[i] < options_.min_p * p[0];
    const bool enough = i > 0 && cumulated >= options_.top_p * sum;
    if (unlikely || enough) {
      keep = i;
      break;
    }
    cumulated += p[i];
  }
  double at = uniform() * cumulated;
  for (size_t i = 0; i + 1 < keep; ++i) {
    if (at < p[i]) return candidates[i].second;
    at -= p[i];
  }
  return candidates[keep - 1].second;
}

}  // namespace anemone
