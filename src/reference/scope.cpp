#include "reference/scope.h"

#include <algorithm>
#include <cmath>

namespace anemone {

void ReferenceScope::take(std::vector<TokenRun> runs, int64_t ahead, bool probes) {
  runs_ = std::move(runs);
  probes_ = probes;
  if (rotary_.empty())
    for (const Rope& rope : model_.ropes)
      rotary_.emplace_back(rope, std::max(options_.positions, position() + ahead), options_.long_rope);
  int64_t begin = runs_.front().index, end = begin;
  for (const TokenRun& run : runs_) {
    begin = std::min(begin, run.index);
    end = std::max(end, run.index + run.count);
  }
  for (RotaryTable& table : rotary_)
    table.cover(options_.first_position + begin, options_.first_position + end);
}

const TokenRun& ReferenceScope::run_of(int64_t token) const {
  const auto behind = std::upper_bound(runs_.begin(), runs_.end(), token,
                                       [](int64_t t, const TokenRun& run) { return t < run.first; });
  return *(behind - 1);
}

int64_t ReferenceScope::index_of(int64_t token) const {
  const TokenRun& run = run_of(token);
  return run.index + token - run.first;
}

void ReferenceScope::normalise(const Norm& norm, std::span<float> values, int64_t width) const {
  const std::vector<float> gain = norm.gain ? weights_.vector(norm.gain) : std::vector<float>();
  const std::vector<float> bias = norm.bias ? weights_.vector(norm.bias) : std::vector<float>();
  const auto n = static_cast<size_t>(width);
  for (size_t begin = 0; begin < values.size(); begin += n) {
    double mean = 0, squares = 0;
    if (norm.kind == Norm::Kind::layer) {
      for (size_t i = 0; i < n; ++i) mean += static_cast<double>(values[begin + i]);
      mean /= static_cast<double>(n);
    }
    for (size_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(values[begin + i]) - mean;
      squares += v * v;
    }
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + norm.eps);
    for (size_t i = 0; i < n; ++i) {
      const double v = (static_cast<double>(values[begin + i]) - mean) * scale *
                       (gain.empty() ? 1.0 : static_cast<double>(gain[i]) + norm.offset);
      values[begin + i] = static_cast<float>(bias.empty() ? v : v + static_cast<double>(bias[i]));
    }
  }
}

std::vector<float> ReferenceScope::project(std::string_view name, size_t layer, const Projection& p,
                                           const std::vector<float>& x, int64_t tokens) const {
  const int64_t rows = p.weight.rows();
  std::vector<float> y(static_cast<size_t>(tokens * rows));
  weights_.multiply(p.weight, x.data(), tokens, y.data());
  if (p.bias) {
    const std::vector<float> b = weights_.vector(p.bias);
    for (size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
  }
  if (options_.sums) {
    float largest = weights_.largest_running_sum(p.weight, x.data(), tokens);
    for (const float value : y) largest = std::max(largest, std::abs(value));
    options_.sums(name, static_cast<int64_t>(layer), largest);
  }
  return y;
}

}  // namespace anemone
