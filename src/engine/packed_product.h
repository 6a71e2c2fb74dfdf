// PackedProduct: a stored weight of rows x k times columns that are packed for all rows: what convolutions and
// `linear` over many positions are made of.
//     const PackedProduct product(stored, rows, k);
//     product.run(pool, columns, pack, PackedProduct::Rows{out, columns, {.bias = bias, .low = 0}});
// A row of the weight is widened a piece at a time, unless it is stored as fp32. Sums run in an order that depends on k
// alone.
#pragma once

#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "engine/buffer.h"
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
  // Results lie as rows, `stride` apart, behind their end and a function of what comes out of it.
  struct Rows {
    float* out;
    int64_t stride;
    GemmEnd end;
    std::function<void(const float* x, int64_t n, float* out)> map = {};
  };

  // What a thread needs for a tile of rows.
  struct Tools {
    WeightRows::Room room;
    FloatRoom wide, tile;
  };
  // Rows [row, row + rows), kMostRows at most, and the packed columns [first, first + count).
  struct Tile {
    int64_t row, rows, first, count;
    const float* packed;
    bool first_time;  // that this thread multiplies these rows: those that come next are fetched
  };
  static constexpr int64_t kMostRows = 48;

  PackedProduct(std::shared_ptr<const StoredTensor> weight, int64_t rows, int64_t k);

  void run(ThreadPool& pool, int64_t columns, const Pack& pack, const Store& store) const;
  void run(ThreadPool& pool, int64_t columns, const Pack& pack, const Rows& to) const;
  // One tile on the calling thread; `out` and `end` begin at its first row and column.
  void multiply(const Tile& tile, Tools& tools, float* out, int64_t stride, GemmEnd end) const;

  int64_t rows() const { return weight_.rows(); }
  int64_t depth() const { return k_; }

 private:
  using Work = std::function<void(const Tile& tile, Tools& tools)>;

  void each_tile(ThreadPool& pool, int64_t columns, const Pack& pack, const Work& work) const;
  void apart(ThreadPool& pool, int64_t columns, const Pack& pack, const Work& work) const;
  void together(ThreadPool& pool, int64_t columns, const Pack& pack, const Work& work) const;

  WeightRows weight_;
  int64_t k_;
  const float* floats_ = nullptr;  // the weight, where it is stored as fp32
  std::vector<float> scales_;      // of the rows, where sums are to be scaled
};

}  // namespace anemone
