// PackedProduct: a stored weight of rows x k times columns that are packed once for all threads: what convolutions and
// `linear` over many positions are made of.
//     const PackedProduct product(stored, rows, k);
//     product.run(pool, columns, pack, store);
// A row of the weight is widened a piece at a time; the columns go through in blocks that stay in the second cache.
// Sums run in an order that depends on k alone.
#pragma once

#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "engine/weight_rows.h"
#include "kernels/gemm.h"

namespace anemone {

class PackedProduct {
 public:
  // Rows [from, from + depth) of columns [first, first + count), packed by pack_columns.
  using Pack = std::function<void(int64_t from, int64_t depth, int64_t first, int64_t count, float* packed)>;
  // Results of rows [row, row + rows) at columns [first, first + count), `stride` apart from row to row; scales are
  // applied.
  using Store = std::function<void(int64_t row, int64_t rows, int64_t first, int64_t count,
                                   const float* results, int64_t stride)>;

  PackedProduct(std::shared_ptr<const StoredTensor> weight, int64_t rows, int64_t k);

  void run(ThreadPool& pool, int64_t columns, const Pack& pack, const Store& store) const;

 private:
  void multiply(int64_t row, int64_t rows, const float* packed, int64_t count, float* tile, float* wide,
                WeightRows::Room& room) const;

  WeightRows weight_;
  int64_t k_;
  const float* floats_ = nullptr;  // the weight, where it is stored as fp32
};

}  // namespace anemone
