// Weights of a described model, decoded as they are used: a tile of rows at a time, so that memory does not
// grow with the model.
//     ReferenceWeights weights(source, pool);
//     weights.multiply(layer.q, x, tokens, q);          // q[t] = W x[t]
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "families/model.h"

namespace anemone {

// Where the numbers come from: the checkpoint, or what was made of it. Safe from any thread.
class ReferenceSource {
 public:
  virtual ~ReferenceSource() = default;
  // Rows [begin, end) of a weight in the order of the model, `columns` floats each.
  virtual void read(const WeightRef& ref, int64_t begin, int64_t end, std::span<float> out) const = 0;
  // One row of a table that tokens, positions or types are looked up in. A tied head has the same tensor, and may be
  // stored apart.
  virtual void read_table(const WeightRef& ref, int64_t row, std::span<float> out) const = 0;
};

class ReferenceCheckpoint : public ReferenceSource {
 public:
  explicit ReferenceCheckpoint(std::shared_ptr<const Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {}

  void read(const WeightRef& ref, int64_t begin, int64_t end, std::span<float> out) const override;
  void read_table(const WeightRef& ref, int64_t row, std::span<float> out) const override;

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
};

class ReferenceWeights {
 public:
  ReferenceWeights(const ReferenceSource& source, ThreadPool& pool) : source_(source), pool_(pool) {}

  // All of a vector (a norm, a bias), in the order of the model.
  std::vector<float> vector(const WeightRef& ref) const;
  // All of a small matrix, row by row.
  std::vector<float> matrix(const WeightRef& ref) const;
  // One row of a table, `columns` long.
  void table_row(const WeightRef& ref, int64_t row, std::span<float> out) const {
    source_.read_table(ref, row, out);
  }
  // y[t][r] = sum over c of w[r][c] * x[t][c], for all rows of the weight; x and y are dense.
  void multiply(const WeightRef& ref, const float* x, int64_t tokens, float* y) const;
  // The largest magnitude that any of those sums has on its way, terms added in the order of the columns.
  float largest_running_sum(const WeightRef& ref, const float* x, int64_t tokens) const;

 private:
  // Calls visit(first, last, rows) for tiles of decoded rows, on all threads.
  void each_tile(const WeightRef& ref,
                 const std::function<void(int64_t first, int64_t last, const float* rows)>& visit) const;

  const ReferenceSource& source_;
  ThreadPool& pool_;
};

}  // namespace anemone
