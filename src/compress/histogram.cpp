#include "compress/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/half.h"

namespace anemone {
namespace {

constexpr size_t kPatterns = 65536, kWideBins = size_t{1} << 20;
constexpr uint16_t kInfinity = 0x7c00, kMinusInfinity = 0xfc00;

[[noreturn]] void not_finite() { throw errorf("a weight is not finite"); }

void append(Histogram& out, float value, double weight) {
  out.values.push_back(value);
  out.weight.push_back(weight);
}

// Turns the weights into running sums around the mean.
void finish(Histogram& out) {
  const auto n = out.values.size();
  double total = 0, sum = 0;
  for (size_t i = 0; i < n; ++i) {
    total += out.weight[i];
    sum += out.weight[i] * static_cast<double>(out.values[i]);
  }
  out.origin = total > 0 ? sum / total : 0;
  out.weight.push_back(0);
  out.sum.resize(n + 1);
  out.square.resize(n + 1);
  double w = 0, s = 0, q = 0;
  for (size_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(out.values[i]) - out.origin, here = out.weight[i];
    out.weight[i] = w;
    out.sum[i] = s;
    out.square[i] = q;
    w += here;
    s += here * v;
    q += here * v * v;
  }
  out.weight[n] = w;
  out.sum[n] = s;
  out.square[n] = q;
}

}  // namespace

uint32_t wide_bin(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x80000000u ? ~bits : bits | 0x80000000u) >> 12;
}

double Histogram::mean(int64_t a, int64_t b) const {
  const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
  return origin + (sum[j] - sum[i]) / (weight[j] - weight[i]);
}

double Histogram::error(int64_t a, int64_t b, double center) const {
  const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
  const double c = center - origin;
  return square[j] - square[i] - 2 * c * (sum[j] - sum[i]) + c * c * (weight[j] - weight[i]);
}

HistogramBuilder::HistogramBuilder(Grid grid) : grid_(grid) {}

bool HistogramBuilder::empty() const { return counts_.empty() && weights_.empty(); }

void HistogramBuilder::add(const uint16_t* halves, int64_t count) {
  counts_.resize(kPatterns);
  for (int64_t i = 0; i < count; ++i) ++counts_[halves[i]];
}

void HistogramBuilder::add(const uint16_t* halves, const float* weights, int64_t count) {
  weights_.resize(kPatterns);
  for (int64_t i = 0; i < count; ++i) weights_[halves[i]] += static_cast<double>(weights[i]);
}

void HistogramBuilder::add(const float* values, double weight, int64_t count) {
  weights_.resize(kWideBins);
  sums_.resize(kWideBins);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bin = wide_bin(values[i]);
    if (!std::isfinite(values[i])) not_finite();
    low_ = std::min(low_, bin);
    high_ = std::max(high_, bin);
    weights_[bin] += weight;
    sums_[bin] += weight * static_cast<double>(values[i]);
  }
}

void HistogramBuilder::add(const float* values, const float* weights, int64_t count) {
  for (int64_t i = 0; i < count; ++i) add(values + i, static_cast<double>(weights[i]), 1);
}

void HistogramBuilder::merge(const HistogramBuilder& other) {
  const auto join = [](auto& to, const auto& from) {
    to.resize(std::max(to.size(), from.size()));
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  join(counts_, other.counts_);
  join(weights_, other.weights_);
  join(sums_, other.sums_);
  low_ = std::min(low_, other.low_);
  high_ = std::max(high_, other.high_);
}

void HistogramBuilder::take_half(Histogram& out) {
  const auto weight = [&](size_t pattern) {
    return (counts_.empty() ? 0.0 : counts_[pattern]) + (weights_.empty() ? 0.0 : weights_[pattern]);
  };
  for (size_t p = 0; p < 0x400; ++p)
    if (weight(kInfinity + p) > 0 || weight(kMinusInfinity + p) > 0) not_finite();
  const auto visit = [&](size_t pattern, double more) {
    const double w = weight(pattern) + more;
    if (w > 0) append(out, half_to_float(static_cast<uint16_t>(pattern)), w);
  };
  for (size_t p = kMinusInfinity - 1; p > 0x8000; --p) visit(p, 0);
  visit(0, weight(0x8000));  // the two zeros are one value
  for (size_t p = 1; p < kInfinity; ++p) visit(p, 0);
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill(weights_.begin(), weights_.end(), 0);
}

void HistogramBuilder::take_wide(Histogram& out) {
  for (size_t bin = low_; bin <= high_ && low_ <= high_; ++bin) {
    if (weights_[bin] > 0) append(out, static_cast<float>(sums_[bin] / weights_[bin]), weights_[bin]);
    weights_[bin] = sums_[bin] = 0;
  }
  low_ = UINT32_MAX;
  high_ = 0;
  // Splits are kept in 16 bits: thin the bins out, two by two, where there are more.
  while (out.values.size() >= kPatterns) {
    Histogram half;
    for (size_t i = 0; i < out.values.size(); i += 2) {
      const size_t j = std::min(i + 1, out.values.size() - 1);
      const double a = out.weight[i], b = j > i ? out.weight[j] : 0;
      append(half,
             static_cast<float>(
                 (a * static_cast<double>(out.values[i]) + b * static_cast<double>(out.values[j])) / (a + b)),
             a + b);
    }
    out = std::move(half);
  }
}

Histogram HistogramBuilder::take() {
  Histogram out;
  grid_ == Grid::half ? take_half(out) : take_wide(out);
  finish(out);
  return out;
}

}  // namespace anemone
