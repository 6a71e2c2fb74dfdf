// Error-compensated rounding (Frantar et al. 2022, "GPTQ"): the columns of a matrix are rounded one after the
// other, and later columns compensate for the error of earlier ones, as far as their inputs are correlated.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/thread_pool.h"
#include "compress/encoded.h"
#include "compress/hessian.h"

namespace anemone {

void compensate(Encoded& e, const Weight& weight, const Hessian& hessian, ThreadPool& pool) {
  const int64_t rows = e.dims[0], columns = e.dims[1];
  ANEMONE_CHECK(hessian.channels() == columns && !hessian.order().empty());
  const WeightValues values(weight);
  // A byte for each weight of the package at hand: these codes cannot be made again by rows.
  auto codes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(rows * columns));
  const std::vector<int32_t>& order = hessian.order();
  constexpr int64_t kRows = 8;  // that share a pass over the factor
  pool.parallel_for((rows + kRows - 1) / kRows, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> room, left(static_cast<size_t>(kRows * columns));
    std::vector<uint8_t> kept(static_cast<size_t>(kRows * columns), 1);
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * kRows, n = std::min(kRows, rows - first);
      const float* w = values.floats(first * columns, (first + n) * columns, room);
      if (e.mask) e.mask->rows(first, first + n, kept.data());
      for (int64_t r = 0; r < n; ++r)
        for (int64_t j = 0; j < columns; ++j)
          left[static_cast<size_t>(r * columns + j)] = w[r * columns + order[static_cast<size_t>(j)]];
      for (int64_t j = 0; j < columns; ++j) {
        const float* u = hessian.factor_row(j);
        const int64_t column = order[static_cast<size_t>(j)];
        for (int64_t r = 0; r < n; ++r) {
          float* v = left.data() + r * columns;
          uint8_t& code = (*codes)[static_cast<size_t>((first + r) * columns + column)];
          const bool stays = kept[static_cast<size_t>(r * columns + column)] != 0;
          const float q = stays ? e.nearest(first + r, column, v[j], code) : 0.0f;
          const float error = (v[j] - q) / u[j];
          for (int64_t k = j + 1; k < columns; ++k) v[k] -= error * u[k];
        }
      }
    }
  });
  values.release(0, rows * columns);
  e.codes = [codes, columns](int64_t begin, int64_t end, uint8_t* out) {
    std::copy(codes->begin() + begin * columns, codes->begin() + end * columns, out);
  };
}

double cost_of(const Encoded& e, const Weight& weight, const Hessian& hessian, ThreadPool& pool) {
  constexpr int64_t kMostRows = 512, kRows = 32;
  const int64_t rows = e.dims[0], columns = e.dims[1], stride = (rows + kMostRows - 1) / kMostRows;
  const int64_t sample = (rows + stride - 1) / stride, parts = (sample + kRows - 1) / kRows;
  const WeightValues values(weight);
  std::vector<double> costs(static_cast<size_t>(parts));
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> room, errors;
    std::vector<uint8_t> codes(static_cast<size_t>(columns)), kept(static_cast<size_t>(columns), 1);
    for (int64_t part = begin; part < end; ++part) {
      errors.clear();
      for (int64_t i = part * kRows; i < std::min(sample, (part + 1) * kRows); ++i) {
        const int64_t r = i * stride;
        const float* w = values.floats(r * columns, (r + 1) * columns, room);
        e.codes(r, r + 1, codes.data());
        if (e.mask) e.mask->rows(r, r + 1, kept.data());
        for (int64_t c = 0; c < columns; ++c) {
          const auto k = static_cast<size_t>(c);
          errors.push_back(w[c] - (kept[k] ? e.value(r, c, codes[k]) : 0.0f));
        }
      }
      costs[static_cast<size_t>(part)] =
          hessian.cost(errors.data(), static_cast<int64_t>(errors.size()) / columns);
    }
  });
  return std::accumulate(costs.begin(), costs.end(), 0.0);
}

}  // namespace anemone
