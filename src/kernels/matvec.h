// Matrix times a few vectors, with the matrix as it is stored: what decoding a token is made of.
//     matvec(WeightKind::fp16, w, rows, k, x, 1, out);       // out[t * rows + r] = sum over i of w[r][i] *
//     x[t * k + i]
// Memory-bound for one vector. Sums run in an order that depends on k alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anemone {

enum class WeightKind { fp32, fp16, int8 };

inline constexpr int64_t kMostVectors = 4;  // at once; call again for more

// rows x k weights, row-major, at any address. x: `vectors` of k floats; out: `vectors` of floats,
// `out_stride` apart.
void matvec(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
            int64_t vectors, float* out, int64_t out_stride) noexcept;

// `count` weights as floats: what a matrix product of many vectors starts from.
void widen(WeightKind kind, const std::byte* weights, int64_t count, float* out) noexcept;

// The plain twin.
void matvec_plain(WeightKind kind, const std::byte* weights, int64_t rows, int64_t k, const float* x,
                  int64_t vectors, float* out, int64_t out_stride) noexcept;

}  // namespace anemone
