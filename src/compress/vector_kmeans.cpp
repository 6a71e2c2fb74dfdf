#include "compress/vector_kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/thread_pool.h"

namespace anemone {
namespace {

constexpr int64_t kPart = 1 << 14;         // vectors in one task
constexpr int64_t kStartPoints = 1 << 15;  // that the starts are tried on
constexpr int kFewStarts = 4, kManyStarts = 48, kStartSteps = 10, kMostSteps = 100;
constexpr int64_t kStartWork = 1 << 26;  // distances that the starts may cost; small weights get more of them
constexpr double kEnough = 1e-5;         // an error that falls less than this, relatively, has settled

// Points by coordinate: value v of point i at [v * count + i].
struct Points {
  std::vector<float> data;
  int64_t count = 0, width = 0;
};

Points take(std::span<const float> points, int64_t width, int64_t most) {
  const int64_t all = static_cast<int64_t>(points.size()) / width;
  Points out{{}, std::min(all, most), width};
  out.data.resize(static_cast<size_t>(out.count * width));
  for (int64_t i = 0; i < out.count; ++i) {
    const int64_t from = i * all / out.count;
    for (int64_t v = 0; v < width; ++v)
      out.data[static_cast<size_t>(v * out.count + i)] = points[static_cast<size_t>(from * width + v)];
  }
  return out;
}

double distance(const Points& p, int64_t i, const float* centre) {
  double out = 0;
  for (int64_t v = 0; v < p.width; ++v) {
    const double d =
        static_cast<double>(p.data[static_cast<size_t>(v * p.count + i)]) - static_cast<double>(centre[v]);
    out += d * d;
  }
  return out;
}

void copy_point(const Points& p, int64_t i, float* centre) {
  for (int64_t v = 0; v < p.width; ++v) centre[v] = p.data[static_cast<size_t>(v * p.count + i)];
}

// Greedy k-means++: each next centre is a point, far ones more likely, and of a few the one that helps most.
std::vector<float> start(const Points& p, int k, std::mt19937_64& random) {
  std::vector<float> centres(static_cast<size_t>(k * p.width));
  std::vector<double> far(static_cast<size_t>(p.count), std::numeric_limits<double>::infinity());
  std::vector<double> trial(far.size()), best(far.size());
  const auto all = static_cast<uint64_t>(p.count);
  const int tries = 2 + static_cast<int>(std::log(k));
  double total = 0;
  for (int c = 0; c < k; ++c) {
    double least = std::numeric_limits<double>::infinity();
    int64_t chosen = 0;
    for (int t = 0; t < (c == 0 ? 1 : tries); ++t) {
      auto at = static_cast<int64_t>(random() % all);
      if (c > 0 && total > 0) {
        double left = total * (static_cast<double>(random() >> 11) * 0x1p-53);
        for (at = 0; at + 1 < p.count && (left -= far[static_cast<size_t>(at)]) > 0;) ++at;
      }
      std::vector<float> point(static_cast<size_t>(p.width));
      copy_point(p, at, point.data());
      double sum = 0;
      for (int64_t i = 0; i < p.count; ++i) {
        const auto j = static_cast<size_t>(i);
        sum += trial[j] = std::min(far[j], distance(p, i, point.data()));
      }
      if (sum < least) least = sum, chosen = at, std::swap(best, trial);
    }
    copy_point(p, chosen, centres.data() + c * p.width);
    std::swap(far, best);
    total = least;
  }
  return centres;
}

// One of Lloyd's steps; the error before it.
double step(const Points& p, std::vector<float>& centres, int k, ThreadPool& pool) {
  const int64_t parts = (p.count + kPart - 1) / kPart, size = k * (p.width + 1);
  std::vector<double> sums(static_cast<size_t>(parts * size)), errors(static_cast<size_t>(parts));
  std::vector<std::pair<double, int64_t>> farthest(static_cast<size_t>(parts));
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> codes(kPart);
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * kPart, n = std::min(kPart, p.count - first);
      errors[static_cast<size_t>(part)] =
          nearest_vectors(p.data.data() + first, p.count, n, p.width, centres, codes.data());
      double* sum = sums.data() + part * size;
      for (int64_t i = 0; i < n; ++i) {
        double* to = sum + codes[static_cast<size_t>(i)] * (p.width + 1);
        to[p.width] += 1;
        for (int64_t v = 0; v < p.width; ++v)
          to[v] += static_cast<double>(p.data[static_cast<size_t>(v * p.count + first + i)]);
        const double d = distance(p, first + i, centres.data() + codes[static_cast<size_t>(i)] * p.width);
        if (d > farthest[static_cast<size_t>(part)].first)
          farthest[static_cast<size_t>(part)] = {d, first + i};
      }
    }
  });
  double error = 0;
  for (int64_t part = 0; part < parts; ++part) {
    error += errors[static_cast<size_t>(part)];
    for (int64_t i = 0; part > 0 && i < size; ++i)
      sums[static_cast<size_t>(i)] += sums[static_cast<size_t>(part * size + i)];
  }
  std::sort(farthest.begin(), farthest.end(), [](const auto& a, const auto& b) { return a > b; });
  size_t spare = 0;
  for (int c = 0; c < k; ++c) {
    const double* sum = sums.data() + c * (p.width + 1);
    float* centre = centres.data() + c * p.width;
    if (sum[p.width] > 0)
      for (int64_t v = 0; v < p.width; ++v) centre[v] = static_cast<float>(sum[v] / sum[p.width]);
    else if (spare < farthest.size() && farthest[spare].first > 0)
      copy_point(p, farthest[spare++].second,
                 centre);  // no point is near it: it moves to a distant point
  }
  return error;
}

}  // namespace

double nearest_vectors(const float* at, int64_t stride, int64_t count, int64_t width,
                       std::span<const float> centres, uint8_t* codes) {
  const auto k = static_cast<int64_t>(centres.size()) / width;
  constexpr int64_t kTile = 256;
  float best[kTile], now[kTile];
  double error = 0;
  for (int64_t first = 0; first < count; first += kTile) {
    const int64_t n = std::min(kTile, count - first);
    std::fill_n(best, n, std::numeric_limits<float>::infinity());
    for (int64_t c = 0; c < k; ++c) {
      std::fill_n(now, n, 0.0f);
      for (int64_t v = 0; v < width; ++v) {
        const float centre = centres[static_cast<size_t>(c * width + v)];
        const float* x = at + v * stride + first;
        for (int64_t i = 0; i < n; ++i) now[i] += (x[i] - centre) * (x[i] - centre);
      }
      for (int64_t i = 0; i < n; ++i) {
        codes[first + i] = now[i] < best[i] ? static_cast<uint8_t>(c) : codes[first + i];
        best[i] = std::min(best[i], now[i]);
      }
    }
    for (int64_t i = 0; i < n; ++i) error += static_cast<double>(best[i]);
  }
  return error;
}

std::vector<float> vector_kmeans(std::span<const float> points, int64_t width, int k, ThreadPool& pool) {
  if (points.empty()) return std::vector<float>(static_cast<size_t>(k * width));
  std::mt19937_64 random(1);
  const Points few = take(points, width, kStartPoints);
  std::vector<float> best;
  double least = std::numeric_limits<double>::infinity();
  const auto starts = std::clamp<int64_t>(kStartWork / (few.count * k * width), kFewStarts, kManyStarts);
  for (int64_t s = 0; s < starts; ++s) {
    std::vector<float> centres = start(few, k, random);
    double error = 0;
    for (int i = 0; i < kStartSteps; ++i) error = step(few, centres, k, pool);
    if (error < least) least = error, best = std::move(centres);
  }
  const Points all = take(points, width, static_cast<int64_t>(points.size()));
  double before = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMostSteps; ++i) {
    std::vector<float> centres = best;
    const double error = step(all, centres, k, pool);
    best = std::move(centres);
    if (!(before - error > kEnough * error)) break;
    before = error;
  }
  return best;
}

}  // namespace anemone
