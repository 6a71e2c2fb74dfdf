// The parts of a described decoder, by layer.
//     CHECK(attention_of(model, 1).q.weight.rows() == 16);
#pragma once

#include <variant>

#include "families/model.h"

namespace anemone::test {

inline const Attention& attention_of(const Model& model, size_t layer) {
  return std::get<Attention>(model.layers.at(layer).steps.at(0).block);
}
inline const GatedMlp& mlp_of(const Model& model, size_t layer) {
  return std::get<GatedMlp>(model.layers.at(layer).steps.at(1).block);
}
// Of a layer that sees so far back; 0: all the way.
inline int64_t window_of(const Model& model, size_t layer) {
  const Reach& reach = attention_of(model, layer).reach;
  return reach.kind == Reach::Kind::window ? reach.size : 0;
}

}  // namespace anemone::test
