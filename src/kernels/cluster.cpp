#include "kernels/cluster.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cluster.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Layer {
  const double* HWY_RESTRICT weight;
  const double* HWY_RESTRICT sum;
  const double* HWY_RESTRICT base;
  double* least;
  uint16_t* split;

  double value(int64_t i, int64_t j) const {
    const double s = sum[j] - sum[i];
    return base[i] - s * s / (weight[j] - weight[i]);
  }

  // The best split of j within [a, b].
  HWY_INLINE int64_t scan(int64_t j, int64_t a, int64_t b) const {
#if HWY_HAVE_FLOAT64
    const hn::ScalableTag<double> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
#else
    const int64_t lanes = 1;
#endif
    double best = std::numeric_limits<double>::infinity();
    int64_t at = a, i = a;
#if HWY_HAVE_FLOAT64
    if (b - a + 1 >= 2 * lanes) {
      const auto wj = hn::Set(d, weight[j]), sj = hn::Set(d, sum[j]),
                 step = hn::Set(d, static_cast<double>(lanes));
      auto places = hn::Iota(d, static_cast<double>(a));
      auto least_v = hn::Set(d, best), at_v = places;
      for (; i + lanes <= b + 1; i += lanes) {
        const auto s = hn::Sub(sj, hn::LoadU(d, sum + i));
        const auto w = hn::Sub(wj, hn::LoadU(d, weight + i));
        const auto v = hn::Sub(hn::LoadU(d, base + i), hn::Div(hn::Mul(s, s), w));
        const auto less = hn::Lt(v, least_v);
        least_v = hn::IfThenElse(less, v, least_v);
        at_v = hn::IfThenElse(less, places, at_v);
        places = hn::Add(places, step);
      }
      HWY_ALIGN double values[HWY_MAX_BYTES / 8], where[HWY_MAX_BYTES / 8];
      hn::Store(least_v, d, values);
      hn::Store(at_v, d, where);
      for (int64_t l = 0; l < lanes; ++l) {
        const auto place = static_cast<int64_t>(where[l]);
        if (values[l] < best || (values[l] == best && place < at)) best = values[l], at = place;
      }
    }
#endif
    for (; i <= b; ++i) {
      const double v = value(i, j);
      if (v < best) best = v, at = i;
    }
    least[j] = best;
    split[j] = static_cast<uint16_t>(at);
    return at;
  }

  // All j in [lo, hi], whose splits lie in [a, b].
  void solve(int64_t lo, int64_t hi, int64_t a, int64_t b) const {
    while (lo <= hi) {
      const int64_t mid = lo + (hi - lo) / 2;
      const int64_t at = scan(mid, a, b < mid - 1 ? b : mid - 1);
      solve(lo, mid - 1, a, at);
      lo = mid + 1;
      a = at;
    }
  }
};

void ClusterLayer(const double* weight, const double* sum, const double* base, int64_t first, int64_t last,
                  double* least, uint16_t* split) {
  Layer{weight, sum, base, least, split}.solve(first, last, first - 1, last - 1);
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(ClusterLayer);

void cluster_layer(const double* weight, const double* sum, const double* base, int64_t first, int64_t last,
                   double* least, uint16_t* split) noexcept {
  HWY_DYNAMIC_DISPATCH(ClusterLayer)(weight, sum, base, first, last, least, split);
}

}  // namespace anemone
#endif
