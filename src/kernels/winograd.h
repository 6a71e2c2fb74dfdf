// Winograd's convolution F(4 x 4, 3 x 3): 16 outputs of a tile from 36 products a channel, where sums over the kernel
// take 144. A tile of 6 x 6 inputs and a kernel of 3 x 3 are both turned into 36 elements; the products of elements are
// summed over the channels (a matrix product for each element) and turned into 4 x 4 outputs.
//     winograd_weight(kernel, u, stride);                     // once for each pair of channels
//     winograd_input(patches, width, v, stride);              // for each input channel
//     fine = winograd_output(sums, stride, tiles, end, out);  // for each output channel
// The points are 0, ±3/4, ±3/2 and infinity, chosen by experiment: over 18 layers the error is 1.2 times that of plain
// sums in fp32 (points ±1, ±2: 2.5 times). All factors are exact in fp32.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm.h"

namespace anemone {

inline constexpr int64_t kWinogradTile = 4, kWinogradSide = 6, kWinogradElements = 36;

// The 36 elements of a kernel of 3 x 3, `stride` apart.
void winograd_weight(const float* kernel, float* out, int64_t stride) noexcept;

// The elements of `width` tiles (a multiple of a vector's floats): input i of tile t is patches[i * width + t]; element
// e goes to out[e * stride + t].
void winograd_input(const float* patches, int64_t width, float* out, int64_t stride) noexcept;

// Neighbouring tiles of one row of tiles, among those of a vector: where their outputs go, and how much of them is
// there.
struct WinogradStretch {
  int64_t tile, rows, columns, offset;
};

// As many tiles as a vector has floats: element e of tile t is sums[e * stride + t]. Gives false where an output is not
// finite: such a value spreads over its tile, which plain sums do not do.
bool winograd_output(const float* sums, int64_t stride, std::span<const WinogradStretch> stretches,
                     int64_t out_width, const GemmEnd& end, float* out) noexcept;

// The plain twins: one tile, in doubles.
void winograd_input_plain(const float* patches, int64_t width, float* out, int64_t stride) noexcept;
void winograd_output_plain(const float* sums, int64_t stride, float* out) noexcept;  // 4 x 4

}  // namespace anemone
