// Hessian: the squares of a matrix's inputs, summed over tokens: how much an error of each weight, and of each
// pair of weights in a row, costs at the output.
//     Hessian h(channels);
//     h.add(x, positions, pool);                       // x: [channels, positions]
//     h.factor();                                      // once, when all is there
#pragma once

#include <cstdint>
#include <vector>

namespace anemone {

class ThreadPool;

class Hessian {
 public:
  explicit Hessian(int64_t channels, bool full = true);

  int64_t channels() const { return channels_; }
  int64_t tokens() const { return tokens_; }
  void add(const float* x, int64_t positions, ThreadPool& pool);

  // The mean square of each channel, a little above zero.
  std::vector<float> diagonal() const;

  // Orders the channels, the largest first, and factors the inverse: U with inverse = U^T U, U upper
  // triangular, by which errors are passed on from column to column. The sums are gone afterwards.
  void factor();
  const std::vector<int32_t>& order() const { return order_; }
  const float* factor_row(int64_t i) const { return factor_.data() + i * channels_; }

 private:
  int64_t channels_, tokens_ = 0;
  bool full_;
  std::vector<float> sums_;       // [channels, channels], or the diagonal alone
  std::vector<double> diagonal_;  // sums
  std::vector<int32_t> order_;
  std::vector<float> factor_;
};

}  // namespace anemone
