#include "engine/packed_product.h"

#include <algorithm>
#include <vector>

namespace anemone {
namespace {

// Tiles of the product that a thread takes at a time: rows of the weight by columns, a multiple of every panel's. Small
// enough to share work out evenly.
constexpr int64_t kRowsApart = PackedProduct::kMostRows, kColumnsApart = 96;
constexpr int64_t kRowsTogether = 24, kColumnsTogether = 64, kTilesPerThread = 8;
constexpr int64_t kMostColumns = kColumnsApart;
constexpr int64_t kApart = 96 << 10;  // floats that a thread packs for itself: 384 KiB of the second cache
constexpr int64_t kWeight =
    128 << 10;  // floats of a weight that go through the second cache once for each block
constexpr int64_t kTogether = 1 << 19;  // floats that are packed for all threads at once: 2 MiB

}  // namespace

PackedProduct::PackedProduct(std::shared_ptr<const StoredTensor> weight, int64_t rows, int64_t k)
    : weight_(weight, rows, k), k_(k) {
  const StoredTensor::Layout layout = weight->layout();
  const bool plain = layout.dtype == DType::fp32 && !layout.scale && !layout.offset && !layout.indices();
  if (plain && reinterpret_cast<uintptr_t>(layout.data) % sizeof(float) == 0)
    floats_ = static_cast<const float*>(static_cast<const void*>(layout.data));
  for (int64_t r = 0; r < rows && weight_.scaled(); ++r) scales_.push_back(weight_.scale(r));
}

void PackedProduct::multiply(const Tile& t, Tools& tools, float* out, int64_t stride, GemmEnd end) const {
  if (!scales_.empty()) end.scale = scales_.data() + t.row;
  float* wide = nullptr;
  if (!floats_) {
    weight_.prepare(t.row, t.rows, tools.room);
    wide = tools.wide.at_least(kMostRows * kGemmDepth);
  }
  for (int64_t from = 0; from < k_; from += kGemmDepth) {
    const int64_t depth = std::min(kGemmDepth, k_ - from);
    const float* rows = floats_ ? floats_ + t.row * k_ + from : wide;
    const bool last = from + depth == k_;
    const int64_t next = last ? 0 : from + depth;
    for (int64_t r = 0; r < t.rows; ++r) {
      if (!floats_) weight_.widen(tools.room, r, from, depth, wide + r * depth);
      if (t.first_time) weight_.fetch(t.row + r + (last ? t.rows : 0), next, std::min(kGemmDepth, k_ - next));
    }
    gemm_packed(t.rows, t.count, depth, rows, floats_ ? k_ : depth, t.packed + packed_size(t.count, from),
                out, stride, from > 0, last ? &end : nullptr);
  }
}

// Each thread packs some columns and goes through all rows with them, while they are in its second cache.
void PackedProduct::apart(ThreadPool& pool, int64_t columns, const Pack& pack, const Work& work) const {
  const int64_t panel = panel_columns(), rows = weight_.rows();
  const int64_t block = std::clamp(kApart / k_ / panel * panel, panel, kColumnsApart);
  pool.parallel_for((columns + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    thread_local FloatRoom room;
    float* const packed = room.at_least(packed_size(block, k_));
    thread_local Tools tools;
    for (int64_t first = begin * block; first < std::min(end * block, columns); first += block) {
      const int64_t count = std::min(block, columns - first);
      for (int64_t from = 0; from < k_; from += kGemmDepth)
        pack(from, std::min(kGemmDepth, k_ - from), first, count, packed + packed_size(count, from));
      for (int64_t row = 0; row < rows; row += kRowsApart)
        work({row, std::min(kRowsApart, rows - row), first, count, packed, first == begin * block}, tools);
    }
  });
}

// Few columns: all of them are packed, then the rows are shared out.
void PackedProduct::together(ThreadPool& pool, int64_t columns, const Pack& pack, const Work& work) const {
  const int64_t depths = (k_ + kGemmDepth - 1) / kGemmDepth, rows = weight_.rows();
  const int64_t blocks = (columns + kColumnsTogether - 1) / kColumnsTogether;
  // Half as high where there are so few that one more on one of the threads is much.
  const bool few = blocks * rows < kTilesPerThread * pool.threads() * kRowsTogether;
  const int64_t height = few ? kRowsTogether / 2 : kRowsTogether;
  const int64_t row_tiles = (rows + height - 1) / height;
  thread_local FloatRoom room;
  float* const all = room.at_least(packed_size(columns, k_));
  const auto count_of = [&](int64_t b) { return std::min(kColumnsTogether, columns - b * kColumnsTogether); };
  pool.parallel_for(blocks * depths, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t b = unit / depths, from = unit % depths * kGemmDepth;
      pack(from, std::min(kGemmDepth, k_ - from), b * kColumnsTogether, count_of(b),
           all + b * kColumnsTogether * k_ + packed_size(count_of(b), from));
    }
  });
  pool.parallel_for(blocks * row_tiles, 1, [&](int64_t begin, int64_t end) {
    thread_local Tools tools;
    for (int64_t unit = begin; unit < end; ++unit) {
      // Block after block of columns for the same rows: these are read once.
      const int64_t b = unit % blocks, row = unit / blocks * height;
      work({row, std::min(height, rows - row), b * kColumnsTogether, count_of(b),
            all + b * kColumnsTogether * k_, b == 0},
           tools);
    }
  });
}

void PackedProduct::each_tile(ThreadPool& pool, int64_t columns, const Pack& pack, const Work& work) const {
  // Where every block goes through the whole weight, it must be small, or the columns too many for all at once.
  const bool many = columns >= 8 * kColumnsApart && weight_.rows() * k_ <= kWeight;
  many || packed_size(columns, k_) > kTogether ? apart(pool, columns, pack, work)
                                               : together(pool, columns, pack, work);
}

void PackedProduct::run(ThreadPool& pool, int64_t columns, const Pack& pack, const Store& store) const {
  each_tile(pool, columns, pack, [&](const Tile& t, Tools& tools) {
    float* const tile = tools.tile.at_least(kMostRows * kMostColumns);
    multiply(t, tools, tile, kMostColumns, {});
    store(t.row, t.rows, t.first, t.count, tile, kMostColumns);
  });
}

void PackedProduct::run(ThreadPool& pool, int64_t columns, const Pack& pack, const Rows& to) const {
  each_tile(pool, columns, pack, [&](const Tile& t, Tools& tools) {
    const int64_t offset = t.row * to.stride + t.first;
    float* out = to.out + offset;
    multiply(t, tools, out, to.stride, to.end.from(t.row, offset));
    for (int64_t r = 0; r < t.rows && to.map; ++r, out += to.stride) to.map(out, t.count, out);
  });
}

}  // namespace anemone
