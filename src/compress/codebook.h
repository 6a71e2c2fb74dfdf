// Codebook: a palette's table and the nearest entry to any value.
//     Codebook book(table);
//     uint8_t code = book.find(0.13f);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/histogram.h"

namespace anemone {

class Codebook {
 public:
  // Entries in any order, 256 at most. Of equally near ones the larger is taken.
  explicit Codebook(std::span<const float> table);

  uint8_t find(float value) const {
    size_t at = 0;
    for (size_t step = steps_; step > 0; step /= 2) at += value >= middles_[at + step - 1] ? step : 0;
    return codes_[at];
  }
  float value(uint8_t code) const { return values_[code]; }
  void find(const float* values, int64_t count, uint8_t* codes) const;
  // The code of every fp16 pattern: 65,536 bytes.
  void fill(uint8_t* codes) const;

 private:
  size_t steps_ = 1;  // half of the entries, rounded up to a power of two
  std::array<float, 256>
      middles_{};  // between sorted neighbours: the first float that is nearer to the right one
  std::array<uint8_t, 256> codes_{};  // by rank
  std::array<float, 256> values_{};   // by code
  size_t entries_;
};

// Evenly spaced entries over the range of the values, or a little less where that lowers the error.
std::vector<float> uniform_table(const Histogram& histogram, int entries, bool half);

}  // namespace anemone
