// Graph bytes: how large the programs of a model's packages are, found by building small ones without weights.
//     GraphBytes g = graph_bytes(model, packed);
#pragma once

#include "plan/planner.h"

namespace anemone {

// `packed`: projections are constexpr operations over stored integers instead of fp16 constants. `prompts`: of a model
// that writes text, with a second function for prompts, as convert writes it where nobody says another number of
// tokens.
GraphBytes graph_bytes(const Model& model, bool packed, bool prompts);

}  // namespace anemone
