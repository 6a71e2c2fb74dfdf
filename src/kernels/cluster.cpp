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
  int64_t least_split;  // no split lies below it

  double value(int64_t i, int64_t j) const {
    const double s = sum[j] - sum[i];
    return base[i] - s * s / (weight[j] - weight[i]);
  }

  // The best split of j within [a, b].
  HWY_INLINE int64_t scan(int64_t j, int64_t a, int64_t b) const {
    double best = std::numeric_limits<double>::infinity();
    int64_t at = a, i = a;
#if HWY_HAVE_FLOAT64
    const hn::ScalableTag<double> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (b - lanes + 1 >= least_split && b > a) {
      const auto wj = hn::Set(d, weight[j]), sj = hn::Set(d, sum[j]);
      auto least_v = hn::Set(d, best), at_v = hn::Set(d, static_cast<double>(a));
      const auto try_at = [&](int64_t first, auto places) HWY_ATTR {
        const auto s = hn::Sub(sj, hn::LoadU(d, sum + first));
        const auto w = hn::Sub(wj, hn::LoadU(d, weight + first));
        const auto v = hn::Sub(hn::LoadU(d, base + first), hn::Div(hn::Mul(s, s), w));
        const auto less = hn::And(hn::Lt(v, least_v), hn::Ge(places, hn::Set(d, static_cast<double>(a))));
        least_v = hn::IfThenElse(less, v, least_v);
        at_v = hn::IfThenElse(less, places, at_v);
      };
      for (; i + lanes <= b + 1; i += lanes) try_at(i, hn::Iota(d, static_cast<double>(i)));
      // What is left over, and what lies before it once more.
      if (i <= b) try_at(b - lanes + 1, hn::Iota(d, static_cast<double>(b - lanes + 1)));
      i = b + 1;
      HWY_ALIGN double values[HWY_MAX_BYTES / 8], where[HWY_MAX_BYTES / 8];
      hn::Store(least_v, d, values);
      hn::Store(at_v, d, where);
      at = b;
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

  // Every step-th j from `origin` on, those numbered lo … hi, whose splits lie in [a, b].
  void solve(int64_t origin, int64_t step, int64_t lo, int64_t hi, int64_t a, int64_t b) const {
    while (lo <= hi) {
      const int64_t mid = lo + (hi - lo) / 2, j = origin + step * mid;
      const int64_t at = scan(j, a, b < j - 1 ? b : j - 1);
      solve(origin, step, lo, mid - 1, a, at);
      lo = mid + 1;
      a = at;
    }
  }

#if HWY_HAVE_FLOAT64
  // Neighbouring j, one to a lane, whose splits lie in [a, b].
  HWY_INLINE void neighbours(int64_t j, int64_t a, int64_t b) const {
    const hn::ScalableTag<double> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto wj = hn::LoadU(d, weight + j), sj = hn::LoadU(d, sum + j), zero = hn::Zero(d);
    auto least_v = hn::Set(d, std::numeric_limits<double>::infinity()),
         at_v = hn::Set(d, static_cast<double>(a));
    for (int64_t i = a; i <= b; ++i) {
      const auto s = hn::Sub(sj, hn::Set(d, sum[i]));
      const auto w = hn::Sub(wj, hn::Set(d, weight[i]));  // not above zero: no split of that j
      const auto v = hn::Sub(hn::Set(d, base[i]), hn::Div(hn::Mul(s, s), w));
      const auto less = hn::And(hn::Lt(v, least_v), hn::Gt(w, zero));
      least_v = hn::IfThenElse(less, v, least_v);
      at_v = hn::IfThenElse(less, hn::Set(d, static_cast<double>(i)), at_v);
    }
    hn::StoreU(least_v, d, least + j);
    HWY_ALIGN double where[HWY_MAX_BYTES / 8];
    hn::Store(at_v, d, where);
    for (int64_t l = 0; l < lanes; ++l) split[j + l] = static_cast<uint16_t>(where[l]);
  }
#endif
};

void ClusterLayer(const double* weight, const double* sum, const double* base, int64_t first, int64_t last,
                  double* least, uint16_t* split) {
  const Layer layer{weight, sum, base, least, split, first - 1};
#if HWY_HAVE_FLOAT64
  // The first of every few neighbours by halving, one after the other; then those between them side by side.
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>()));
  const int64_t blocks = (last - first + 1) / lanes, rest = first + blocks * lanes;
  layer.solve(first, lanes, 0, blocks - 1, first - 1, last - 1);
  const int64_t from = blocks > 0 ? split[rest - lanes] : first - 1;
  layer.solve(rest, 1, 0, last - rest, from, last - 1);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t j = first + block * lanes, next = j + lanes;
    const int64_t most = next <= last ? split[next] : last - 1;
    layer.neighbours(j, split[j], most < next - 2 ? most : next - 2);
  }
#else
  layer.solve(first, 1, 0, last - first, first - 1, last - 1);
#endif
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
