// Hessian: the squares of a matrix's inputs, averaged over tokens: how much an error of each weight, and of each
// pair of weights in a row, costs at the output.
//     Hessian h(channels);
//     h.add(x, positions, pool);                       // x: [channels, positions]
//     h.factor();                                      // once, when all is there
// Every token has the same weight: its inputs are divided by their length first. A few tokens (often the first of a
// text) have inputs many times larger than the others, in layers whose results are normalized afterwards, and would
// otherwise dominate. One block of tokens in four is not averaged but held out, so that a fit to the others can be
// tested on tokens that it has not seen.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace anemone {

class ThreadPool;

class Hessian {
 public:
  explicit Hessian(int64_t channels, bool full = true);

  int64_t channels() const { return channels_; }
  int64_t tokens() const { return tokens_; }  // that were averaged
  int64_t aside() const { return static_cast<int64_t>(aside_.size()) / channels_; }
  void add(const float* x, int64_t positions, ThreadPool& pool);

  // The mean square of each channel, a little above zero.
  std::vector<float> diagonal() const;
  // What errors of `rows` rows, [rows, channels], cost on the tokens kept aside: the sum over rows and tokens.
  double cost(const float* errors, int64_t rows) const;

  // How far the correlations of pairs are shrunk toward zero, because they are estimated from few tokens: 0 to 1
  // (Schaefer and Strimmer 2005; the estimate of Ledoit and Wolf with the diagonal as its target).
  double shrinkage() const;
  // Orders the channels, the largest first, and factors the inverse: U with inverse = U^T U, U upper
  // triangular, by which errors are passed on from column to column. The averages of pairs are gone afterwards.
  void factor();
  const std::vector<int32_t>& order() const { return order_; }
  const float* factor_row(int64_t i) const { return factor_.data() + i * channels_; }

 private:
  int64_t channels_, tokens_ = 0, seen_ = 0;
  bool full_;
  std::vector<float> sums_;                // [channels, channels], or none
  std::vector<double> diagonal_, fourth_;  // sums of squares and of fourth powers
  std::vector<float> aside_;               // [tokens, channels]
  std::vector<int32_t> order_;
  std::vector<float> factor_;
};

// By the name of the input.
using Hessians = std::map<std::string, std::shared_ptr<Hessian>>;
// Returns the Hessians, with all pairs, of inputs with these numbers of channels. Code that runs the model makes them
// (convert/activations.h).
using Statistics = std::function<Hessians(const std::map<std::string, int64_t>& inputs)>;

}  // namespace anemone
