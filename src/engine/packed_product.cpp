#include "engine/packed_product.h"

#include <algorithm>
#include <vector>

namespace anemone {
namespace {

constexpr int64_t kTileRows = 24;     // of the weight that are widened together
constexpr int64_t kColumns = 256;     // of a block, a multiple of every panel's
constexpr int64_t kPacked = 1 << 21;  // floats that are packed at a time: 8 MiB

}  // namespace

PackedProduct::PackedProduct(std::shared_ptr<const StoredTensor> weight, int64_t rows, int64_t k)
    : weight_(weight, rows, k), k_(k) {
  const StoredTensor::Layout layout = weight->layout();
  const bool plain = layout.dtype == DType::fp32 && !layout.scale && !layout.offset && !layout.indices();
  if (plain && reinterpret_cast<uintptr_t>(layout.data) % sizeof(float) == 0)
    floats_ = static_cast<const float*>(static_cast<const void*>(layout.data));
}

// tile[r][c] for all columns of a block.
void PackedProduct::multiply(int64_t row, int64_t rows, const float* packed, int64_t count, float* tile,
                             float* wide, WeightRows::Room& room) const {
  weight_.prepare(row, rows, room);
  for (int64_t from = 0; from < k_; from += kGemmDepth) {
    const int64_t depth = std::min(kGemmDepth, k_ - from);
    const float* piece = packed + packed_size(count, from);
    if (floats_) {
      gemm_packed(rows, count, depth, floats_ + row * k_ + from, k_, piece, tile, kColumns, from > 0);
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) {
      weight_.widen(room, r, from, depth, wide + r * depth);
      weight_.fetch(row + r + kTileRows, from, depth);
    }
    gemm_packed(rows, count, depth, wide, depth, piece, tile, kColumns, from > 0);
  }
  for (int64_t r = 0; r < rows && weight_.scaled(); ++r) {
    const float scale = weight_.scale(row + r);
    for (int64_t c = 0; c < count; ++c) tile[r * kColumns + c] *= scale;
  }
}

void PackedProduct::run(ThreadPool& pool, int64_t columns, const Pack& pack, const Store& store) const {
  // As many whole blocks at a time as fit.
  const int64_t block_floats = packed_size(kColumns, k_);
  const int64_t at_a_time = std::max<int64_t>(1, kPacked / block_floats);
  const int64_t depths = (k_ + kGemmDepth - 1) / kGemmDepth;
  const int64_t row_tiles = (weight_.rows() + kTileRows - 1) / kTileRows;
  thread_local std::vector<float> packed;
  const int64_t all_blocks = (columns + kColumns - 1) / kColumns;
  packed.resize(static_cast<size_t>(std::min(at_a_time, all_blocks) * block_floats));
  float* const room = packed.data();
  for (int64_t first = 0; first < all_blocks; first += at_a_time) {
    const int64_t blocks = std::min(at_a_time, all_blocks - first);
    const auto block_columns = [&](int64_t b) {
      return std::min(kColumns, columns - (first + b) * kColumns);
    };
    pool.parallel_for(blocks * depths, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t b = unit / depths, from = unit % depths * kGemmDepth,
                      depth = std::min(kGemmDepth, k_ - from);
        const int64_t count = block_columns(b);
        float* to = room + b * block_floats + packed_size(count, from);
        pack(from, depth, (first + b) * kColumns, count, to);
      }
    });
    pool.parallel_for(blocks * row_tiles, 1, [&](int64_t begin, int64_t end) {
      WeightRows::Room rows_room;
      std::vector<float> wide(static_cast<size_t>(kTileRows * kGemmDepth)),
          tile(static_cast<size_t>(kTileRows * kColumns));
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t b = unit / row_tiles, row = unit % row_tiles * kTileRows;
        const int64_t rows = std::min(kTileRows, weight_.rows() - row), count = block_columns(b);
        multiply(row, rows, room + b * block_floats, count, tile.data(), wide.data(), rows_room);
        store(row, rows, (first + b) * kColumns, count, tile.data(), kColumns);
      }
    });
  }
}

}  // namespace anemone
