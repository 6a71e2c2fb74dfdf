#include "reference/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace anemone {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Long waves are stretched by `factor`, short ones are kept, those in between are blended.
double llama3_frequency(const Rope& rope, double f) {
  const double turns = static_cast<double>(rope.original_context) * f / kTwoPi;  // over the original context
  if (turns > rope.high_freq_factor) return f;
  if (turns < rope.low_freq_factor) return f / rope.factor;
  const double kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return f * ((1 - kept) / rope.factor + kept);
}

// The index at which a wave turns `turns` times over the original context.
double yarn_index(const Rope& rope, double turns) {
  return static_cast<double>(rope.dims) *
         std::log(static_cast<double>(rope.original_context) / (turns * kTwoPi)) / (2 * std::log(rope.base));
}

void scale_yarn(const Rope& rope, std::vector<double>& frequencies) {
  double low = yarn_index(rope, rope.beta_fast), high = yarn_index(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.dims - 1));
  if (high == low) high += 0.001;  // as the original does, against dividing by nothing
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / rope.factor * ramp + frequencies[i] * (1 - ramp);
  }
}

}  // namespace

std::vector<double> rotary_frequencies(const Rope& rope, int64_t positions, LongRope choice) {
  const double dims = static_cast<double>(rope.dims);
  double base = rope.base;
  if (rope.scaling == RopeScaling::ntk_alpha) base *= std::pow(rope.alpha, dims / (dims - 2));
  if (rope.scaling == RopeScaling::dynamic && positions > rope.original_context)
    base *=
        std::pow(rope.factor * static_cast<double>(positions) / static_cast<double>(rope.original_context) -
                     (rope.factor - 1),
                 dims / (dims - 2));
  std::vector<double> frequencies(static_cast<size_t>(rope.dims / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(base, -2 * static_cast<double>(i) / dims);
  switch (rope.scaling) {
    case RopeScaling::none:
    case RopeScaling::ntk_alpha:
    case RopeScaling::dynamic: break;
    case RopeScaling::linear:
      for (double& f : frequencies) f /= rope.factor;
      break;
    case RopeScaling::divisors:
      for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= rope.divisors.at(i);
      break;
    case RopeScaling::llama3:
      for (double& f : frequencies) f = llama3_frequency(rope, f);
      break;
    case RopeScaling::yarn: scale_yarn(rope, frequencies); break;
    case RopeScaling::longrope: {
      const bool use_long = choice == LongRope::by_length ? positions > rope.original_context
                                                          : choice == LongRope::long_factors;
      const std::vector<double>& factors = use_long ? rope.long_factors : rope.short_factors;
      for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= factors.at(i);
      break;
    }
  }
  return frequencies;
}

RotaryTable::RotaryTable(const Rope& rope, int64_t positions, LongRope choice)
    : frequencies_(rotary_frequencies(rope, positions, choice)), attention_factor_(rope.attention_factor) {}

void RotaryTable::cover(int64_t begin, int64_t end) {
  begin_ = begin;
  end_ = end;
  const size_t half = frequencies_.size();
  cos_.resize(static_cast<size_t>(end - begin) * half);
  sin_.resize(cos_.size());
  for (int64_t p = begin; p < end; ++p)
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies_[i];
      const size_t at = static_cast<size_t>(p - begin) * half + i;
      cos_[at] = static_cast<float>(std::cos(angle) * attention_factor_);
      sin_[at] = static_cast<float>(std::sin(angle) * attention_factor_);
    }
}

void RotaryTable::rotate(float* head, int64_t position) const {
  ANEMONE_CHECK(position >= begin_ && position < end_);
  const size_t half = frequencies_.size();
  const float* cosine = &cos_[static_cast<size_t>(position - begin_) * half];
  const float* sine = &sin_[static_cast<size_t>(position - begin_) * half];
  for (size_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosine[i] - b * sine[i];
    head[i + half] = b * cosine[i] + a * sine[i];
  }
}

}  // namespace anemone
