#include "convert/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace anemone {
namespace {

std::vector<double> plain(const Rope& r, double base) {
  std::vector<double> f(static_cast<size_t>(r.dims / 2));
  for (size_t i = 0; i < f.size(); ++i)
    f[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(r.dims));
  return f;
}

std::vector<double> divided(std::vector<double> f, const std::vector<double>& by) {
  if (by.size() != f.size()) throw errorf("a rope has {} frequencies but {} factors", f.size(), by.size());
  for (size_t i = 0; i < f.size(); ++i) f[i] /= by[i];
  return f;
}

// Low frequencies are divided by the factor, high ones kept, and those between blended by wave length.
std::vector<double> llama3(const Rope& r, std::vector<double> f) {
  const auto original = static_cast<double>(r.original_context);
  for (double& x : f) {
    const double wave = 2 * std::numbers::pi / x;
    if (wave < original / r.high_freq_factor) continue;
    if (wave > original / r.low_freq_factor) {
      x /= r.factor;
      continue;
    }
    const double s = (original / wave - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
    x *= (1 - s) / r.factor + s;
  }
  return f;
}

std::vector<double> yarn(const Rope& r, std::vector<double> f) {
  const auto dims = static_cast<double>(r.dims);
  const auto turn = [&](double n) {
    return dims * std::log(static_cast<double>(r.original_context) / (2 * std::numbers::pi * n)) /
           (2 * std::log(r.base));
  };
  double low = turn(r.beta_fast), high = turn(r.beta_slow);
  if (r.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = f[i] / r.factor * ramp + f[i] * (1 - ramp);
  }
  return f;
}

}  // namespace

RopeTable rope_table(const Rope& r) {
  RopeTable out;
  out.attention_factor = r.attention_factor;
  const std::vector<double> f = plain(r, r.base);
  switch (r.scaling) {
    case RopeScaling::none:
    case RopeScaling::dynamic:
      out.frequencies = f;
      break;  // convert() sees to it that the context is not passed
    case RopeScaling::linear: out.frequencies = divided(f, std::vector<double>(f.size(), r.factor)); break;
    case RopeScaling::divisors: out.frequencies = divided(f, r.divisors); break;
    case RopeScaling::llama3: out.frequencies = llama3(r, f); break;
    case RopeScaling::yarn: out.frequencies = yarn(r, f); break;
    case RopeScaling::longrope:
      out.frequencies = divided(f, r.short_factors);
      out.long_frequencies = divided(f, r.long_factors);
      out.original_context = r.original_context;
      break;
    case RopeScaling::ntk_alpha: {
      const auto dims = static_cast<double>(r.dims);
      out.frequencies = plain(r, r.base * std::pow(r.alpha, dims / (dims - 2)));
      break;
    }
  }
  return out;
}

}  // namespace anemone
