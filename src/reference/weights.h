// Weights of a described model, decoded as they are used: a tile of rows at a time, so that memory does not
// grow with the model.
//     ReferenceWeights weights(checkpoint, pool);
//     weights.multiply(layer.q, x, tokens, q);          // q[t] = W x[t]
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "families/model.h"

namespace anemone {

class ReferenceWeights {
 public:
  ReferenceWeights(const Checkpoint& checkpoint, ThreadPool& pool) : checkpoint_(checkpoint), pool_(pool) {}

  // All of a vector (a norm, a bias), in the order of the model.
  std::vector<float> vector(const WeightRef& ref) const;
  // All of a small matrix, row by row.
  std::vector<float> matrix(const WeightRef& ref) const;
  // One row of a matrix, `columns` long.
  void row(const WeightRef& ref, int64_t row, std::span<float> out) const;
  // y[t][r] = sum over c of w[r][c] * x[t][c], for all rows of the weight; x and y are dense.
  void multiply(const WeightRef& ref, const float* x, int64_t tokens, float* y) const;
  // The largest magnitude that any of those sums has on its way, terms added in the order of the columns.
  float largest_running_sum(const WeightRef& ref, const float* x, int64_t tokens) const;

 private:
  // Calls visit(first, last, rows) for tiles of decoded rows, on all threads.
  void each_tile(const WeightRef& ref,
                 const std::function<void(int64_t first, int64_t last, const float* rows)>& visit) const;

  const Checkpoint& checkpoint_;
  ThreadPool& pool_;
};

}  // namespace anemone
