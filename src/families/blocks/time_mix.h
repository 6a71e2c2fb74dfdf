// TimeMix: what an attention does to q, k and v before the heads are rotated, with the tokens just before (ZAYA1).
//     z_t    = q h_t and k h_t, one behind the other                         heads + kv_heads heads of head_dim
//     a_t    = tap_bias + sum over j of taps[:, j] * z_(t - steps + 1 + j)   each channel separately
//     c_t    = mix_bias + sum over j of mix[:, :, j] a_(t - mix_steps + 1 + j)        each head separately
//     m      = (q + k of its KV head) / 2, for each query head; of a KV head the mean over its query heads
//     q, k   = c + m
//     v_t    = v h_t and delayed h_(t-1), one behind the other
// z, and h for the delayed part, are 0 before the text; a is the bias alone where it sees nothing else.
// Its states are the last columns of z, and the last one of delayed h.
#pragma once

#include <cstdint>

#include "families/blocks/norm.h"

namespace anemone {

struct TimeMix {
  int64_t steps = 0, mix_steps = 0;  // tokens that each sum goes over
  WeightRef taps, tap_bias;          // [channels, steps], the last one for the token itself
  WeightRef mix, mix_bias;  // [channels, head_dim * mix_steps]: of each channel by input, then by step
  Projection delayed;       // as many rows as v has

  int64_t columns() const { return steps - 1 + mix_steps - 1; }
};

}  // namespace anemone
