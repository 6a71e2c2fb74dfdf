// A stored weight of rows x k as the kernels of `fast` arithmetic take it. Tables become integers once, when a plan
// is made; the codes stay where they lie.
//     if (auto weight = FastWeight::make(stored->layout(), rows, k))
//       weight->prepare(first, count, room), fast_matvec(weight->kind(), weight->block(), weight->fine(), …);
#pragma once

#include <optional>
#include <vector>

#include "kernels/fast.h"
#include "mil/stored.h"

namespace anemone {

class FastWeight {
 public:
  static constexpr int64_t kMost = 64;  // rows that are prepared at a time

  struct Room {
    FastRow rows[kMost];
    std::vector<float> values;  // tables that are read when they are needed
    std::vector<std::byte> tables;
  };

  // None: the layout, or a value in it, is nothing for these kernels.
  static std::optional<FastWeight> make(const StoredTensor::Layout& layout, int64_t rows, int64_t k);

  FastKind kind() const { return kind_; }
  int64_t block() const { return layout_.columns_per_scale; }
  bool fine() const { return fine_; }  // the coarse side of its tables would cost too much
  void prepare(int64_t first, int64_t count, Room& room) const;

 private:
  FastWeight(const StoredTensor::Layout& layout, int64_t k, FastKind kind)
      : layout_(layout), k_(k), kind_(kind) {}
  bool is_table() const { return kind_ >= FastKind::table1 && kind_ <= FastKind::table8; }
  bool make_tables(int64_t rows);
  void read_tables(int64_t first, int64_t count, Room& room) const;
  void prepare_tables(int64_t first, int64_t count, Room& room) const;
  void prepare_numbers(int64_t first, int64_t count, Room& room) const;

  StoredTensor::Layout layout_;
  int64_t k_;
  FastKind kind_;
  bool fine_ = false;
  std::vector<std::byte> tables_;
  std::vector<FastScales> scales_;  // of the tables
};

}  // namespace anemone
