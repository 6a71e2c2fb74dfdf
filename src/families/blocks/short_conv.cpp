#include "families/blocks/short_conv.h"

#include "families/weights.h"

namespace anemone {

void ShortConv::each_weight(WeightVisitor& v) const {
  v.projection("inner gate of the convolution", "bias of the inner gate", gate_in, v.hidden(), v.hidden());
  v.projection("outer gate of the convolution", "bias of the outer gate", gate_out, v.hidden(), v.hidden());
  v.projection("input of the convolution", "bias of the convolution's input", value, v.hidden(), v.hidden());
  v.table("taps of the convolution", taps, v.hidden(), {{{kernel, "{} taps"}}});
  v.projection("output projection", "output projection's bias", o, v.hidden(), v.hidden());
}

}  // namespace anemone
