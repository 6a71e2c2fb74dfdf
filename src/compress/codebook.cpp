#include "compress/codebook.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/half.h"
#include "compress/kmeans.h"

namespace anemone {

Codebook::Codebook(std::span<const float> table) : entries_(table.size()) {
  ANEMONE_CHECK(!table.empty() && table.size() <= codes_.size());
  std::vector<uint8_t> order(table.size());
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return table[a] < table[b]; });
  std::copy(order.begin(), order.end(), codes_.begin());
  std::copy(table.begin(), table.end(), values_.begin());
  middles_.fill(std::numeric_limits<float>::infinity());
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const double middle =
        0.5 * (static_cast<double>(table[order[i]]) + static_cast<double>(table[order[i + 1]]));
    auto rounded = static_cast<float>(middle);
    if (static_cast<double>(rounded) < middle)
      rounded = std::nextafter(rounded, std::numeric_limits<float>::infinity());
    middles_[i] = rounded;
  }
  while (2 * steps_ < table.size()) steps_ *= 2;
}

void Codebook::find(const float* values, int64_t count, uint8_t* codes) const {
  for (int64_t i = 0; i < count; ++i) codes[i] = find(values[i]);
}

void Codebook::fill(uint8_t* codes) const {
  constexpr uint32_t kSign = 0x8000, kEnd = 0x7c00;  // patterns from infinity on are not looked up
  // Positive patterns rise with their value, negative ones fall.
  uint32_t at = 0;
  for (size_t rank = 0; rank < entries_; ++rank) {
    uint32_t end = kEnd;
    if (rank + 1 < entries_) {
      uint32_t low = at, high = kEnd;
      while (low < high) {
        const uint32_t mid = (low + high) / 2;
        half_to_float(static_cast<uint16_t>(mid)) >= middles_[rank] ? high = mid : low = mid + 1;
      }
      end = low;
    }
    std::memset(codes + at, codes_[rank], end - at);
    at = end;
  }
  at = 0;
  for (size_t rank = entries_; rank-- > 0;) {
    uint32_t end = kEnd;
    if (rank > 0) {
      uint32_t low = at, high = kEnd;  // the first pattern below the middle
      while (low < high) {
        const uint32_t mid = (low + high) / 2;
        half_to_float(static_cast<uint16_t>(kSign | mid)) < middles_[rank - 1] ? high = mid : low = mid + 1;
      }
      end = low;
    }
    std::memset(codes + kSign + at, codes_[rank], end - at);
    at = end;
  }
  std::memset(codes + kEnd, 0, kSign - kEnd);
  std::memset(codes + kSign + kEnd, 0, kSign - kEnd);
}

std::vector<float> uniform_table(const Histogram& h, int entries, bool half) {
  const auto k = static_cast<size_t>(entries);
  if (h.size() == 0) return std::vector<float>(k, 0.0f);
  const double low = static_cast<double>(h.values.front()), high = static_cast<double>(h.values.back());
  std::vector<float> best;
  double least = std::numeric_limits<double>::infinity();
  const auto attempt = [&](double from, double step) {
    std::vector<float> table(k);
    for (size_t i = 0; i < k; ++i) {
      const auto v = static_cast<float>(from + step * static_cast<double>(i));
      table[i] = half ? round_to_half(v) : v;
    }
    const double error = table_error(h, table);
    if (error < least) least = error, best = std::move(table);
  };
  const double step = (high - low) / static_cast<double>(entries - 1);
  attempt(low, step);
  attempt(low, static_cast<double>(round_to_half(static_cast<float>(step))));
  // Giving up a few outliers makes the steps finer for all others.
  for (int percent = 2; percent <= 60 && entries > 2; percent += 2) {
    const double keep = 1 - 0.01 * percent, middle = 0.5 * (low + high), side = 0.5 * (high - low) * keep;
    attempt(middle - side, 2 * side / static_cast<double>(entries - 1));
    attempt(low * keep, (high - low) * keep / static_cast<double>(entries - 1));
  }
  return best;
}

}  // namespace anemone
