// Histogram: the distinct values of a weight in ascending order, with running sums, which is all that
// clustering needs. fp16 has 65,536 patterns, so it is exact whatever the tensor's size.
//     HistogramBuilder b(Grid::half);
//     b.add(halves, count);
//     Histogram h = b.take();
// fp32 values are gathered by their first 20 bits (11 of the mantissa, one more than fp16 has): a bin stands
// for its mean, and no two bins differ by less than 1/2048 of their value.
#pragma once

#include <cstdint>
#include <vector>

namespace anemone {

enum class Grid { half, wide };  // of 16-bit patterns; of the first 20 bits of a float

// Which bin a float belongs to, in ascending order of the values.
uint32_t wide_bin(float value);

struct Histogram {
  std::vector<float> values;  // ascending
  // Running sums over the values before i (one entry more than values), of the values less `origin`.
  std::vector<double> weight, sum, square;
  double origin = 0;

  int64_t size() const { return static_cast<int64_t>(values.size()); }
  double total() const { return weight.back(); }
  // The mean of the values [a, b), and their squared error around `center`.
  double mean(int64_t a, int64_t b) const;
  double error(int64_t a, int64_t b, double center) const;
};

class HistogramBuilder {
 public:
  explicit HistogramBuilder(Grid grid);

  // Error when a value is not finite.
  void add(const uint16_t* halves, int64_t count);                        // Grid::half
  void add(const uint16_t* halves, const float* weights, int64_t count);  // the same, with a weight each
  void add(const float* values, double weight, int64_t count);            // Grid::wide, one weight for all
  void add(const float* values, const float* weights, int64_t count);     // Grid::wide, a weight each
  // Adds what another builder of the same grid has seen.
  void merge(const HistogramBuilder& other);
  // What was added; the builder is empty afterwards and may be used again. Values of no weight are left out.
  Histogram take();
  bool empty() const;

 private:
  void take_half(Histogram& out);
  void take_wide(Histogram& out);

  Grid grid_;
  std::vector<uint32_t> counts_;          // half, unweighted: by pattern
  std::vector<double> weights_, sums_;    // weighted: by pattern or bin; sums of wide bins
  uint32_t low_ = UINT32_MAX, high_ = 0;  // wide bins in use
};

}  // namespace anemone
