// Weights for packages that only have to be large.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "mil/constant.h"

namespace anemone::bench {

// Bytes that are cheap to make and different for every tensor: int8 codes, or small halves.
class Noise : public WeightSource {
 public:
  Noise(Type type, uint64_t seed) : type_(std::move(type)), seed_(seed) {}
  const Type& type() const override { return type_; }
  void rows(int64_t begin, int64_t, std::span<std::byte> out) const override {
    uint64_t word = seed_ * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(begin) + 1;
    const uint64_t keep = type_.dtype == DType::fp16 ? 0x23ff23ff23ff23ffull : ~uint64_t{0};
    for (size_t i = 0; i + 8 <= out.size(); i += 8) {
      word ^= word << 13;
      word ^= word >> 7;
      word ^= word << 17;
      const uint64_t bytes = word & keep;
      std::copy_n(reinterpret_cast<const std::byte*>(&bytes), 8, out.data() + i);
    }
  }

 private:
  Type type_;
  uint64_t seed_;
};

}  // namespace anemone::bench
