#include "mil/stored_mask.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace anemone {

MaskBits::MaskBits(std::shared_ptr<const StoredTensor> mask, int64_t count_bits)
    : mask_(std::move(mask)), size_(count_bits) {
  const StoredTensor::Layout layout = mask_->layout();
  const int64_t have = mask_->type().size();
  if (layout.dtype == DType::uint1 && !layout.indices() && !layout.scale && have == size_) {
    bits_ = layout.data;
  } else if (layout.dtype == DType::uint8 && !layout.indices() && !layout.scale && have == (size_ + 7) / 8) {
    bits_ = layout.data;
  } else {
    if (have != size_) throw errorf("a mask has {} bits", have).expected(fmt::format("{}", size_));
    packed_.resize(static_cast<size_t>((size_ + 7) / 8));
    int32_t values[kBlock];
    for (int64_t begin = 0; begin < size_; begin += kBlock) {
      const int64_t end = std::min(size_, begin + kBlock);
      mask_->read(begin, end, values);
      for (int64_t i = begin; i < end; ++i)
        if (values[i - begin]) packed_[static_cast<size_t>(i >> 3)] |= std::byte{1} << (i & 7);
    }
    bits_ = packed_.data();
  }
  before_.reserve(static_cast<size_t>(size_ / kBlock + 2));
  before_.push_back(0);
  for (int64_t begin = 0; begin < size_; begin += kBlock)
    before_.push_back(before_.back() + count(begin, std::min(size_, begin + kBlock)));
}

int64_t MaskBits::count(int64_t begin, int64_t end) const {
  int64_t ones = 0, i = begin;
  for (; i + 64 <= end; i += 64) {
    uint64_t word;
    std::memcpy(&word, bits_ + (i >> 3), 8);
    ones += std::popcount(word);
  }
  for (; i < end; i += 8) {
    uint32_t byte = std::to_integer<uint32_t>(bits_[i >> 3]);
    if (end - i < 8) byte &= (1u << (end - i)) - 1;
    ones += std::popcount(byte);
  }
  return ones;
}

int64_t MaskBits::rank(int64_t i) const {
  const int64_t block = i / kBlock;
  return before_[static_cast<size_t>(block)] + count(block * kBlock, i);
}

int64_t MaskBits::position(int64_t rank) const {
  const auto after = std::upper_bound(before_.begin(), before_.end(), rank);
  const int64_t block = after - before_.begin() - 1;
  int64_t left = rank - before_[static_cast<size_t>(block)];
  int64_t i = block * kBlock;
  for (;; i += 8) {  // whole bytes that come before it
    const int ones = std::popcount(std::to_integer<uint32_t>(bits_[i >> 3]));
    if (ones > left) break;
    left -= ones;
  }
  for (;; ++i)
    if (bit(i) && left-- == 0) return i;
}

namespace {

class StoredBits : public StoredTensor {
 public:
  StoredBits(Type type, std::vector<std::byte> bits)
      : StoredTensor(std::move(type)), bits_(std::move(bits)) {}
  void read(int64_t begin, int64_t end, void* out) const override {
    auto* o = static_cast<int32_t*>(out);
    for (int64_t i = begin; i < end; ++i)
      *o++ = (std::to_integer<int32_t>(bits_[static_cast<size_t>(i >> 3)]) >> (i & 7)) & 1;
  }
  Layout layout() const override { return {.dtype = DType::uint1, .data = bits_.data()}; }

 private:
  std::vector<std::byte> bits_;
};

}  // namespace

std::shared_ptr<const StoredTensor> stored_bits(std::vector<int64_t> dims, std::vector<std::byte> bits) {
  return std::make_shared<StoredBits>(Type::tensor(DType::uint1, dims), std::move(bits));
}

}  // namespace anemone
