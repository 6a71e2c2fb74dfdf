// q, k and v of an attention that mixes them with the tokens before, as written in families/blocks/time_mix.h.
#pragma once

#include "reference/scope.h"

namespace anemone {

struct MixedHeads {
  std::vector<float> q, k, v;  // [tokens, heads, head_dim]
};

MixedHeads mix_over_time(const ReferenceScope& scope, size_t layer, const Attention& attention,
                         const std::vector<float>& h, int64_t tokens, LayerMemory& memory);

}  // namespace anemone
