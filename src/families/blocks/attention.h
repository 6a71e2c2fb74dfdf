// Attention: a mixer. Every token looks at others and takes a weighted mean of their values.
//     q, k, v = q h, k h, v h                        heads, kv_heads, kv_heads vectors of head_dim
//     q, k, v = mixed with those of the tokens before (mix)
//     q, k    = normalised (qk_norm) and rotated (rope), in the order that qk_norm says
//     s_ij    = softcap(scale * q_i·k_j, softcap) for the positions j that `reach` lets i see;
//               query head n reads kv head n / (heads / kv_heads)
//     y       = o (softmax(s) v)                     with sinks: exp(sink of the head) more below the line
// with softcap(s, c) = c * tanh(s / c).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "families/blocks/norm.h"
#include "families/blocks/recurrent.h"
#include "families/blocks/time_mix.h"

namespace anemone {

class WeightVisitor;

// Which positions j a token at position i sees.
struct Reach {
  enum class Kind {
    causal,  // j <= i
    window,  // j <= i and i - j < size
    full,    // all
    band,    // |i - j| <= size
  };

  Kind kind = Kind::causal;
  int64_t size = 0;

  bool causal() const { return kind == Kind::causal || kind == Kind::window; }
  bool sees(int64_t i, int64_t j) const {
    switch (kind) {
      case Kind::causal: return j <= i;
      case Kind::window: return j <= i && i - j < size;
      case Kind::full: return true;
      case Kind::band: return i - j <= size && j - i <= size;
    }
    return false;
  }
  bool operator==(const Reach&) const = default;
};

// Norms of q and k: of each head separately, or of all heads of a token together. Their gains are optional.
struct QkNorm {
  Norm q, k;
  WeightRef k_gain;  // optional: one number for each KV head
  bool over_width = false;
  bool after_rope = false;  // over_width: always before
};

struct Attention {
  static constexpr bool kMixer = true;

  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  Projection q, k, v, o;
  std::optional<QkNorm> qk_norm;
  std::optional<size_t> rope;  // index into Model::ropes; none: positions do not matter here
  Reach reach;
  WeightRef sinks;  // optional; a logit of each query head that takes a share of the softmax
  double scale = 0;
  double softcap = 0;          // 0: none
  std::optional<TimeMix> mix;  // then v and its delayed part have half of the rows each

  int64_t query_width() const { return heads * head_dim; }
  int64_t key_width() const { return kv_heads * head_dim; }
  std::vector<RecurrentShape> recurrent() const;
  // Of the delayed values, filled up with zeros to a multiple of 32: the device refuses other widths of states.
  int64_t delayed_state_width() const { return (key_width() / 2 + 31) / 32 * 32; }
  void each_weight(WeightVisitor& visitor) const;
  std::vector<Projection*> sensitive() { return {&v}; }
};

}  // namespace anemone
