// Graph bytes: how large the programs of a model's packages are, found by building small ones without weights.
//     GraphBytes g = graph_bytes(model, packed);
#pragma once

#include "plan/planner.h"

namespace anemone {

// `packed`: projections are constexpr operations over stored integers instead of fp16 constants. `prompts`: of a model
// that writes text, with a second function for prompts, as convert writes it where nobody says another number of
// tokens.
GraphBytes graph_bytes(const Model& model, bool packed, bool prompts);

// Of a program without weights, and of its description.
uint64_t encoded_bytes(const Program& program);
// The numbers of tokens that functions of a model take at once.
std::vector<int64_t> function_tokens(const Model& model, bool prompts);

}  // namespace anemone
