#include "reference/ranges.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace anemone {
namespace {

double largest(std::span<const float> values) {
  double most = 0;
  for (const float v : values) {
    if (!std::isfinite(v)) return INFINITY;
    most = std::max(most, std::abs(static_cast<double>(v)));
  }
  return most;
}

double headroom(double limit, double value) { return value > 0 ? limit / value : INFINITY; }

}  // namespace

void Peak::take(double magnitude, std::string_view name) {
  if (magnitude > value || where.empty()) {
    value = magnitude;
    where = name;
  }
}

double LayerRange::half_headroom(double scale) const {
  return headroom(kHalfMax, std::max(stream.value * scale, inner.value));
}

double LayerRange::accumulator_headroom(double scale) const {
  return headroom(kAccumulatorLimit, std::max(stream_sum.value * scale, inner_sum.value));
}

std::vector<LayerRange> measure_ranges(const Reference& reference, std::span<const int32_t> ids) {
  std::vector<LayerRange> out(reference.model().layers.size());
  for (size_t i = 0; i < out.size(); ++i) out[i].layer = static_cast<int64_t>(i);
  double into = 0;  // the stream as the next layer finds it
  ReferenceOptions options;
  options.tap = [&](std::string_view name, int64_t index, std::span<const float> values) {
    const double most = largest(values);
    if (name == "embed_out") into = most;
    if (index < 0) return;
    LayerRange& range = out[static_cast<size_t>(index)];
    if (name == "attn_residual" || name == "layer_out") {
      range.residual = std::max({range.residual, into, most});
      range.stream.take(std::max(into, most), "residual");
      into = most;
    } else if (name == "attn_out" || name == "mlp_out") {
      const bool attention = name == "attn_out";
      double& block = attention ? range.attention : range.mlp;
      block = std::max(block, most);
      range.stream.take(most, name);
    } else if (name == "chosen_out" || name == "shared_out") {
      range.stream.take(most, name);  // parts of mlp_out, with the scale of the stream
    } else {
      range.inner.take(most, name);
    }
  };
  options.sums = [&](std::string_view name, int64_t index, float most) {
    LayerRange& range = out[static_cast<size_t>(index)];
    const bool writer = name == "o" || name == "down";
    (writer ? range.stream_sum : range.inner_sum).take(static_cast<double>(most), name);
  };
  ReferenceSession(reference, options).step(ids, LogitRows::none);
  return out;
}

double proposed_residual_scale(std::span<const LayerRange> ranges, double small) {
  double least = INFINITY;
  for (const LayerRange& r : ranges)
    least = std::min(
        {least, headroom(kHalfMax, r.stream.value), headroom(kAccumulatorLimit, r.stream_sum.value)});
  if (!(least < small) || !(least > 0)) return 1;
  return std::exp2(std::floor(std::log2(least / kProposedHeadroom)));
}

}  // namespace anemone
