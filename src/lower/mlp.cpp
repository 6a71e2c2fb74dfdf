#include "base/error.h"
#include "lower/ops.h"
#include "lower/scope.h"

namespace anemone::lower {

GatedValues gated(Scope& s, const GatedMlp& mlp, Value* h, const std::string& at) {
  Builder& b = s.builder();
  GatedValues out;
  out.gate = s.project(h, mlp.gate, 1, at + "gate");
  if (mlp.limit == 0) {
    Value* gate = s.activate(out.gate, mlp.activation, at + "gate_act");
    out.up = s.project(h, mlp.up, 1, at + "up");
    out.product = mul(b, gate, out.up, at + "gated");
    return out;
  }
  const auto limit = static_cast<float>(mlp.limit);
  Value* gate = b.op("minimum", {{"x", out.gate}, {"y", half(limit)}}, at + "gate_limited");
  Value* slope = scale(b, gate, mlp.slope, at + "gate_slope");
  gate = mul(b, gate, b.op("sigmoid", {{"x", slope}}, at + "gate_sigmoid"), at + "gate_act");
  out.up = s.project(h, mlp.up, 1, at + "up");
  Value* up =
      b.op("clip", {{"x", out.up}, {"alpha", half(-limit)}, {"beta", half(limit)}}, at + "up_limited");
  up = b.op("add", {{"x", up}, {"y", half(1)}}, at + "up_more");
  out.product = mul(b, gate, up, at + "gated");
  return out;
}

Value* lower_block(Scope& s, size_t layer, const GatedMlp& mlp, Value* h, double factor) {
  const std::string at = fmt::format("l{}_", layer);
  const auto index = static_cast<int64_t>(layer);
  const GatedValues values = gated(s, mlp, h, at);
  s.tap(values.gate, "gate", index);
  s.tap(values.up, "up", index);
  s.tap(values.product, "gated", index);
  return s.project(values.product, mlp.down, factor, at + "down");
}

Value* lower_block(Scope& s, size_t layer, const PlainMlp& mlp, Value* h, double factor) {
  const std::string at = fmt::format("l{}_", layer);
  const auto index = static_cast<int64_t>(layer);
  Value* up = s.project(h, mlp.up, 1, at + "up");
  s.tap(up, "up", index);
  Value* gated = s.activate(up, mlp.activation, at + "up_act");
  s.tap(gated, "gated", index);
  return s.project(gated, mlp.down, factor, at + "down");
}

}  // namespace anemone::lower
