// Sizes of plain shapes, with overflow checked: files may claim anything.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace anemone {

// The product of the dimensions; throws Error when one is negative or the product passes 2^62.
int64_t element_count(std::span<const int64_t> shape);
// Bytes of `count` packed elements of `bits` each, rounded up; throws Error on overflow.
uint64_t packed_bytes(int64_t count, int bits);
// "[1, 64, 1, 8]".
std::string shape_text(std::span<const int64_t> shape);

}  // namespace anemone
