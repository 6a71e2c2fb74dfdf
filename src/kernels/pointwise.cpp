#include "kernels/pointwise.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 1 / (1 + e^-x).
template <class D, class V>
HWY_INLINE V sigmoid_of(D d, V x) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 88.0f)))));
}

// tanh x = x by its series where it is small, else 1 - 2 / (e^2x + 1), with the sign of x.
template <class D, class V>
HWY_INLINE V tanh_of(D d, V x) {
  const auto size = hn::Min(hn::Abs(x), hn::Set(d, 20.0f)), one = hn::Set(d, 1.0f);
  const auto e = hn::Exp(d, hn::Add(size, size));
  const auto large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  const auto s = hn::Mul(size, size);
  // x - x³ / 3 + 2 x⁵ / 15 - 17 x⁷ / 315 + 62 x⁹ / 2835
  auto series = hn::MulAdd(hn::Set(d, 62.0f / 2835), s, hn::Set(d, -17.0f / 315));
  series = hn::MulAdd(series, s, hn::Set(d, 2.0f / 15));
  series = hn::MulAdd(series, s, hn::Set(d, -1.0f / 3));
  const auto small = hn::MulAdd(hn::Mul(series, s), size, size);
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.3f)), small, large), x);
}

// Phi(x) = erfc(u) / 2 for x <= 0, u = -x / sqrt 2, and 1 less that of -x for others. erfc(u) is e^(-u²) times a
// polynomial in t = 1 / (1 + 0.4 u), fitted here: relative error 8e-9 for u up to 10, before rounding.
template <class D, class V>
HWY_INLINE V normal_distribution(D d, V x) {
  constexpr float kParts[] = {-2.959413262e-02f, 1.980121558e-01f, -4.988091295e-01f, 5.474324618e-01f,
                              -2.843643539e-01f, 2.720650607e-01f, 1.296799813e-01f,  2.149190251e-01f,
                              2.249520302e-01f,  2.257069088e-01f};
  const auto u = hn::Min(hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678118654752f)), hn::Set(d, 9.2f));
  const auto one = hn::Set(d, 1.0f);
  const auto t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.4f), u, one));
  auto sum = hn::Set(d, kParts[0]);
  for (int i = 1; i < 10; ++i) sum = hn::MulAdd(sum, t, hn::Set(d, kParts[i]));
  const auto tail = hn::Mul(hn::Mul(hn::Mul(sum, t), hn::Exp(d, hn::Neg(hn::Mul(u, u)))), hn::Set(d, 0.5f));
  const auto part = hn::IfThenElse(hn::Lt(u, hn::Set(d, 9.2f)), tail, hn::Zero(d));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, part), part);
}

// out = f(x) for whole vectors, and for what is left in a vector of its own.
template <class F>
HWY_INLINE void each_vector(const float* x, int64_t n, float* out, F f) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  hn::Store(f(d, hn::Load(d, rest)), d, rest);
  for (int64_t j = i; j < n; ++j) out[j] = rest[j - i];
}

// A value that is no number stays what it is.
template <class D, class V>
HWY_INLINE V unless_nan(D, V x, V y) {
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

void GeluExactImpl(const float* x, int64_t n, float* out) {
  each_vector(x, n, out, [](auto d, auto v) HWY_ATTR {
    return unless_nan(d, v, hn::Mul(v, normal_distribution(d, v)));
  });
}

void GeluTanhImpl(const float* x, int64_t n, float* out) {
  each_vector(x, n, out, [](auto d, auto v) HWY_ATTR {
    const auto cube = hn::Mul(hn::Mul(v, v), v);
    const auto inner = hn::Mul(hn::Set(d, 0.79788456080286536f), hn::MulAdd(hn::Set(d, 0.044715f), cube, v));
    const auto half = hn::Mul(hn::Set(d, 0.5f), v);
    return unless_nan(d, v, hn::Mul(half, hn::Add(hn::Set(d, 1.0f), tanh_of(d, inner))));
  });
}

void GeluSigmoidImpl(const float* x, int64_t n, float* out) {
  each_vector(x, n, out, [](auto d, auto v) HWY_ATTR {
    return unless_nan(d, v, hn::Mul(v, sigmoid_of(d, hn::Mul(hn::Set(d, 1.702f), v))));
  });
}

void SigmoidImpl(const float* x, int64_t n, float* out) {
  each_vector(x, n, out, [](auto d, auto v) HWY_ATTR { return unless_nan(d, v, sigmoid_of(d, v)); });
}

void TanhImpl(const float* x, int64_t n, float* out) {
  each_vector(x, n, out, [](auto d, auto v) HWY_ATTR { return unless_nan(d, v, tanh_of(d, v)); });
}

void ClampImpl(const float* x, int64_t n, float low, float high, float* out) {
  each_vector(x, n, out, [low, high](auto d, auto v) HWY_ATTR {
    return unless_nan(d, v, hn::Min(hn::Max(v, hn::Set(d, low)), hn::Set(d, high)));
  });
}

void HardSwishImpl(const float* x, int64_t n, float alpha, float beta, float* out) {
  each_vector(x, n, out, [alpha, beta](auto d, auto v) HWY_ATTR {
    const auto line = hn::Add(hn::Mul(hn::Set(d, alpha), v), hn::Set(d, beta));
    const auto part = hn::Min(hn::Max(line, hn::Zero(d)), hn::Set(d, 1.0f));
    return unless_nan(d, v, hn::Mul(v, part));
  });
}

// The sum of f(x) over a row, in doubles.
template <class F>
HWY_INLINE double wide_sum(const float* x, int64_t n, F f) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> wide;
  const hn::Half<decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto low = hn::Zero(wide), high = hn::Zero(wide);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    low = hn::Add(low, f(wide, hn::PromoteTo(wide, hn::LowerHalf(narrow, v))));
    high = hn::Add(high, f(wide, hn::PromoteTo(wide, hn::UpperHalf(narrow, v))));
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(low, high)));
  const hn::CappedTag<double, 1> one;
  for (; i < n; ++i) sum += hn::GetLane(f(one, hn::Set(one, static_cast<double>(x[i]))));
  return sum;
}

void LayerNormImpl(const float* x, int64_t n, const float* gamma, const float* beta, double eps, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const double count = static_cast<double>(n);
  const double mean = wide_sum(x, n, [](auto, auto v) HWY_ATTR { return v; }) / count;
  const double squares = wide_sum(x, n, [mean](auto wide, auto v) HWY_ATTR {
    const auto away = hn::Sub(v, hn::Set(wide, mean));
    return hn::Mul(away, away);
  });
  const double scale = 1 / std::sqrt(squares / count + eps);
  // (x - mean) * scale in floats: the mean as two floats loses nothing that the result would show.
  const auto mean_high = static_cast<float>(mean);
  const auto mean_low = static_cast<float>(mean - static_cast<double>(mean_high));
  const auto factor = static_cast<float>(scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto away = hn::Sub(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean_high)), hn::Set(d, mean_low));
    auto y = hn::Mul(away, hn::Set(d, factor));
    if (gamma) y = hn::Mul(y, hn::LoadU(d, gamma + i));
    if (beta) y = hn::Add(y, hn::LoadU(d, beta + i));
    hn::StoreU(y, d, out + i);
  }
  for (; i < n; ++i) {
    float y = (x[i] - mean_high - mean_low) * factor;
    if (gamma) y *= gamma[i];
    out[i] = beta ? y + beta[i] : y;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(GeluExactImpl);
HWY_EXPORT(GeluTanhImpl);
HWY_EXPORT(GeluSigmoidImpl);
HWY_EXPORT(SigmoidImpl);
HWY_EXPORT(TanhImpl);
HWY_EXPORT(ClampImpl);
HWY_EXPORT(HardSwishImpl);
HWY_EXPORT(LayerNormImpl);

void map_gelu(GeluMode mode, const float* x, int64_t n, float* out) noexcept {
  switch (mode) {
    case GeluMode::exact: return HWY_DYNAMIC_DISPATCH(GeluExactImpl)(x, n, out);
    case GeluMode::tanh: return HWY_DYNAMIC_DISPATCH(GeluTanhImpl)(x, n, out);
    case GeluMode::sigmoid: return HWY_DYNAMIC_DISPATCH(GeluSigmoidImpl)(x, n, out);
  }
}

void map_sigmoid(const float* x, int64_t n, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(SigmoidImpl)(x, n, out);
}
void map_tanh(const float* x, int64_t n, float* out) noexcept { HWY_DYNAMIC_DISPATCH(TanhImpl)(x, n, out); }

void map_clamp(const float* x, int64_t n, float low, float high, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(ClampImpl)(x, n, low, high, out);
}

void map_hard_swish(const float* x, int64_t n, float alpha, float beta, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(HardSwishImpl)(x, n, alpha, beta, out);
}

void layer_norm(const float* x, int64_t n, const float* gamma, const float* beta, double eps,
                float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(LayerNormImpl)(x, n, gamma, beta, eps, out);
}

void map_gelu_plain(GeluMode mode, const float* x, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    double part = 0.5 * std::erfc(-v * 0.70710678118654752);
    if (mode == GeluMode::tanh)
      part = 0.5 * (1 + std::tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
    if (mode == GeluMode::sigmoid) part = 1 / (1 + std::exp(-1.702 * v));
    out[i] = static_cast<float>(v * part);
  }
}

void map_sigmoid_plain(const float* x, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(x[i]))));
}

void map_tanh_plain(const float* x, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(std::tanh(static_cast<double>(x[i])));
}

void map_clamp_plain(const float* x, int64_t n, float low, float high, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}

void map_hard_swish_plain(const float* x, int64_t n, float alpha, float beta, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    const float part = alpha * x[i] + beta;
    out[i] = x[i] * (part < 0 ? 0.0f : part > 1 ? 1.0f : part);
  }
}

void layer_norm_plain(const float* x, int64_t n, const float* gamma, const float* beta, double eps,
                      float* out) noexcept {
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(x[i]);
  mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double away = static_cast<double>(x[i]) - mean;
    squares += away * away;
  }
  const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  for (int64_t i = 0; i < n; ++i) {
    const auto y = static_cast<float>((static_cast<double>(x[i]) - mean) * scale);
    out[i] = (gamma ? gamma[i] : 1.0f) * y + (beta ? beta[i] : 0.0f);
  }
}

}  // namespace anemone
#endif  // HWY_ONCE
