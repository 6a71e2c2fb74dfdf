// MaskBits: the bits of a sparse weight's mask, with the number of ones before any position at hand.
//     MaskBits mask(stored, elements);
//     int64_t first = mask.rank(begin);                // where the values of [begin, …) start among the
//     stored ones
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mil/stored.h"

namespace anemone {

class MaskBits {
 public:
  // The first `count` bits of a uint1 tensor, or of uint8 bytes that hold eight each (lowest first). The bits
  // are used where they lie; beside them there is one count per 512.
  MaskBits(std::shared_ptr<const StoredTensor> mask, int64_t count);
  MaskBits(MaskBits&&) = default;

  int64_t size() const { return size_; }
  int64_t ones() const { return before_.back(); }
  bool bit(int64_t i) const { return (std::to_integer<uint32_t>(bits_[i >> 3]) >> (i & 7)) & 1; }
  // Ones among the bits [0, i).
  int64_t rank(int64_t i) const;
  // The position of the one that has `rank` ones before it; rank < ones().
  int64_t position(int64_t rank) const;

 private:
  static constexpr int64_t kBlock = 512;
  int64_t count(int64_t begin, int64_t end) const;  // ones; begin: a multiple of 8

  std::shared_ptr<const StoredTensor> mask_;
  std::vector<std::byte> packed_;  // of a mask that does not lie in memory as bits
  const std::byte* bits_ = nullptr;
  int64_t size_;
  std::vector<int64_t> before_;  // ones before each block, and in all
};

// A uint1 tensor over bits of its own.
std::shared_ptr<const StoredTensor> stored_bits(std::vector<int64_t> dims, std::vector<std::byte> bits);

}  // namespace anemone
