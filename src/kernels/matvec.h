// Matrix times a few vectors, with the matrix as it is stored: what decoding a token is made of.
//     matvec(WeightKind::fp16, w, rows, k, x, 1, out);       // out[t * rows + r] = sum over i of w[r][i] *
//     x[t * k + i]
// Memory-bound for one vector. Sums run in an order that depends on k alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anemone {

enum class WeightKind { fp32, fp16, int8 };

inline constexpr int64_t kMostVectors = 4;  // at once; call again for more

// rows x k weights, row-major, at any address. x: `vectors` of k floats; out: `vectors` of floats,
// `out_stride` apart.
void matvec(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
            int64_t vectors, float* out, int64_t out_stride) noexcept;

// `count` weights as floats: what a matrix product of many vectors starts from.
void widen(WeightKind kind, const std::byte* weights, int64_t count, float* out) noexcept;

// Weights of 1, 2, 4 or 8 bits that stand for the values of a table (a palette, or small integers): what each
// byte of them stands for, so that bytes become floats by copying.
//     PackedTable table;   table.fill(4, lut);   table.widen(packed, count, out);
class PackedTable {
 public:
  void fill(int bits, const float* values);  // 2^bits of them
  // From a whole byte on, element 0 in its lowest bits.
  void widen(const std::byte* packed, int64_t count, float* out) const noexcept;

 private:
  int64_t per_byte_ = 1;
  std::vector<float> floats_;  // 256 times per_byte_
};

// The plain twin.
void matvec_plain(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
                  int64_t vectors, float* out, int64_t out_stride) noexcept;

}  // namespace anemone
