// How large values become inside a model, layer by layer, for a text: what decides whether half can hold them.
//     std::vector<LayerRange> ranges = measure_ranges(reference, ids);
//     double scale = proposed_residual_scale(ranges);                  // 1 where nothing comes near a limit
// Two limits matter on the Neural Engine: the largest fp16 number, and its multiply-accumulate units, whose
// fixed-point sums become infinite at 32768 and count on the way, not only at the end. The order in which the
// hardware adds is not published; here it is that of the columns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/reference.h"

namespace anemone {

inline constexpr double kAccumulatorLimit = 32768;

// The largest magnitude, and where it was.
struct Peak {
  double value = 0;
  std::string where;  // "residual", "attn_out", "mlp_out", "q", "gated", …

  void take(double magnitude, std::string_view name);
};

struct LayerRange {
  int64_t layer = 0;
  double residual = 0;            // of the stream: into the layer, in its middle, out of it
  double attention = 0, mlp = 0;  // of what the blocks give, before a norm behind them
  // What a residual scale multiplies: the stream, and the projections that write it, also where a norm stands
  // behind them.
  Peak stream, stream_sum;
  // What it does not multiply.
  Peak inner, inner_sum;

  // How many times larger the values could be before they leave the range of fp16, and the sums the accumulator's,
  // when the stream is scaled.
  double half_headroom(double residual_scale = 1) const;
  double accumulator_headroom(double residual_scale = 1) const;
};

// One entry per layer. Use an ordinary text with its usual start: the first token is often the largest.
std::vector<LayerRange> measure_ranges(const Reference& reference, std::span<const int32_t> ids);

// The headroom below which a layer counts as near a limit, and what a proposed scale leaves at least.
inline constexpr double kSmallHeadroom = 2, kProposedHeadroom = 4;

// The largest power of two that gives every layer's stream and its sums kProposedHeadroom, where one of them
// has less than `small`; 1 where none has, or where the stream is not what is large.
double proposed_residual_scale(std::span<const LayerRange> ranges, double small = kSmallHeadroom);

}  // namespace anemone
