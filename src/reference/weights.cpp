#include "reference/weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace anemone {
namespace {

// Sixteen sums side by side: fast where the compiler sees vectors, and more exact than a single one.
float dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

}  // namespace

void ReferenceCheckpoint::read(const WeightRef& ref, int64_t begin, int64_t end, std::span<float> out) const {
  read_rows(*checkpoint_, ref, begin, end, out);
}

void ReferenceCheckpoint::read_table(const WeightRef& ref, int64_t row, std::span<float> out) const {
  read_rows(*checkpoint_, ref, row, row + 1, out);
}

std::vector<float> ReferenceWeights::vector(const WeightRef& ref) const {
  std::vector<float> values(static_cast<size_t>(ref.rows()));
  source_.read(ref, 0, ref.rows(), values);
  return values;
}

std::vector<float> ReferenceWeights::matrix(const WeightRef& ref) const {
  std::vector<float> values(static_cast<size_t>(ref.rows() * ref.columns));
  source_.read(ref, 0, ref.rows(), values);
  return values;
}

void ReferenceWeights::each_tile(const WeightRef& ref,
                                 const std::function<void(int64_t, int64_t, const float*)>& visit) const {
  constexpr int64_t kTile = 32;
  pool_.parallel_for(ref.rows(), kTile, [&](int64_t begin, int64_t end) {
    std::vector<float> tile(static_cast<size_t>(kTile * ref.columns));
    for (int64_t first = begin; first < end; first += kTile) {
      const int64_t last = std::min(first + kTile, end);
      source_.read(ref, first, last,
                   std::span(tile).first(static_cast<size_t>((last - first) * ref.columns)));
      visit(first, last, tile.data());
    }
  });
}

void ReferenceWeights::multiply(const WeightRef& ref, const float* x, int64_t tokens, float* y) const {
  const int64_t rows = ref.rows(), columns = ref.columns;
  each_tile(ref, [&](int64_t first, int64_t last, const float* tile) {
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t r = first; r < last; ++r)
        y[t * rows + r] = dot(x + t * columns, tile + (r - first) * columns, columns);
  });
}

float ReferenceWeights::largest_running_sum(const WeightRef& ref, const float* x, int64_t tokens) const {
  constexpr int64_t kLanes = 8;  // rows side by side: a single sum would wait for itself
  const int64_t columns = ref.columns;
  std::vector<float> of_row(static_cast<size_t>(ref.rows()));
  each_tile(ref, [&](int64_t first, int64_t last, const float* tile) {
    for (int64_t r = first; r < last; r += kLanes) {
      const int64_t lanes = std::min(kLanes, last - r);
      for (int64_t t = 0; t < tokens; ++t) {
        float sum[kLanes] = {}, most[kLanes] = {};
        for (int64_t c = 0; c < columns; ++c)
          for (int64_t i = 0; i < lanes; ++i) {
            sum[i] += x[t * columns + c] * tile[(r - first + i) * columns + c];
            most[i] = std::max(most[i], std::abs(sum[i]));
          }
        for (int64_t i = 0; i < lanes; ++i) {
          float& row = of_row[static_cast<size_t>(r + i)];
          row = std::max(row, most[i]);
        }
      }
    }
  });
  return of_row.empty() ? 0 : *std::max_element(of_row.begin(), of_row.end());
}

}  // namespace anemone
