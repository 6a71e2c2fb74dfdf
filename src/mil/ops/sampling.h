// Where the points of a resized grid lie in the original: the sampling modes that resize and crop_resize
// share.
//     Sampling mode = sampling_of("DEFAULT");
//     double at = grid_point(mode, 2, 5, 1);     // the second of five points over two pixels: 0.4
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace anemone::ops {

enum class Sampling { strict_align_corners, align_corners, standard, offset_corners, unalign_corners };

inline Sampling sampling_of(std::string_view name) {
  if (name == "STRICT_ALIGN_CORNERS") return Sampling::strict_align_corners;
  if (name == "ALIGN_CORNERS") return Sampling::align_corners;
  if (name == "DEFAULT") return Sampling::standard;
  if (name == "OFFSET_CORNERS") return Sampling::offset_corners;
  if (name == "UNALIGN_CORNERS") return Sampling::unalign_corners;
  throw errorf("unknown sampling_mode '{}'", name)
      .expected("STRICT_ALIGN_CORNERS, ALIGN_CORNERS, DEFAULT, OFFSET_CORNERS or UNALIGN_CORNERS");
}

// Point i of `out` points over `in` pixels, whose centres are at 0 … in-1. `in` need not be whole: a box of
// an image.
inline double grid_point(Sampling mode, double in, int64_t out, int64_t i) {
  const auto n = static_cast<double>(out), k = static_cast<double>(i);
  double at = 0;
  switch (mode) {
    case Sampling::strict_align_corners: at = out == 1 ? 0 : k * (in - 1) / (n - 1); break;
    case Sampling::align_corners: at = out == 1 ? (in - 1) / 2 : k * (in - 1) / (n - 1); break;
    case Sampling::standard: at = k * in / n; break;
    case Sampling::offset_corners: at = (k + 0.5) * std::max(1.0, in - 1) / n; break;
    case Sampling::unalign_corners: at = (k + 0.5) * in / n - 0.5; break;
  }
  return std::min(std::max(at, 0.0), std::max(in - 1, 0.0));
}

// Between two neighbouring pixels: low * (1 - weight) + high * weight.
struct Tap {
  int64_t low = 0, high = 0;
  float weight = 0;
};

// The tap at a point that lies in [0, size - 1].
inline Tap tap_at(double at, int64_t size) {
  const int64_t low = std::clamp<int64_t>(static_cast<int64_t>(at), 0, size - 1);
  return {low, std::min(low + 1, size - 1), static_cast<float>(at - static_cast<double>(low))};
}

}  // namespace anemone::ops
