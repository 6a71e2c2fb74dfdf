// Rates: the numbers inside Core ML's cost estimates, per platform, as data. Read from the segmenter's log and
// its annotated programs on an M4 (H16G, macOS 27.0.1); docs/check.md says how well they fit.
//     const Rates& r = rates_for("h16g");
//     r.conv[2].rate.ane;                              // 16151.7 Gflop/s: the fast leaf
// A platform that was read only in part borrows the rest from H16G; what is borrowed counts as extrapolated.
#pragma once

#include <array>
#include <string_view>

namespace anemone::placement {

// Work per second, in 1e9, on the two processors that a leaf names. BNNS takes 0.8694 of classic_cpu's time.
struct Rate {
  double ane = 0, classic = 0;
};
inline constexpr double kBnnsTime = 0.8694;

// A leaf of a cost tree with the work that was probed in it.
struct Leaf {
  Rate rate;
  double least = 0, most = 0;  // work, in the unit of the op: flops or twice the elements

  bool probed(double work) const { return work >= least && work <= most; }
};

// What was read on the platform itself; the rest is H16G's.
struct Read {
  bool conv_slow = false, conv = false, linear = false, matmul = false, elementwise = false, add = false,
       bandwidth = false;
};

struct Rates {
  std::string_view platform;
  Read read;
  // The default path: the larger of bytes over bandwidth and flops over peak.
  double ane_gib = 68, bnns_gib = 56.66666412353516, classic_gib = 56.66666412353516;  // GiB/s
  Rate peak{17200, 656};
  bool matmul_tree = false;  // matmul by a rate of its own, without a bandwidth bound
  Rate matmul{};

  // conv: by flops per byte of input, output and weight.
  std::array<Leaf, 3> conv;
  // linear: few flops per byte; many; many with a large, aligned weight.
  std::array<Leaf, 3> linear;
  Leaf add, mul, relu, concat, transpose_small, transpose_large, upsample, deconv_2d, deconv;
  double gather_classic = 20;  // the engine takes the default path
};

// The thresholds are only bracketed by the probes: between the two numbers either leaf is possible.
struct Threshold {
  double at, low, high;

  bool sure(double x) const { return x <= low || x >= high; }
};
inline constexpr Threshold kConvSlow{10.8, 8.92, 12.76}, kConvFast{62, 56.2, 67.3},
    kLinearSlow{12.8, 12.8, 12.8};
inline constexpr double kLinearLargeBytes = 196608, kTransposeLargeBytes = 0.375 * (1 << 20);
inline constexpr double kTransposeSureSmall = 0.25 * (1 << 20), kTransposeSureLarge = 0.5 * (1 << 20);

// By the name the compiler gives a platform ("h16g"), or the nearest generation of it.
const Rates& rates_for(std::string_view platform);

}  // namespace anemone::placement
