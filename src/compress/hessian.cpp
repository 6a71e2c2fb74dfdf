#include "compress/hessian.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/thread_pool.h"
#include "kernels/gemm.h"

namespace anemone {
namespace {

constexpr double kDamping =
    0.01;  // of the mean diagonal, added to it: with few tokens some directions have no data
constexpr int64_t kBlock =
    16;  // tokens in a row that are averaged or kept aside together: neighbours are alike
constexpr int64_t kAsideEvery = 4;
size_t at(int64_t i) { return static_cast<size_t>(i); }

// Eight sums, so that they can be made side by side.
double dot(const double* a, const double* b, int64_t n) {
  double s[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t k = 0; k < 8; ++k) s[k] += a[i + k] * b[i + k];
  double rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])) + rest;
}

// a = L L^T, in place, row by row.
void cholesky(std::vector<double>& a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double* row = a.data() + i * n;
    for (int64_t j = 0; j <= i; ++j) {
      const double* other = a.data() + j * n;
      const double rest = row[j] - dot(row, other, j);
      row[j] = i == j ? std::sqrt(std::max(rest, 1e-300)) : rest / other[j];
    }
  }
}

}  // namespace

Hessian::Hessian(int64_t channels, bool full)
    : channels_(channels),
      full_(full),
      sums_(full ? at(channels * channels) : 0),
      diagonal_(at(channels)),
      fourth_(at(channels)) {}

void Hessian::add(const float* x, int64_t positions, ThreadPool& pool) {
  std::vector<double> length(at(positions));
  for (int64_t c = 0; c < channels_; ++c)
    for (int64_t t = 0; t < positions; ++t) {
      const double v = static_cast<double>(x[c * positions + t]);
      length[at(t)] += v * v;
    }
  std::vector<float> used;  // [tokens, channels]
  int64_t count = 0;
  for (int64_t t = 0; t < positions; ++t) {
    if (!(length[at(t)] > 0) || !std::isfinite(length[at(t)])) continue;
    const double scale = 1 / std::sqrt(length[at(t)]);
    const bool apart = seen_++ / kBlock % kAsideEvery == kAsideEvery - 1;
    std::vector<float>& to = apart ? aside_ : used;
    count += !apart;
    for (int64_t c = 0; c < channels_; ++c) {
      const double v = static_cast<double>(x[c * positions + t]) * scale;
      to.push_back(static_cast<float>(v));
      if (apart) continue;
      diagonal_[at(c)] += v * v;
      fourth_[at(c)] += v * v * v * v;
    }
  }
  tokens_ += count;
  if (!full_ || count == 0) return;
  constexpr int64_t kRows = 64;
  pool.parallel_for((channels_ + kRows - 1) / kRows, 1, [&](int64_t begin, int64_t end) {
    GemmScratch scratch;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * kRows, rows = std::min(kRows, channels_ - first);
      gemm(rows, channels_, count, {used.data() + first, 1, channels_}, {used.data(), channels_, 1},
           sums_.data() + first * channels_, channels_, true, scratch);
    }
  });
}

double Hessian::cost(const float* errors, int64_t rows) const {
  constexpr int64_t kRows = 32;
  const int64_t tokens = aside();
  std::vector<float> out(at(kRows * tokens));
  GemmScratch scratch;
  double sum = 0;
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t n = std::min(kRows, rows - r);
    gemm(n, tokens, channels_, {errors + r * channels_, channels_, 1}, {aside_.data(), 1, channels_},
         out.data(), tokens, false, scratch);
    for (int64_t i = 0; i < n * tokens; ++i) {
      const double v = static_cast<double>(out[at(i)]);
      sum += v * v;
    }
  }
  return sum;
}

double Hessian::shrinkage() const {
  // With h the averages over T tokens of length 1, the variances of all h_ij add up to (1 - sum h_ij^2) / T.
  const auto tokens = static_cast<double>(std::max<int64_t>(1, tokens_));
  double all = 0, own = 0, own_variance = 0;
  for (const float v : sums_) all += static_cast<double>(v) * static_cast<double>(v) / (tokens * tokens);
  for (int64_t c = 0; c < channels_; ++c) {
    const double mean = diagonal_[at(c)] / tokens;
    own += mean * mean;
    own_variance += fourth_[at(c)] / tokens - mean * mean;
  }
  const double variance = (1 - all - own_variance) / tokens, pairs = all - own;
  return pairs > 0 ? std::clamp(variance / pairs, 0.0, 1.0) : 1.0;
}

std::vector<float> Hessian::diagonal() const {
  const double total = std::accumulate(diagonal_.begin(), diagonal_.end(), 0.0);
  const double least = std::max(1e-12, 1e-6 * total / static_cast<double>(channels_));
  std::vector<float> out;
  for (const double d : diagonal_)
    out.push_back(static_cast<float>((d + least) / static_cast<double>(std::max<int64_t>(1, tokens_))));
  return out;
}

void Hessian::factor() {
  const int64_t n = channels_;
  order_.resize(at(n));
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int32_t a, int32_t b) { return diagonal_[at(a)] > diagonal_[at(b)]; });
  const double mean = std::accumulate(diagonal_.begin(), diagonal_.end(), 0.0) / static_cast<double>(n);
  const double damping = std::max(kDamping * mean, 1e-12);
  const double pairs = 1 - shrinkage();
  // The matrix from its last row to its first: its factor, turned round again, is M with H = M M^T and M upper
  // triangular, so that U is M's inverse and no inverse of H is needed.
  std::vector<double> turned(at(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      turned[at(i * n + j)] =
          static_cast<double>(sums_[at(int64_t{order_[at(n - 1 - i)]} * n + order_[at(n - 1 - j)])]) *
              (i == j ? 1 : pairs) +
          (i == j ? damping : 0);
  sums_ = {};
  cholesky(turned, n);
  const auto m = [&](int64_t i, int64_t j) { return turned[at((n - 1 - i) * n + (n - 1 - j))]; };
  std::vector<double> upper(at(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i; j < n; ++j) upper[at(i * n + j)] = m(i, j);
  turned = {};
  factor_.assign(at(n * n), 0.0f);
  std::vector<double> row(at(n));
  for (int64_t i = 0; i < n; ++i) {  // row i of U: U M = 1
    std::fill(row.begin(), row.end(), 0.0);
    row[at(i)] = 1;
    for (int64_t k = i; k < n; ++k) {
      const double* r = upper.data() + k * n;
      const double u = row[at(k)] / r[k];
      factor_[at(i * n + k)] = static_cast<float>(u);
      for (int64_t j = k + 1; j < n; ++j) row[at(j)] -= u * r[j];
    }
  }
}

}  // namespace anemone
