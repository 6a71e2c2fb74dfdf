#include "kernels/chains.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chains.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What the elements of a column, divided by `divisor`, are multiplied with.
HWY_INLINE float inverse_of(double squares, int64_t n, const RmsRule& rule, float divisor) {
  const auto mean = static_cast<float>(squares / static_cast<double>(n));
  const float root = rule.root_eps / divisor;
  const float eps = rule.floor > 0 ? root * root : rule.eps;
  return 1 / std::sqrt(mean + eps + rule.rsqrt_eps);
}

// One column whose elements follow each other.
void norm_line(const float* HWY_RESTRICT x, float* HWY_RESTRICT out, int64_t n, const float* gain,
               const RmsRule& rule) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> wide;
  const hn::Half<decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float divisor = 1;
  int64_t i = 0;
  if (rule.floor > 0) {
    auto most = hn::Zero(d);
    for (; i + lanes <= n; i += lanes) most = hn::Max(most, hn::Abs(hn::LoadU(d, x + i)));
    divisor = std::max(rule.floor, hn::GetLane(hn::MaxOfLanes(d, most)));
    for (; i < n; ++i) divisor = std::max(divisor, std::abs(x[i]));
  }
  const auto by = hn::Set(d, divisor);
  auto low = hn::Zero(wide), high = hn::Zero(wide);
  for (i = 0; i + lanes <= n; i += lanes) {
    const auto s = hn::Div(hn::LoadU(d, x + i), by);
    const auto square = hn::Mul(s, s);
    low = hn::Add(low, hn::PromoteTo(wide, hn::LowerHalf(narrow, square)));
    high = hn::Add(high, hn::PromoteTo(wide, hn::UpperHalf(narrow, square)));
  }
  double squares = hn::GetLane(hn::SumOfLanes(wide, hn::Add(low, high)));
  for (; i < n; ++i) {
    const float s = x[i] / divisor;
    squares += static_cast<double>(s * s);
  }
  const float factor = inverse_of(squares, n, rule, divisor);
  const auto inverse = hn::Set(d, factor);
  for (i = 0; i + lanes <= n; i += lanes) {
    auto y = hn::Mul(hn::Div(hn::LoadU(d, x + i), by), inverse);
    if (gain) y = hn::Mul(y, hn::LoadU(d, gain + i));
    hn::StoreU(y, d, out + i);
  }
  for (; i < n; ++i) out[i] = x[i] / divisor * factor * (gain ? gain[i] : 1.0f);
}

// `lanes` columns side by side.
void norm_columns(const float* HWY_RESTRICT x, float* HWY_RESTRICT out, int64_t n, int64_t inner,
                  const float* gain, const RmsRule& rule) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> wide;
  const hn::Half<decltype(d)> narrow;
  auto by = hn::Set(d, 1.0f);
  if (rule.floor > 0) {
    by = hn::Set(d, rule.floor);
    for (int64_t i = 0; i < n; ++i) by = hn::Max(by, hn::Abs(hn::LoadU(d, x + i * inner)));
  }
  auto low = hn::Zero(wide), high = hn::Zero(wide);
  for (int64_t i = 0; i < n; ++i) {
    const auto s = hn::Div(hn::LoadU(d, x + i * inner), by);
    const auto square = hn::Mul(s, s);
    low = hn::Add(low, hn::PromoteTo(wide, hn::LowerHalf(narrow, square)));
    high = hn::Add(high, hn::PromoteTo(wide, hn::UpperHalf(narrow, square)));
  }
  HWY_ALIGN double squares[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float divisors[HWY_MAX_BYTES / sizeof(float)];
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::StoreU(low, wide, squares);
  hn::StoreU(high, wide, squares + lanes / 2);
  hn::StoreU(by, d, divisors);
  HWY_ALIGN float inverses[HWY_MAX_BYTES / sizeof(float)];
  for (int64_t j = 0; j < lanes; ++j) inverses[j] = inverse_of(squares[j], n, rule, divisors[j]);
  const auto inverse = hn::LoadU(d, inverses);
  for (int64_t i = 0; i < n; ++i) {
    auto y = hn::Mul(hn::Div(hn::LoadU(d, x + i * inner), by), inverse);
    if (gain) y = hn::Mul(y, hn::Set(d, gain[i]));
    hn::StoreU(y, d, out + i * inner);
  }
}

int64_t NormImpl(const float* x, float* out, int64_t n, int64_t inner, int64_t begin, int64_t end,
                 const float* gain, const RmsRule& rule) {
  if (inner == 1) {
    norm_line(x, out, n, gain, rule);
    return 1;
  }
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t j = begin;
  for (; j + lanes <= end; j += lanes) norm_columns(x + j, out + j, n, inner, gain, rule);
  return j;
}

void RotateImpl(const float* HWY_RESTRICT x, const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
                int64_t pairs, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + pairs + i), c = hn::LoadU(d, cos + i),
               s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, out + i);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, out + pairs + i);
  }
  for (; i < pairs; ++i) {
    const float a = x[i], b = x[pairs + i];
    out[i] = a * cos[i] - b * sin[i];
    out[pairs + i] = b * cos[i] + a * sin[i];
  }
}

int64_t GateImpl(const float* HWY_RESTRICT x, const float* HWY_RESTRICT up, int64_t n,
                 float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f), most = hn::Set(d, 88.0f);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    const auto sigmoid = hn::Div(one, hn::Add(one, hn::Exp(d, hn::Min(hn::Neg(v), most))));
    auto y = hn::IfThenElse(hn::IsNaN(v), v, hn::Mul(v, sigmoid));
    if (up) y = hn::Mul(y, hn::LoadU(d, up + i));
    hn::StoreU(y, d, out + i);
  }
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(NormImpl);
HWY_EXPORT(RotateImpl);
HWY_EXPORT(GateImpl);

void rms_norm(const float* x, float* out, int64_t n, int64_t inner, int64_t begin, int64_t end,
              const float* gain, const RmsRule& rule) noexcept {
  const int64_t done = HWY_DYNAMIC_DISPATCH(NormImpl)(x, out, n, inner, begin, end, gain, rule);
  if (done < end) rms_norm_plain(x, out, n, inner, done, end, gain, rule);
}

void rotate(const float* x, const float* cos, const float* sin, int64_t pairs, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateImpl)(x, cos, sin, pairs, out);
}

void gate(const float* x, const float* up, int64_t n, float* out) noexcept {
  const int64_t done = HWY_DYNAMIC_DISPATCH(GateImpl)(x, up, n, out);
  gate_plain(x + done, up ? up + done : nullptr, n - done, out + done);
}

void rms_norm_plain(const float* x, float* out, int64_t n, int64_t inner, int64_t begin, int64_t end,
                    const float* gain, const RmsRule& rule) noexcept {
  for (int64_t j = begin; j < end; ++j) {
    float divisor = rule.floor > 0 ? rule.floor : 1;
    for (int64_t i = 0; i < n && rule.floor > 0; ++i) divisor = std::max(divisor, std::abs(x[i * inner + j]));
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float s = x[i * inner + j] / divisor;
      squares += static_cast<double>(s * s);
    }
    const float root = rule.root_eps / divisor, eps = rule.floor > 0 ? root * root : rule.eps;
    const auto mean = static_cast<float>(squares / static_cast<double>(n));
    const float inverse = 1 / std::sqrt(mean + eps + rule.rsqrt_eps);
    for (int64_t i = 0; i < n; ++i)
      out[i * inner + j] = x[i * inner + j] / divisor * inverse * (gain ? gain[i] : 1.0f);
  }
}

void rotate_plain(const float* x, const float* cos, const float* sin, int64_t pairs, float* out) noexcept {
  for (int64_t i = 0; i < pairs; ++i) {
    out[i] = x[i] * cos[i] - x[pairs + i] * sin[i];
    out[pairs + i] = x[pairs + i] * cos[i] + x[i] * sin[i];
  }
}

void gate_plain(const float* x, const float* up, int64_t n, float* out) noexcept {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * (1 / (1 + std::exp(-x[i]))) * (up ? up[i] : 1.0f);
}

}  // namespace anemone
#endif  // HWY_ONCE
