#include "compress/kmeans.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "kernels/cluster.h"

namespace anemone {
namespace {

constexpr int kMostSteps = 1000;

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Every value a cluster of its own.
std::vector<int64_t> singletons(int64_t n) {
  std::vector<int64_t> out(at(n) + 1);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i);
  return out;
}

// The first value of [from, n) that is nearer to `right` than to `left`.
int64_t border(const Histogram& h, int64_t from, double left, double right) {
  const auto middle = 0.5 * (left + right);
  const auto it = std::partition_point(h.values.begin() + from, h.values.end(),
                                       [&](float v) { return static_cast<double>(v) < middle; });
  return it - h.values.begin();
}

// Bounds of the values nearest to each entry of an ascending table.
std::vector<int64_t> nearest(const Histogram& h, const std::vector<float>& table) {
  std::vector<int64_t> bounds{0};
  for (size_t c = 1; c < table.size(); ++c)
    bounds.push_back(
        border(h, bounds.back(), static_cast<double>(table[c - 1]), static_cast<double>(table[c])));
  bounds.push_back(h.size());
  return bounds;
}

std::vector<float> means(const Histogram& h, const std::vector<int64_t>& bounds, bool half) {
  std::vector<float> out;
  for (size_t c = 0; c + 1 < bounds.size(); ++c) {
    if (bounds[c] == bounds[c + 1]) continue;
    const auto mean = static_cast<float>(h.mean(bounds[c], bounds[c + 1]));
    out.push_back(half ? round_to_half(mean) : mean);
  }
  return out;
}

}  // namespace

std::vector<int64_t> optimal_partition(const Histogram& h, int k) {
  const int64_t n = h.size();
  ANEMONE_CHECK(n < 65536 && k >= 1);
  if (n <= k) return singletons(n);
  std::vector<double> base(at(n) + 1), least(at(n) + 1);
  std::vector<uint16_t> splits(at(n + 1) * static_cast<size_t>(k));
  // One cluster: the spread of the values before j, less square[j].
  for (int64_t j = 1; j <= n; ++j) base[at(j)] = -h.sum[at(j)] * h.sum[at(j)] / h.weight[at(j)];
  for (int c = 2; c <= k; ++c) {
    // What the layers behind it will ask for.
    const int64_t first = c == k ? n : c, last = n - (k - c);
    uint16_t* split = splits.data() + static_cast<size_t>(c - 1) * at(n + 1);
    if (c == k) {
      // The whole range for the last value alone.
      int64_t best = c - 1;
      double value = INFINITY;
      for (int64_t i = c - 1; i < n; ++i) {
        const double s = h.sum[at(n)] - h.sum[at(i)];
        const double v = base[at(i)] - s * s / (h.weight[at(n)] - h.weight[at(i)]);
        if (v < value) value = v, best = i;
      }
      split[first] = static_cast<uint16_t>(best);
      break;
    }
    cluster_layer(h.weight.data(), h.sum.data(), base.data(), first, last, least.data(), split);
    std::swap(base, least);
  }
  std::vector<int64_t> bounds{n};
  for (int c = k; c >= 2; --c)
    bounds.push_back(splits[static_cast<size_t>(c - 1) * at(n + 1) + at(bounds.back())]);
  bounds.push_back(0);
  std::reverse(bounds.begin(), bounds.end());
  return bounds;
}

std::vector<int64_t> lloyd_partition(const Histogram& h, int k) {
  const int64_t n = h.size();
  if (n <= k) return singletons(n);
  // Panter and Dite: the best density of entries follows the cube root of the values' density.
  std::vector<double> mass(at(n) + 1);
  for (int64_t i = 0; i < n; ++i) {
    const double left = static_cast<double>(h.values[at(std::max<int64_t>(i - 1, 0))]);
    const double right = static_cast<double>(h.values[at(std::min(i + 1, n - 1))]);
    const double gap = right - left, weight = h.weight[at(i + 1)] - h.weight[at(i)];
    mass[at(i + 1)] = mass[at(i)] + std::cbrt(weight * gap * gap);
  }
  std::vector<int64_t> bounds(static_cast<size_t>(k) + 1), next;
  for (int c = 0; c <= k; ++c) {
    const auto it = std::lower_bound(mass.begin(), mass.end(), mass.back() * c / k);
    // At least one value in each cluster.
    bounds[static_cast<size_t>(c)] =
        std::clamp<int64_t>(it - mass.begin(), c ? bounds[static_cast<size_t>(c) - 1] + 1 : 0, n - (k - c));
  }
  bounds.back() = n;
  for (int step = 0; step < kMostSteps; ++step) {
    next.assign(1, 0);
    double left = h.mean(bounds[0], bounds[1]);
    for (size_t c = 1; c + 1 < bounds.size(); ++c) {
      const double right = h.mean(bounds[c], bounds[c + 1]);
      const int64_t b = border(h, next.back(), left, right);
      left = right;
      if (b > next.back()) next.push_back(b);
    }
    if (n > next.back()) next.push_back(n);
    if (next == bounds) break;
    std::swap(next, bounds);
  }
  return bounds;
}

double table_error(const Histogram& h, const std::vector<float>& table) {
  const std::vector<int64_t> bounds = nearest(h, table);
  double out = 0;
  for (size_t c = 0; c < table.size(); ++c)
    out += h.error(bounds[c], bounds[c + 1], static_cast<double>(table[c]));
  return std::max(0.0, out);
}

std::vector<float> kmeans_table(const Histogram& h, int k, const TableOptions& options) {
  if (h.size() == 0) return std::vector<float>(static_cast<size_t>(k), 0.0f);
  std::vector<float> table =
      means(h, options.fast ? lloyd_partition(h, k) : optimal_partition(h, k), options.half);
  // Rounded centres may have other nearest values, and those another mean: a few steps settle it.
  double error = table_error(h, table);
  for (int step = 0; step < 16; ++step) {
    std::vector<float> other = means(h, nearest(h, table), options.half);
    const double other_error = table_error(h, other);
    if (!(other_error < error)) break;
    error = other_error;
    table = std::move(other);
  }
  table.resize(static_cast<size_t>(k), table.back());
  return table;
}

}  // namespace anemone
