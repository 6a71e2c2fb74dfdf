#include "families/checkpoint_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "kernels/convert.h"
#include "kernels/quantize.h"

namespace anemone {

void CheckpointRows::read(int64_t begin, int64_t end, std::vector<float>& out) const {
  out.resize(static_cast<size_t>((end - begin) * columns()));
  read_rows(tensor_, ref_, begin, end, out);
  if (factor_ != 1)
    for (float& v : out) v *= factor_;
}

float CheckpointRows::checked_largest(const float* values, int64_t count) const {
  const float largest = largest_magnitude(values, count);
  if (!std::isfinite(largest)) throw errorf("a weight of '{}' is not finite", ref_.tensor);
  if (largest > kHalfMax)
    throw errorf("a weight of '{}' leaves the range of fp16", ref_.tensor)
        .found(fmt::format("{}", largest))
        .expected(fmt::format("at most {}", kHalfMax));
  return largest;
}

void CheckpointRows::halves(int64_t begin, int64_t end, uint16_t* out) const {
  std::vector<float> tile;
  for (int64_t r = begin; r < end; r += kTile) {
    const int64_t stop = std::min(end, r + kTile);
    read(r, stop, tile);
    const auto count = static_cast<int64_t>(tile.size());
    checked_largest(tile.data(), count);
    floats_to_halves(tile.data(), count, out);
    out += count;
  }
}

Int8Rows::Int8Rows(CheckpointRows rows, Scales scales)
    : rows_(std::move(rows)), how_(scales), scales_(scales.per_row ? static_cast<size_t>(rows_.rows()) : 1) {}

void Int8Rows::prepare(ThreadPool& pool) {
  if (how_.per_row || scales_[0] != 0) return;
  std::vector<float> largest(static_cast<size_t>(rows_.rows()));
  pool.parallel_for(rows_.rows(), 64, [&](int64_t begin, int64_t end) {
    rows_.each(begin, end,
               [&](int64_t row, const float*, float most) { largest[static_cast<size_t>(row)] = most; });
    rows_.release(begin, end);
  });
  scales_[0] = int8_scale(*std::max_element(largest.begin(), largest.end()), how_.half);
}

void Int8Rows::quantize(int64_t begin, int64_t end, int8_t* out) {
  rows_.each(begin, end, [&](int64_t row, const float* values, float largest) {
    if (how_.per_row) scales_[static_cast<size_t>(row)] = int8_scale(largest, how_.half);
    const float scale = scales_[how_.per_row ? static_cast<size_t>(row) : 0];
    quantize_int8(values, rows_.columns(), 1.0f / scale, out);
    out += rows_.columns();
  });
}

float Int8Rows::scale(int64_t row) {
  std::atomic<float>& known = scales_[static_cast<size_t>(row)];
  if (known == 0)
    rows_.each(row, row + 1,
               [&](int64_t, const float*, float largest) { known = int8_scale(largest, how_.half); });
  return known;
}

}  // namespace anemone
