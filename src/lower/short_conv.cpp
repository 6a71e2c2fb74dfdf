// A gated short convolution, over what the state holds of the tokens before and the tokens of the call.
#include "base/error.h"
#include "lower/ops.h"
#include "lower/scope.h"

namespace anemone::lower {
namespace {

// [1, C, T, 1] and [1, 1, T, C], one from the other.
Value* turned(Builder& b, Value* x, const std::string& name) {
  return b.op("transpose", {{"x", x}, {"perm", Constant::ints({0, 3, 2, 1})}}, name);
}

Value* joined(Builder& b, std::vector<Value*> values, const std::string& name) {
  return b.op("concat",
              {{"values", std::move(values)},
               {"axis", Constant::integer(2)},
               {"interleave", Constant::boolean(false)}},
              name);
}

// Each channel separately: [1, C, R + T, 1] → [1, C, T, 1].
Value* depthwise(Builder& b, Value* x, Value* taps, int64_t channels, const std::string& name) {
  const Constant ones = Constant::ints({1, 1});
  return b.op("conv",
              {{"x", x},
               {"weight", taps},
               {"strides", ones},
               {"pad_type", Constant::text("valid")},
               {"pad", Constant::ints({0, 0, 0, 0})},
               {"dilations", ones},
               {"groups", Constant::integer(static_cast<int32_t>(channels))}},
              name);
}

}  // namespace

Value* lower_block(Scope& s, size_t layer, const ShortConv& conv, Value* h, double factor) {
  Builder& b = s.builder();
  const std::string at = fmt::format("l{}_conv_", layer);
  Value* gate = s.project(h, conv.gate_in, 1, at + "gate_in");
  Value* value = s.project(h, conv.value, 1, at + "value");
  Value* fresh = turned(b, mul(b, gate, value, at + "gated_in"), at + "new");
  RecurrentStates& states = s.recurrent();
  Value* all = joined(b, {states.read(b, layer, 0), fresh}, at + "columns");
  states.write(b, layer, 0, states.last_columns(b, layer, 0, all));
  Value* taps = s.weights().vector(b, conv.taps, {conv.width, 1, conv.kernel, 1}, 0, 1, at + "taps");
  Value* y = depthwise(b, turned(b, all, at + "channels"), taps, conv.width, at + "mixed");
  Value* gate_out = s.project(h, conv.gate_out, 1, at + "gate_out");
  return s.project(mul(b, gate_out, y, at + "gated_out"), conv.o, factor, fmt::format("l{}_o", layer));
}

}  // namespace anemone::lower
