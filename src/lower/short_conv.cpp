// A gated short convolution, over what the state holds of the tokens before and the tokens of the call.
#include "base/error.h"
#include "lower/ops.h"
#include "lower/scope.h"

namespace anemone::lower {
Value* lower_block(Scope& s, size_t layer, const ShortConv& conv, Value* h, double factor) {
  Builder& b = s.builder();
  const std::string at = fmt::format("l{}_conv_", layer);
  Value* gate = s.project(h, conv.gate_in, 1, at + "gate_in");
  Value* value = s.project(h, conv.value, 1, at + "value");
  Value* fresh = turned(b, mul(b, gate, value, at + "gated_in"), at + "new");
  RecurrentStates& states = s.recurrent();
  Value* all = join(b, {states.read(b, layer, 0), fresh}, 2, at + "columns");
  states.write(b, layer, 0, states.last_columns(b, layer, 0, all));
  Value* taps = s.weights().vector(b, conv.taps, {conv.width, 1, conv.kernel, 1}, 0, 1, at + "taps");
  Value* y = conv_over_time(b, turned(b, all, at + "channels"), taps, nullptr, conv.width, at + "mixed");
  Value* gate_out = s.project(h, conv.gate_out, 1, at + "gate_out");
  return s.project(mul(b, gate_out, y, at + "gated_out"), conv.o, factor, fmt::format("l{}_o", layer));
}

}  // namespace anemone::lower
