// Changes of stored numbers, by their element type, in place.
//     negate(bytes, {begin, end}, DType::fp16);
#pragma once

#include <cstddef>
#include <string>

#include "anemone/array.h"
#include "mutation/rng.h"

namespace anemone::mutation {

struct ByteRange {
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }
};

void zero(std::string& bytes, ByteRange range);
// The negative of each number; the inverse of each code, where the elements are indices.
void negate(std::string& bytes, ByteRange range, DType dtype);
// False where the type is not a floating one.
bool scale(std::string& bytes, ByteRange range, DType dtype, float factor);
// Two ranges of one size.
void swap_ranges(std::string& bytes, ByteRange a, ByteRange b);
// The content moves on by so many bytes; what leaves at the end comes in at the beginning.
void turn(std::string& bytes, ByteRange range, size_t by);
void flip_bit(std::string& bytes, size_t byte, int bit);
// The bits of one element that matter: sign, exponent or the top of the mantissa.
int high_bit(DType dtype, Rng& rng);

}  // namespace anemone::mutation
