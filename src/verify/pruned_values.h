// Pruned: what was set to zero in a weight, against what was kept. Pruning takes the smallest magnitudes, of the whole
// weight or of each few neighbours.
//     pruned.add(row, column, source, stored);
//     if (pruned.excess() > 0.5) …                       // nearly any values were taken, and not the smallest
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace anemone {

// An element that its form does not explain.
struct Stray {
  int64_t row = -1, column = 0;
  double want = 0, have = 0, limit = 0;
};

// What was set to zero: the smallest magnitudes, so that none of them is larger than one that was kept.
class Pruned {
 public:
  void add(int64_t row, int64_t column, double want, double have) {
    const double size = std::abs(want);
    all_[bin(size)].add(size);
    if (have != 0) {
      least_kept_ = std::min(least_kept_, size);
      return;
    }
    ++zeros_[bin(size)];
    lost_ += size * size;
    if (size > largest_.want) largest_ = {row, column, size, 0, 0};
  }
  void add(const Pruned& other) {
    for (size_t i = 0; i < kBins; ++i) {
      zeros_[i] += other.zeros_[i];
      all_[i].count += other.all_[i].count;
      all_[i].squares += other.all_[i].squares;
    }
    lost_ += other.lost_;
    least_kept_ = std::min(least_kept_, other.least_kept_);
    if (other.largest_.want > largest_.want) largest_ = other.largest_;
  }
  // Zeros that are larger than some that were kept.
  int64_t too_large() const {
    int64_t out = 0;
    for (size_t i = std::isfinite(least_kept_) ? bin(least_kept_) + 2 : kBins; i < kBins; ++i)
      out += zeros_[i];
    return out;
  }
  // What the zeros cost, in squares: 0 if the smallest were taken, 1 if any were. More than 1: the largest were.
  double excess() const {
    int64_t left = std::accumulate(zeros_.begin(), zeros_.end(), int64_t{0});
    double least = 0, total = 0, count = 0;
    const auto zeros = static_cast<double>(left);
    for (const Bin& b : all_) {
      const int64_t taken = std::min(left, b.count);
      if (b.count > 0) least += b.squares * static_cast<double>(taken) / static_cast<double>(b.count);
      left -= taken;
      total += b.squares;
      count += static_cast<double>(b.count);
    }
    const double any = count > 0 ? total * zeros / count : 0;
    return any > least ? (lost_ - least) / (any - least) : 0;
  }
  const Stray& largest() const { return largest_; }
  double least_kept() const { return least_kept_; }

 private:
  static constexpr size_t kBins = 512, kPerOctave = 8;
  static size_t bin(double size) {
    if (size <= 0) return 0;
    const double at = (std::log2(size) + 40) * static_cast<double>(kPerOctave);
    return static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(kBins - 1)));
  }

  struct Bin {
    int64_t count = 0;
    double squares = 0;

    void add(double size) {
      ++count;
      squares += size * size;
    }
  };

  std::array<int64_t, kBins> zeros_{};  // by magnitude
  std::array<Bin, kBins> all_{};
  double lost_ = 0;  // squares of what was set to zero
  double least_kept_ = INFINITY;
  Stray largest_;
};

}  // namespace anemone
