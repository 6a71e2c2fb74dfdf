// Matrix times a few vectors, with the matrix as it is stored: what decoding a token is made of.
//     matvec(WeightKind::fp16, w, rows, k, x, 1, out, rows);       // out[r] = sum over i of w[r][i] * x[i]
// Memory-bound for one vector. Sums run in an order that depends on k and on where the weight ends alone: the bits of a
// vector do not depend on how many others are in the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anemone {

// Numbers as they are; bytes from which an offset is taken; and elements of 1 to 8 bits that stand for the
// values of a table (a palette, or integers of 4 bits), element 0 in the lowest bits of a row's first byte.
enum class WeightKind {
  fp32,
  fp16,
  int8,
  int8_shifted,
  uint8_shifted,
  table1,
  table2,
  table3,
  table4,
  table6,
  table8
};
int weight_bits(WeightKind kind);  // of an element

// A row of weights, at any address, and what its kind asks for beside it: its table (2^bits values), or its
// offset.
struct WeightRow {
  const std::byte* data;
  const float* beside;
};

inline constexpr int64_t kMostVectors = 4;  // at once; call again for more

// x: `vectors` of k floats; out: `vectors` of floats, `out_stride` apart. fp32, fp16 and int8, rows one after the
// other.
void matvec(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
            int64_t vectors, float* out, int64_t out_stride) noexcept;
// All other kinds, each row where it lies, in ascending order. `end`: of the memory that the weight is in, up to
// which a kernel may read more than it needs.
void matvec(WeightKind kind, const WeightRow* rows, int64_t count, const std::byte* end, int64_t k,
            const float* x, int64_t vectors, float* out, int64_t out_stride) noexcept;

// The first `count` weights of a row as floats: what a matrix product of many vectors starts from.
void widen(WeightKind kind, const WeightRow& row, const std::byte* end, int64_t count, float* out) noexcept;

// x[i] = scale[b] * (x[i] - offset[b]), b = (first + i) / block; offset may be empty.
void shift_and_scale(float* x, int64_t first, int64_t count, int64_t block, const float* scale,
                     const float* offset) noexcept;

// The plain twins.
void matvec_plain(WeightKind kind, const WeightRow* rows, int64_t count, int64_t k, const float* x,
                  int64_t vectors, float* out, int64_t out_stride) noexcept;
void widen_plain(WeightKind kind, const WeightRow& row, int64_t count, float* out) noexcept;

}  // namespace anemone
