// StretchLoss: how much each stretch of a weight's rows loses, so that one that is lost stands out.
//     loss.set(row, errors, squares, columns);
//     std::optional<StretchLoss::Lost> lost = loss.worst();
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace anemone {

inline constexpr int64_t kStretch = 64;  // columns that are judged together

// What stretches of a weight lose, each as a part of what it could lose: of its own mean square, or its row's where
// that is larger.
class StretchLoss {
 public:
  StretchLoss(int64_t rows, int64_t columns)
      : per_row_((columns + kStretch - 1) / kStretch), loss_(static_cast<size_t>(rows * per_row_)) {}

  // `errors` and `squares`: sums over each stretch of the row.
  void set(int64_t row, std::span<const double> errors, std::span<const double> squares, int64_t columns) {
    const double mean = std::accumulate(squares.begin(), squares.end(), 0.0) / static_cast<double>(columns);
    for (int64_t i = 0; i < per_row_; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto n = static_cast<double>(std::min(kStretch, columns - i * kStretch));
      const double size = std::max(mean, squares[at] / n);
      loss_[static_cast<size_t>(row * per_row_ + i)] =
          size > 0 ? static_cast<float>(errors[at] / n / size) : 0.0f;
    }
  }

  // A stretch that is lost, while others are not: its row and first column.
  struct Lost {
    int64_t row, column;
    double loss, median;
  };
  std::optional<Lost> worst() const {
    if (loss_.empty()) return std::nullopt;
    std::vector<float> sorted = loss_;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    const auto most = std::max_element(loss_.begin(), loss_.end());
    const int64_t at = most - loss_.begin();
    return Lost{at / per_row_, at % per_row_ * kStretch, static_cast<double>(*most),
                static_cast<double>(*middle)};
  }

 private:
  int64_t per_row_;
  std::vector<float> loss_;
};

}  // namespace anemone
