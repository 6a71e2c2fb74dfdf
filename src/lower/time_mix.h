// q, k and v of an attention that mixes them with the tokens before, as heads: [1, heads, T, head_dim].
#pragma once

#include "lower/scope.h"

namespace anemone::lower {

struct MixedHeads {
  Value *q = nullptr, *k = nullptr, *v = nullptr;
};

MixedHeads mix_over_time(Scope& scope, size_t layer, const Attention& attention, Value* h);

}  // namespace anemone::lower
