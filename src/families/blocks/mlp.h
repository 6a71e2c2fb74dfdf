// The MLPs: computations on each token separately.
//     GatedMlp:  y = down (activation(gate h) * (up h))
//                with a limit: activation(min(gate h, limit)) * (clip(up h, -limit, limit) + 1), where the activation
//                is z * sigmoid(slope * z)                                                            (gpt-oss)
//     PlainMlp:  y = down activation(up h)
#pragma once

#include <cstdint>
#include <vector>

#include "families/blocks/norm.h"

namespace anemone {

class WeightVisitor;

enum class Activation { silu, gelu_tanh, gelu };

struct GatedMlp {
  static constexpr bool kMixer = false;

  int64_t width = 0;
  Activation activation = Activation::silu;
  Projection gate, up, down;
  double limit = 0;  // 0: none
  double slope = 1;  // with a limit

  void each_weight(WeightVisitor& visitor) const;
  std::vector<Projection*> sensitive() { return {&down}; }
};

struct PlainMlp {
  static constexpr bool kMixer = false;

  int64_t width = 0;
  Activation activation = Activation::gelu;
  Projection up, down;

  void each_weight(WeightVisitor& visitor) const;
  std::vector<Projection*> sensitive() { return {&down}; }
};

}  // namespace anemone
