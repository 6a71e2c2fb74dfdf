// Rows of a weight on their way from the checkpoint into a file: as halves, or as int8 with a scale per row or one for
// all. Tables of embeddings and the weights of packages are made by these.
//     CheckpointRows rows(checkpoint.tensor(ref.tensor), ref);
//     rows.halves(0, 64, out);
//     Int8Rows int8(rows, {.per_row = true, .half = true});
//     int8.prepare(pool);
//     int8.quantize(0, 64, out);  int8.scale(0);
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "families/weight_ref.h"

namespace anemone {

class ThreadPool;

// Rows in the model's order, all values times `factor`. Safe from any thread. The tensor must outlive it.
class CheckpointRows {
 public:
  CheckpointRows(const TensorReader& tensor, WeightRef ref, double factor = 1)
      : tensor_(tensor), ref_(std::move(ref)), factor_(static_cast<float>(factor)) {}

  int64_t rows() const { return ref_.rows(); }
  int64_t columns() const { return ref_.columns; }

  // Error, naming the tensor, if a value is not finite or outside the range of fp16, in which the device computes.
  void halves(int64_t begin, int64_t end, uint16_t* out) const;
  // Calls visit(row, values, largest magnitude) for each row. The same errors.
  template <class Visit>
  void each(int64_t begin, int64_t end, const Visit& visit) const {
    std::vector<float> tile;
    for (int64_t r = begin; r < end; r += kTile) {
      const int64_t stop = r + kTile < end ? r + kTile : end;
      read(r, stop, tile);
      for (int64_t i = r; i < stop; ++i) {
        const float* values = tile.data() + (i - r) * columns();
        visit(i, values, checked_largest(values, columns()));
      }
    }
  }
  // These rows are done. Their pages go back: a hint, since paired rows lie elsewhere in the same heads, and pages that
  // are read again come again.
  void release(int64_t begin, int64_t end) const noexcept { release_rows(tensor_, ref_, begin, end); }

 private:
  static constexpr int64_t kTile = 64;  // rows decoded at once

  void read(int64_t begin, int64_t end, std::vector<float>& out) const;
  float checked_largest(const float* values, int64_t count) const;

  const TensorReader& tensor_;
  WeightRef ref_;
  float factor_;
};

// Integers and scales of one weight. A scale per row is found when its row is quantised, so the checkpoint is read
// once; one for the whole weight needs a pass of its own. Safe from any thread after prepare().
class Int8Rows {
 public:
  struct Scales {
    bool per_row = true;
    bool half = true;  // rounded as they are stored in a package; or as floats
  };
  Int8Rows(CheckpointRows rows, Scales scales);

  const CheckpointRows& rows() const { return rows_; }
  int64_t scales() const { return static_cast<int64_t>(scales_.size()); }
  // The pass for one scale; nothing else needs it.
  void prepare(ThreadPool& pool);
  void quantize(int64_t begin, int64_t end, int8_t* out);
  // Found before where the row was quantised already; `row` is 0 where there is one scale.
  float scale(int64_t row);

 private:
  CheckpointRows rows_;
  Scales how_;
  std::vector<std::atomic<float>> scales_;  // 0: not known yet; two readers may find the same one at once
};

}  // namespace anemone
