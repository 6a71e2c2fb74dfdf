// Sizes of plain shapes, with overflow checked: files may claim anything.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace anemone {

// The product of the dimensions; throws Error when one is negative or the product passes 2^62.
int64_t element_count(std::span<const int64_t> shape);
// Bytes of `count` packed elements of `bits` each, rounded up; throws Error on overflow.
uint64_t packed_bytes(int64_t count, int bits);
// "[1, 64, 1, 8]".
std::string shape_text(std::span<const int64_t> shape);

// Calls f(offset) for every element, the last dimension fastest; strides in elements. Once for no dimensions.
template <class F>
void for_each_offset(std::span<const int64_t> shape, std::span<const int64_t> strides, F f) {
  std::vector<int64_t> at(shape.size());
  int64_t offset = 0;
  for (int64_t left = element_count(shape); left > 0; --left) {
    f(offset);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++at[d] < shape[d]) break;
      offset -= at[d] * strides[d];
      at[d] = 0;
    }
  }
}

}  // namespace anemone
