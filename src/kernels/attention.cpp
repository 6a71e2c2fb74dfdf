#include "kernels/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys and values are floats or halves: T.
template <class D>
HWY_INLINE hn::Vec<D> load_as_floats(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load_as_floats(D d, const uint16_t* p) {
  return widen_half(d, load_16(d, reinterpret_cast<const uint8_t*>(p)));
}
HWY_INLINE float one_float(float v) { return v; }
HWY_INLINE float one_float(uint16_t v) { return half_to_float(v); }
// a * b + c as the vectors have it, rounded once or twice: the compiler may choose one for floats, another for halves.
HWY_INLINE float one_mul_add(float a, float b, float c) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(hn::MulAdd(hn::Set(d, a), hn::Set(d, b), hn::Set(d, c)));
}

// How far ahead of its use a row of keys or values is asked for, in bytes.
constexpr int64_t kAhead = 3072;

template <class T>
HWY_INLINE void prefetch_row(const T* row, int64_t dim) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < dim; i += 64 / kSize) hwy::Prefetch(row + kAhead / kSize + i);
}

// The sum of the blocks of four lanes.
template <class D>
HWY_INLINE auto sum_blocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return sum_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    (void)d;
    return v;
  }
}

// The sums of the lanes of four vectors, side by side: 13 operations where four sums one by one take 32.
template <class D>
HWY_INLINE auto sum_four(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e) {
  const hn::Repartition<double, D> pairs;
  const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return sum_blocks(d, hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                               hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce))));
}

// R rows of q against J of k; the sums of the lanes are still apart.
template <int R, int J, class T>
HWY_INLINE void score_lanes(const float* HWY_RESTRICT q, int64_t dim, const T* HWY_RESTRICT k,
                            hn::Vec<hn::ScalableTag<float>> (&sums)[R][J]) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) sums[r][j] = hn::Zero(d);
  for (int64_t i = 0; i + lanes <= dim; i += lanes) {
    V keys[J];
    for (int j = 0; j < J; ++j) keys[j] = load_as_floats(d, k + j * dim + i);
    for (int r = 0; r < R; ++r) {
      const V query = hn::LoadU(d, q + r * dim + i);
      for (int j = 0; j < J; ++j) sums[r][j] = hn::MulAdd(query, keys[j], sums[r][j]);
    }
  }
}

template <int R, class T>
void score_rows(const float* q, int64_t dim, const T* k, int64_t columns, float* scores, int64_t stride) {
  const hn::ScalableTag<float> d;
  const hn::Full128<float> four;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = dim / lanes * lanes;
  const auto add_tail = [&](int r, int64_t j) HWY_ATTR {
    float& score = scores[r * stride + j];
    for (int64_t i = whole; i < dim; ++i)
      score = one_mul_add(q[r * dim + i], one_float(k[j * dim + i]), score);
  };
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    hn::Vec<decltype(d)> sums[R][4];
    for (int64_t x = 0; x < 4; ++x) prefetch_row(k + (j + x) * dim, dim);
    score_lanes<R, 4, T>(q, dim, k + j * dim, sums);
    for (int r = 0; r < R; ++r) {
      hn::StoreU(sum_four(d, sums[r][0], sums[r][1], sums[r][2], sums[r][3]), four, scores + r * stride + j);
      for (int64_t x = 0; x < 4 && whole < dim; ++x) add_tail(r, j + x);
    }
  }
  for (; j < columns; ++j) {
    hn::Vec<decltype(d)> sums[R][1];
    score_lanes<R, 1, T>(q, dim, k + j * dim, sums);
    for (int r = 0; r < R; ++r) {
      const auto zero = hn::Zero(d);  // in the order of sum_four, wherever the blocks of columns begin
      scores[r * stride + j] = hn::GetLane(sum_four(d, sums[r][0], zero, zero, zero));
      add_tail(r, j);
    }
  }
}

template <class T>
HWY_INLINE void scores_of(const float* q, int64_t rows, int64_t dim, const T* k, int64_t columns,
                          float* scores, int64_t stride) {
  for (; rows >= 4; rows -= 4, q += 4 * dim, scores += 4 * stride)
    score_rows<4>(q, dim, k, columns, scores, stride);
  if (rows == 3) score_rows<3>(q, dim, k, columns, scores, stride);
  if (rows == 2) score_rows<2>(q, dim, k, columns, scores, stride);
  if (rows == 1) score_rows<1>(q, dim, k, columns, scores, stride);
}
void ScoresImpl(const float* q, int64_t rows, int64_t dim, const float* k, int64_t columns, float* scores,
                int64_t stride) {
  scores_of(q, rows, dim, k, columns, scores, stride);
}
void HalfScoresImpl(const float* q, int64_t rows, int64_t dim, const uint16_t* k, int64_t columns,
                    float* scores, int64_t stride) {
  scores_of(q, rows, dim, k, columns, scores, stride);
}

HWY_INLINE float largest_of(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float largest = x[0];
  int64_t i = 0;
  if (n >= lanes) {
    auto most = hn::LoadU(d, x);
    for (i = lanes; i + lanes <= n; i += lanes) most = hn::Max(most, hn::LoadU(d, x + i));
    largest = hn::GetLane(hn::MaxOfLanes(d, most));
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// x = e^(x - largest); the sum of those.
HWY_INLINE double exponentials(float* x, int64_t n, float largest) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> wide;
  const hn::Half<decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto top = hn::Set(d, largest);
  auto low = hn::Zero(wide), high = hn::Zero(wide);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto z = hn::Sub(hn::LoadU(d, x + i), top);
    const auto e = hn::IfThenElse(hn::IsNaN(z), z, hn::Exp(d, z));
    hn::StoreU(e, d, x + i);
    low = hn::Add(low, hn::PromoteTo(wide, hn::LowerHalf(narrow, e)));
    high = hn::Add(high, hn::PromoteTo(wide, hn::UpperHalf(narrow, e)));
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(low, high)));
  for (; i < n; ++i) sum += static_cast<double>(x[i] = std::exp(x[i] - largest));
  return sum;
}

void SoftmaxImpl(float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = static_cast<float>(1 / exponentials(x, n, largest_of(x, n)));
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factor), d, x + i);
  for (; i < n; ++i) x[i] *= scale;
}

void SoftmaxPartImpl(float* x, int64_t n, SoftmaxPart* out) {
  out->largest = largest_of(x, n);
  if (out->largest == -std::numeric_limits<float>::infinity()) {
    // Nothing is seen here; but something may not be a number.
    for (int64_t i = 0; i < n; ++i) out->sum += x[i] = x[i] == out->largest ? 0.0f : x[i];
    return;
  }
  out->sum = static_cast<float>(exponentials(x, n, out->largest));
}

// R rows of p against N vectors of columns of v.
template <int R, int N, class T>
HWY_INLINE void value_block(const float* HWY_RESTRICT p, int64_t stride, const T* HWY_RESTRICT v,
                            int64_t columns, int64_t dim, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[R][N];
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) sums[r][n] = hn::Zero(d);
  for (int64_t j = 0; j < columns; ++j, v += dim) {
    prefetch_row(v, N * lanes);
    V values[N];
    for (int n = 0; n < N; ++n) values[n] = load_as_floats(d, v + n * lanes);
    for (int r = 0; r < R; ++r) {
      const V weight = hn::Set(d, p[r * stride + j]);
      for (int n = 0; n < N; ++n) sums[r][n] = hn::MulAdd(weight, values[n], sums[r][n]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) hn::StoreU(sums[r][n], d, out + r * dim + n * lanes);
}

template <int R, class T>
void value_rows(const float* p, int64_t stride, const T* v, int64_t columns, int64_t dim, int64_t begin,
                int64_t end, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) value_block<R, 4, T>(p, stride, v + i, columns, dim, out + i);
  for (; i + 2 * lanes <= end; i += 2 * lanes) value_block<R, 2, T>(p, stride, v + i, columns, dim, out + i);
  for (; i + lanes <= end; i += lanes) value_block<R, 1, T>(p, stride, v + i, columns, dim, out + i);
  for (; i < end; ++i)
    for (int r = 0; r < R; ++r) {
      float sum = 0;
      for (int64_t j = 0; j < columns; ++j)
        sum = one_mul_add(p[r * stride + j], one_float(v[j * dim + i]), sum);
      out[r * dim + i] = sum;
    }
}

template <class T>
HWY_INLINE void values_of(const float* p, int64_t stride, int64_t rows, const T* v, int64_t columns,
                          int64_t dim, int64_t begin, int64_t end, float* out) {
  for (; rows >= 3; rows -= 3, p += 3 * stride, out += 3 * dim)
    value_rows<3>(p, stride, v, columns, dim, begin, end, out);
  if (rows == 2) value_rows<2>(p, stride, v, columns, dim, begin, end, out);
  if (rows == 1) value_rows<1>(p, stride, v, columns, dim, begin, end, out);
}

void ValuesImpl(const float* p, int64_t stride, int64_t rows, const float* v, int64_t columns, int64_t dim,
                int64_t begin, int64_t end, float* out) {
  values_of(p, stride, rows, v, columns, dim, begin, end, out);
}
void HalfValuesImpl(const float* p, int64_t stride, int64_t rows, const uint16_t* v, int64_t columns,
                    int64_t dim, int64_t begin, int64_t end, float* out) {
  values_of(p, stride, rows, v, columns, dim, begin, end, out);
}

void ScaleAddImpl(float* HWY_RESTRICT x, float scale, const float* HWY_RESTRICT add, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Add(hn::Mul(hn::LoadU(d, x + i), factor), hn::LoadU(d, add + i)), d, x + i);
  for (; i < n; ++i) x[i] = x[i] * scale + add[i];
}

bool FiniteImpl(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto special = hn::Set(du, 0x7f800000u);
  auto found = hn::Zero(du);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::And(hn::BitCast(du, hn::LoadU(d, x + i)), special);
    found = hn::Or(found, hn::VecFromMask(du, hn::Eq(bits, special)));
  }
  bool all = hn::AllTrue(du, hn::Eq(found, hn::Zero(du)));
  for (; i < n; ++i) all = all && std::isfinite(x[i]);
  return all;
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(ScoresImpl);
HWY_EXPORT(HalfScoresImpl);
HWY_EXPORT(SoftmaxImpl);
HWY_EXPORT(SoftmaxPartImpl);
HWY_EXPORT(ValuesImpl);
HWY_EXPORT(HalfValuesImpl);
HWY_EXPORT(ScaleAddImpl);
HWY_EXPORT(FiniteImpl);

void attention_scores(const float* q, int64_t rows, int64_t dim, const float* k, int64_t columns,
                      float* scores, int64_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(ScoresImpl)(q, rows, dim, k, columns, scores, stride);
}

void attention_scores(const float* q, int64_t rows, int64_t dim, const uint16_t* k, int64_t columns,
                      float* scores, int64_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(HalfScoresImpl)(q, rows, dim, k, columns, scores, stride);
}

void softmax(float* x, int64_t n) noexcept { HWY_DYNAMIC_DISPATCH(SoftmaxImpl)(x, n); }

void attention_values(const float* p, int64_t stride, int64_t rows, const float* v, int64_t columns,
                      int64_t dim, int64_t begin, int64_t end, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(ValuesImpl)(p, stride, rows, v, columns, dim, begin, end, out);
}

void attention_values(const float* p, int64_t stride, int64_t rows, const uint16_t* v, int64_t columns,
                      int64_t dim, int64_t begin, int64_t end, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(HalfValuesImpl)(p, stride, rows, v, columns, dim, begin, end, out);
}

SoftmaxPart softmax_part(float* x, int64_t n) noexcept {
  SoftmaxPart out;
  HWY_DYNAMIC_DISPATCH(SoftmaxPartImpl)(x, n, &out);
  return out;
}

void join_parts(const SoftmaxPart* stats, const float* sums, int64_t parts, int64_t stats_stride,
                int64_t sums_stride, int64_t dim, float* out) noexcept {
  float largest = stats[0].largest;
  for (int64_t p = 1; p < parts; ++p) largest = std::max(largest, stats[p * stats_stride].largest);
  // A part in which nothing is seen has no weight; where that is all, there is no softmax.
  const auto weight = [&](const SoftmaxPart& part) {
    return part.sum == 0 ? 0.0f : std::exp(part.largest - largest);
  };
  double total = 0;
  for (int64_t p = 0; p < parts; ++p)
    total += static_cast<double>(weight(stats[p * stats_stride])) * stats[p * stats_stride].sum;
  std::fill_n(out, dim, 0.0f);
  for (int64_t p = 0; p < parts; ++p) {
    const auto factor = static_cast<float>(weight(stats[p * stats_stride]) / total);
    for (int64_t i = 0; i < dim; ++i) out[i] += factor * sums[p * sums_stride + i];
  }
}

void scale_and_add(float* x, float scale, const float* add, int64_t n, bool half) noexcept {
  if (half && scale != 1) {
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
    round_halves(x, n);
    scale = 1;
  }
  HWY_DYNAMIC_DISPATCH(ScaleAddImpl)(x, scale, add, n);
  if (half) round_halves(x, n);
}

bool all_finite(const float* x, int64_t n) noexcept { return HWY_DYNAMIC_DISPATCH(FiniteImpl)(x, n); }

namespace {

float plain_float(float v) { return v; }
float plain_float(uint16_t v) { return half_to_float(v); }

template <class T>
void plain_scores(const float* q, int64_t rows, int64_t dim, const T* k, int64_t columns, float* scores,
                  int64_t stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < dim; ++i)
        sum += static_cast<double>(q[r * dim + i]) * plain_float(k[j * dim + i]);
      scores[r * stride + j] = static_cast<float>(sum);
    }
}

template <class T>
void plain_values(const float* p, int64_t stride, int64_t rows, const T* v, int64_t columns, int64_t dim,
                  int64_t begin, int64_t end, float* out) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < columns; ++j)
        sum += static_cast<double>(p[r * stride + j]) * plain_float(v[j * dim + i]);
      out[r * dim + i] = static_cast<float>(sum);
    }
}

}  // namespace

void attention_scores_plain(const float* q, int64_t rows, int64_t dim, const float* k, int64_t columns,
                            float* scores, int64_t stride) noexcept {
  plain_scores(q, rows, dim, k, columns, scores, stride);
}
void attention_scores_plain(const float* q, int64_t rows, int64_t dim, const uint16_t* k, int64_t columns,
                            float* scores, int64_t stride) noexcept {
  plain_scores(q, rows, dim, k, columns, scores, stride);
}

void softmax_plain(float* x, int64_t n) noexcept {
  const float largest = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i] = std::exp(x[i] - largest));
  for (int64_t i = 0; i < n; ++i) x[i] *= static_cast<float>(1 / sum);
}

void attention_values_plain(const float* p, int64_t stride, int64_t rows, const float* v, int64_t columns,
                            int64_t dim, int64_t begin, int64_t end, float* out) noexcept {
  plain_values(p, stride, rows, v, columns, dim, begin, end, out);
}
void attention_values_plain(const float* p, int64_t stride, int64_t rows, const uint16_t* v, int64_t columns,
                            int64_t dim, int64_t begin, int64_t end, float* out) noexcept {
  plain_values(p, stride, rows, v, columns, dim, begin, end, out);
}

}  // namespace anemone
#endif  // HWY_ONCE
