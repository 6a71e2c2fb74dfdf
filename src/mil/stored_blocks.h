// What compressed weights share: which block (scale, table) an element belongs to, and the small tables
// themselves.
//     Blocks blocks({32, 64}, {32, 2});                  // a scale for each row and each 32 columns
//     blocks.runs(begin, end, [&](int64_t b, int64_t e, int64_t block) { … });   // elements [b, e) share
//     `block`
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mil/stored.h"

namespace anemone {

class Blocks {
 public:
  // `parts`: how many blocks there are along each dimension; Error unless each divides its dimension.
  Blocks(std::span<const int64_t> dims, std::span<const int64_t> parts);

  int64_t count() const { return count_; }
  // A row is what belongs to one index of the first dimension. Where a row's blocks are stretches of one length:
  // how many rows share them; else 0. That length; 0 where a row is in one block.
  int64_t rows_per_block() const { return rows_per_block_; }
  int64_t columns_per_block() const { return columns_per_block_; }

  // Calls f(b, e, block) for the longest runs of elements, in row-major order, that share a block.
  template <class F>
  void runs(int64_t begin, int64_t end, F f) const {
    while (begin < end) {
      int64_t rest = begin, block = 0, length = 1;
      for (size_t i = axes_.size(); i-- > 0;) {
        const Axis& a = axes_[i];
        const int64_t at = rest % a.size;
        rest /= a.size;
        block += at / a.block * a.stride;
        if (i + 1 == axes_.size()) length = a.block - at % a.block;
      }
      const int64_t stop = std::min(end, begin + length);
      f(begin, stop, block);
      begin = stop;
    }
  }

 private:
  struct Axis {
    int64_t size, block, stride;  // stride: of the block numbers
  };
  std::vector<Axis> axes_;  // neighbours that act as one are joined
  int64_t count_ = 1, rows_per_block_ = 0, columns_per_block_ = 0;
};

// Scales, offsets or palettes: decoded once where they are few, read one by one where they are as many as the
// weights (a weight is never expanded whole, nor is what describes it).
class SideTable {
 public:
  // `elements`: of the weight that the table belongs to. `in_place`: halves in a file stay there.
  SideTable(std::shared_ptr<const StoredTensor> tensor, int64_t elements, bool in_place = false);
  // A table that is there already: 4-byte elements.
  explicit SideTable(std::vector<uint32_t> values) : decoded_(std::move(values)) {}

  // Element i, as its four bytes; as_float for a floating or integer table alike.
  uint32_t word(int64_t i) const {
    if (halves_) return std::bit_cast<uint32_t>(halves_[i]);
    return tensor_ ? read_one(i) : decoded_[static_cast<size_t>(i)];
  }
  // `count` elements from `begin`, in `room` unless they are decoded.
  const uint32_t* words(int64_t begin, int64_t count, uint32_t* room) const;
  const uint32_t* decoded() const { return tensor_ ? nullptr : decoded_.data(); }
  // Floats that are decoded, or halves in place.
  FloatView floats() const { return tensor_ ? halves_ : reinterpret_cast<const float*>(decoded_.data()); }
  const StoredTensor* stored() const { return tensor_.get(); }  // where it is not decoded

 private:
  uint32_t read_one(int64_t i) const;

  std::shared_ptr<const StoredTensor> tensor_;  // empty when decoded
  std::vector<uint32_t> decoded_;
  FloatView halves_;  // of the tensor
};

}  // namespace anemone
