#include "families/blocks/mlp.h"

#include "families/weights.h"

namespace anemone {

void GatedMlp::each_weight(WeightVisitor& v) const {
  const Extent wide{{{width, size_names::kMlp}}};
  v.projection("gate weight", "gate bias", gate, wide, v.hidden());
  v.projection("up weight", "up bias", up, wide, v.hidden());
  v.projection("down weight", "down bias", down, v.hidden(), wide);
}

void PlainMlp::each_weight(WeightVisitor& v) const {
  const Extent wide{{{width, size_names::kMlp}}};
  v.projection("up weight", "up bias", up, wide, v.hidden());
  v.projection("down weight", "down bias", down, v.hidden(), wide);
}

}  // namespace anemone
