#include "verify/figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace anemone {
namespace {

constexpr double kMostDecibels = 200;
constexpr size_t kTop = 5;

std::vector<int64_t> top(std::span<const float> logits) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t keep = std::min(kTop, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(keep), order.end(),
                    [&](int64_t a, int64_t b) {
                      const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  order.resize(keep);
  return order;
}

}  // namespace

Figures compare(std::span<const float> got, std::span<const float> expected) {
  if (got.size() != expected.size())
    throw errorf("two lists to compare have different lengths")
        .found(fmt::format("{}", got.size()))
        .expected(fmt::format("{}", expected.size()));
  Figures f;
  f.count = static_cast<int64_t>(got.size());
  double ab = 0, aa = 0, bb = 0, squares = 0, peak = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = expected[i], e = std::abs(a - b);
    if (!std::isfinite(a)) f.finite = false;
    ab += a * b;
    aa += a * a;
    bb += b * b;
    squares += e * e;
    f.mean_abs += e;
    f.max_abs = std::max(f.max_abs, e);
    f.largest = std::max(f.largest, std::abs(a));
    peak = std::max(peak, std::abs(b));
  }
  if (!f.finite) {
    f.cosine = 0;
    f.relative = f.mean_abs = f.max_abs = f.largest = INFINITY;
    f.psnr = 0;
    return f;
  }
  const double n = std::max<double>(1, static_cast<double>(f.count));
  f.mean_abs /= n;
  f.cosine = aa > 0 && bb > 0 ? ab / std::sqrt(aa) / std::sqrt(bb) : (aa == bb ? 1 : 0);
  f.relative = bb > 0 ? std::sqrt(squares / bb) : (squares > 0 ? INFINITY : 0);
  const double rms = std::sqrt(squares / n);
  f.psnr = rms > 0 && peak > 0 ? std::min(kMostDecibels, 20 * std::log10(peak / rms))
                               : (rms > 0 ? 0 : kMostDecibels);
  return f;
}

double error_of_cosine(double cosine) {
  return cosine > 0 ? std::sqrt(1 / (cosine * cosine) - 1) * (1 + 1e-9) : INFINITY;
}

bool Figures::within(double least) const {
  return finite && cosine >= least && relative <= error_of_cosine(least);
}

double divergence(std::span<const float> got, std::span<const float> expected) {
  ANEMONE_CHECK(got.size() == expected.size() && !got.empty());
  const auto log_sum = [](std::span<const float> logits) {
    const double most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
    double sum = 0;
    for (const float v : logits) sum += std::exp(static_cast<double>(v) - most);
    return most + std::log(sum);
  };
  const double of_got = log_sum(got), of_expected = log_sum(expected);
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double log_p = static_cast<double>(expected[i]) - of_expected;
    sum += std::exp(log_p) * (log_p - (static_cast<double>(got[i]) - of_got));
  }
  return std::isfinite(sum) ? std::max(0.0, sum) : INFINITY;
}

int64_t best_of(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

bool in_top(std::span<const float> logits, int64_t id, int64_t k) {
  if (id < 0 || id >= static_cast<int64_t>(logits.size())) return false;
  const float own = logits[static_cast<size_t>(id)];
  return std::count_if(logits.begin(), logits.end(), [&](float v) { return v > own; }) < k;
}

double margin_below_best(std::span<const float> logits, int64_t id) {
  double sum = 0, squares = 0;
  for (const float v : logits) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const double n = static_cast<double>(logits.size()), mean = sum / n;
  const double deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
  const double below = static_cast<double>(logits[static_cast<size_t>(best_of(logits))]) -
                       static_cast<double>(logits[static_cast<size_t>(id)]);
  return deviation > 0 ? below / deviation : (below > 0 ? INFINITY : 0);
}

LogitFigures compare_logits(std::span<const float> got, std::span<const float> expected) {
  LogitFigures out;
  out.values = compare(got, expected);
  out.best = best_of(got);
  out.expected_best = best_of(expected);
  out.divergence = out.values.finite ? divergence(got, expected) : INFINITY;
  if (!out.values.finite) return out;
  const std::vector<int64_t> a = top(got), b = top(expected);
  size_t both = 0;
  for (const int64_t id : b) both += static_cast<size_t>(std::count(a.begin(), a.end(), id));
  out.overlap = b.empty() ? 1 : static_cast<double>(both) / static_cast<double>(b.size());
  return out;
}

std::string text(const Figures& f) {
  if (!f.finite) return "not finite";
  return fmt::format("cosine {:.5f}, error {:.2g}%, max |e| {:.2g}, PSNR {:.0f} dB", f.cosine,
                     100 * f.relative, f.max_abs, f.psnr);
}

}  // namespace anemone
