#include "base/error.h"
#include "lower/ops.h"
#include "lower/scope.h"

namespace anemone::lower {

Value* lower_block(Scope& s, size_t layer, const GatedMlp& mlp, Value* h, double factor) {
  const std::string at = fmt::format("l{}_", layer);
  const auto index = static_cast<int64_t>(layer);
  Value* raw = s.project(h, mlp.gate, 1, at + "gate");
  s.tap(raw, "gate", index);
  Value* gate = s.activate(raw, mlp.activation, at + "gate_act");
  Value* up = s.project(h, mlp.up, 1, at + "up");
  s.tap(up, "up", index);
  Value* gated = mul(s.builder(), gate, up, at + "gated");
  s.tap(gated, "gated", index);
  return s.project(gated, mlp.down, factor, at + "down");
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
