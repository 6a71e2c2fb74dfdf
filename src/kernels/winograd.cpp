#include "kernels/winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kA = 0.75f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;

// Six inputs along a line → six elements, the values at the points of the polynomial that they belong to.
template <class D, class V>
HWY_INLINE void input_line(D d, const V* x, V* out) {
  const V both = hn::Set(d, kA2 * kB2), sum = hn::Set(d, kA2 + kB2);
  out[0] = hn::MulAdd(both, x[0], hn::NegMulAdd(sum, x[2], x[4]));
  out[5] = hn::MulAdd(both, x[1], hn::NegMulAdd(sum, x[3], x[5]));
  const V even_a = hn::NegMulAdd(hn::Set(d, kB2), x[2], x[4]),
          even_b = hn::NegMulAdd(hn::Set(d, kA2), x[2], x[4]);
  const V odd_a = hn::Mul(hn::Set(d, kA), hn::NegMulAdd(hn::Set(d, kB2), x[1], x[3]));
  const V odd_b = hn::Mul(hn::Set(d, kB), hn::NegMulAdd(hn::Set(d, kA2), x[1], x[3]));
  out[1] = hn::Add(even_a, odd_a);
  out[2] = hn::Sub(even_a, odd_a);
  out[3] = hn::Add(even_b, odd_b);
  out[4] = hn::Sub(even_b, odd_b);
}

// Six sums of products → four outputs.
template <class D, class V>
HWY_INLINE void output_line(D d, const V* m, V* out) {
  const V sum_a = hn::Add(m[1], m[2]), less_a = hn::Sub(m[1], m[2]);
  const V sum_b = hn::Add(m[3], m[4]), less_b = hn::Sub(m[3], m[4]);
  out[0] = hn::Add(hn::Add(m[0], sum_a), sum_b);
  out[1] = hn::MulAdd(hn::Set(d, kA), less_a, hn::Mul(hn::Set(d, kB), less_b));
  out[2] = hn::MulAdd(hn::Set(d, kA2), sum_a, hn::Mul(hn::Set(d, kB2), sum_b));
  out[3] = hn::MulAdd(hn::Set(d, kA2 * kA), less_a, hn::MulAdd(hn::Set(d, kB2 * kB), less_b, m[5]));
}

void InputImpl(const float* HWY_RESTRICT patches, int64_t width, float* HWY_RESTRICT out, int64_t stride) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t t = 0; t < width; t += lanes) {
    V half[6][6];  // columns of the tile, each along its rows
    for (int j = 0; j < 6; ++j) {
      V line[6];
      for (int i = 0; i < 6; ++i) line[i] = hn::LoadU(d, patches + (i * 6 + j) * width + t);
      input_line(d, line, half[j]);
    }
    for (int i = 0; i < 6; ++i) {
      const V line[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]};
      V done[6];
      input_line(d, line, done);
      for (int j = 0; j < 6; ++j) hn::StoreU(done[j], d, out + (i * 6 + j) * stride + t);
    }
  }
}

// 4 x 4 outputs of each tile: four rows, tiles side by side.
HWY_INLINE bool output_rows(const float* HWY_RESTRICT sums, int64_t stride, float* HWY_RESTRICT rows) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V half[6][4];
  for (int j = 0; j < 6; ++j) {
    V line[6];
    for (int i = 0; i < 6; ++i) line[i] = hn::LoadU(d, sums + (i * 6 + j) * stride);
    output_line(d, line, half[j]);
  }
  V check = hn::Zero(d);  // stays zero while all outputs are finite
  for (int i = 0; i < 4; ++i) {
    const V line[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]};
    V done[4];
    output_line(d, line, done);
    for (int j = 0; j < 4; ++j) check = hn::MulAdd(done[j], hn::Zero(d), check);
    hn::StoreInterleaved4(done[0], done[1], done[2], done[3], d, rows + i * 4 * lanes);
  }
  return hn::AllTrue(d, hn::Eq(check, hn::Zero(d)));
}

bool OutputImpl(const float* HWY_RESTRICT sums, int64_t stride, std::span<const WinogradStretch> stretches,
                int64_t out_width, const GemmEnd& end, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float rows[16 * HWY_MAX_BYTES / sizeof(float)];
  const bool fine = output_rows(sums, stride, rows);
  for (const WinogradStretch& s : stretches)
    for (int64_t i = 0; i < s.rows; ++i) {
      const float* from = rows + i * 4 * lanes + 4 * s.tile;
      const int64_t offset = s.offset + i * out_width;
      int64_t x = 0;
      for (; x + lanes <= s.columns; x += lanes) finish(d, hn::LoadU(d, from + x), end, 0, offset + x, out);
      if (x == s.columns) continue;
      finish_some(d, load_some(d, from + x, s.columns - x), end, 0, offset + x, s.columns - x, out);
    }
  return fine;
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(InputImpl);
HWY_EXPORT(OutputImpl);

namespace {

constexpr double kNear = 0.75, kFar = 1.5;  // the points besides 0 and infinity

// out = turn * in * turn transposed, for an `n` x `n` in and an `m` x `m` out.
template <int M, int N>
void turn(const double (&by)[M][N], const double (&in)[N][N], double (&out)[M][M]) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < M; ++j) {
      out[i][j] = 0;
      for (int a = 0; a < N; ++a)
        for (int b = 0; b < N; ++b) out[i][j] += by[i][a] * in[a][b] * by[j][b];
    }
}

}  // namespace

void winograd_weight(const float* kernel, float* out, int64_t stride) noexcept {
  constexpr double a = kNear, b = kFar, fa = 2 * a * a * (a * a - b * b), fb = 2 * b * b * (b * b - a * a);
  static constexpr double kTurn[6][3] = {{1 / (a * a * b * b), 0, 0},   {1 / fa, a / fa, a * a / fa},
                                         {1 / fa, -a / fa, a * a / fa}, {1 / fb, b / fb, b * b / fb},
                                         {1 / fb, -b / fb, b * b / fb}, {0, 0, 1}};
  double half[6][3];
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 3; ++j) {
      half[i][j] = 0;
      for (int r = 0; r < 3; ++r) half[i][j] += kTurn[i][r] * static_cast<double>(kernel[r * 3 + j]);
    }
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) {
      double sum = 0;
      for (int r = 0; r < 3; ++r) sum += half[i][r] * kTurn[j][r];
      out[(i * 6 + j) * stride] = static_cast<float>(sum);
    }
}

void winograd_input(const float* patches, int64_t width, float* out, int64_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(InputImpl)(patches, width, out, stride);
}

bool winograd_output(const float* sums, int64_t stride, std::span<const WinogradStretch> stretches,
                     int64_t out_width, const GemmEnd& end, float* out) noexcept {
  return HWY_DYNAMIC_DISPATCH(OutputImpl)(sums, stride, stretches, out_width, end, out);
}

void winograd_input_plain(const float* patches, int64_t width, float* out, int64_t stride) noexcept {
  constexpr double a = kNear, b = kFar, a2 = a * a, b2 = b * b;
  static constexpr double kTurn[6][6] = {{a2 * b2, 0, -a2 - b2, 0, 1, 0}, {0, -a * b2, -b2, a, 1, 0},
                                         {0, a * b2, -b2, -a, 1, 0},      {0, -b * a2, -a2, b, 1, 0},
                                         {0, b * a2, -a2, -b, 1, 0},      {0, a2 * b2, 0, -a2 - b2, 0, 1}};
  for (int64_t t = 0; t < width; ++t) {
    double in[6][6], done[6][6];
    for (int i = 0; i < 36; ++i) in[i / 6][i % 6] = static_cast<double>(patches[i * width + t]);
    turn(kTurn, in, done);
    for (int i = 0; i < 36; ++i) out[i * stride + t] = static_cast<float>(done[i / 6][i % 6]);
  }
}

void winograd_output_plain(const float* sums, int64_t stride, float* out) noexcept {
  constexpr double a = kNear, b = kFar;
  static constexpr double kTurn[4][6] = {{1, 1, 1, 1, 1, 0},
                                         {0, a, -a, b, -b, 0},
                                         {0, a * a, a * a, b * b, b * b, 0},
                                         {0, a * a * a, -a * a * a, b * b * b, -b * b * b, 1}};
  double in[6][6], done[4][4];
  for (int i = 0; i < 36; ++i) in[i / 6][i % 6] = static_cast<double>(sums[i * stride]);
  turn(kTurn, in, done);
  for (int i = 0; i < 16; ++i) out[i] = static_cast<float>(done[i / 4][i % 4]);
}

}  // namespace anemone
#endif  // HWY_ONCE
