// A stored weight of rows x k, as the kernels of a projection take it: its rows with their tables and offsets, or
// any piece of a row as floats.
//     const WeightRows weight(stored, rows, k);
//     WeightRows::Room room;   weight.prepare(row, count, room);
//     weight.widen(room, i, from, columns, out);      // of row `row + i`
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/matvec.h"
#include "mil/stored.h"

namespace anemone {

class WeightRows {
 public:
  static constexpr int64_t kMost = 64;  // rows that are prepared at a time

  // What one thread needs for the rows that it works on.
  struct Room {
    int64_t first = 0;
    WeightRow rows[kMost];  // left as they are where a row needs nothing beside it
    std::vector<float> tables, scales;
    const float* block_scale = nullptr;  // from that of row `first` on
  };

  WeightRows(std::shared_ptr<const StoredTensor> stored, int64_t rows, int64_t k);

  int64_t rows() const { return rows_; }
  // matvec takes the rows as they are; then, and where it says so, the scale of a row is left to the caller.
  bool in_place() const { return kind_ && layout_.columns_per_scale == 0; }
  bool scaled() const { return in_place() && layout_.scale; }
  float scale(int64_t row) const { return layout_.scale[row / layout_.rows_per_scale]; }
  const float* row_scales() const {
    return scaled() && layout_.rows_per_scale == 1 ? layout_.scale.floats() : nullptr;
  }

  // multiply() and widen() give the same for both, though they may be two functions' weights.
  bool same(const WeightRows& other) const;

  void prepare(int64_t first, int64_t count, Room& room) const;
  // in_place(): the rows that were prepared times `vectors` of k floats.
  void multiply(const Room& room, int64_t count, const float* x, int64_t vectors, float* out,
                int64_t out_stride) const;
  // Columns [from, from + count) of prepared row i; `from` is a multiple of 8.
  void widen(const Room& room, int64_t i, int64_t from, int64_t count, float* out) const;
  // Asks the memory for a piece of a row that comes later, while another is multiplied: pieces are too short for
  // the processor to see a stream.
  void fetch(int64_t row, int64_t from, int64_t count) const;

 private:
  std::optional<WeightKind> find_kind() const;
  bool numbers() const { return *kind_ <= WeightKind::int8; }  // rows that need nothing beside them
  void prepare_integers(int64_t first, int64_t count, Room& room) const;

  std::shared_ptr<const StoredTensor> stored_;
  StoredTensor::Layout layout_;
  int64_t rows_, k_;
  std::optional<WeightKind> kind_;  // none: by read()
  const std::byte* end_ = nullptr;
};

}  // namespace anemone
