// A stored weight of rows x k as the kernels of `fast` arithmetic take it. Tables become integers once, when a plan
// is made; the codes stay where they lie.
//     if (auto weight = FastWeight::make(stored->layout(), rows, k)) {
//       weight->prepare(first, count, room);
//       weight->by_side(first, count, [&](int64_t from, int64_t some, bool fine) {
//         fast_matvec(weight->kind(), weight->block(), fine, room.rows + from, some, …);
//       });
//     }
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/fast.h"
#include "mil/stored.h"

namespace anemone {

class FastWeight {
 public:
  static constexpr int64_t kMost = 64;   // rows that are prepared at a time
  static constexpr int64_t kAlike = 16;  // rows that take the same side of their tables

  struct Room {
    FastRow rows[kMost];
    std::vector<float> values;  // tables or scales that are read when they are needed
    std::vector<std::byte> tables;
  };

  // None: the layout, or a value in it, is nothing for these kernels.
  static std::optional<FastWeight> make(const StoredTensor::Layout& layout, int64_t rows, int64_t k);

  FastKind kind() const { return kind_; }
  int64_t block() const { return layout_.columns_per_scale; }
  void prepare(int64_t first, int64_t count, Room& room) const;

  // The coarse side of a table that is wide would cost too much. f(from, some, fine) for the rows [first + from,
  // + some) of those asked for that take the same side.
  template <class F>
  void by_side(int64_t first, int64_t count, F f) const {
    for (int64_t from = 0, end = 0; from < count; from = end) {
      const bool fine = takes_fine(first + from);
      do end = ((first + end) / kAlike + 1) * kAlike - first;
      while (end < count && takes_fine(first + end) == fine);
      f(from, std::min(end, count) - from, fine);
    }
  }
  bool any_fine() const { return std::find(fine_.begin(), fine_.end(), true) != fine_.end(); }

 private:
  FastWeight(const StoredTensor::Layout& layout, int64_t k, FastKind kind)
      : layout_(layout), k_(k), kind_(kind) {}
  bool make_tables(int64_t rows);
  bool takes_fine(int64_t row) const { return !fine_.empty() && fine_[static_cast<size_t>(row / kAlike)]; }
  void read_tables(int64_t first, int64_t count, Room& room) const;
  void prepare_tables(int64_t first, int64_t count, Room& room) const;
  void prepare_numbers(int64_t first, int64_t count, Room& room) const;

  StoredTensor::Layout layout_;
  int64_t k_;
  FastKind kind_;
  std::vector<bool> fine_;  // for every kAlike rows; empty: no tables
  std::vector<std::byte> tables_;
  std::vector<FastScales> scales_;  // of the tables
};

}  // namespace anemone
