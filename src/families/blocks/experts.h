// Experts: many MLPs, of which each token uses a few.
//     l      = logits(r)                             one for each choice: the experts, and with a skip one more
//     p      = softmax(l)                            over all choices, or over the chosen ones alone
//     chosen = the `used` choices with the largest l, or with the largest p + choice_bias; of equal ones the first
//     y      = sum of p_e * expert_e(h) over the chosen
// r is h itself, or what a small network makes of it (ZAYA1):
//     s      = down h + carry * (s of the layer before)
//     r      = gelu(second(gelu(first(norm(s)))))
// A chosen skip adds p * h, or nothing.
// A shared expert is one that every token uses, whatever it chooses:
//     y      = y + s * shared(h)                     s = sigmoid(share h), or 1 where there is no such projection
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "families/blocks/mlp.h"

namespace anemone {

struct RouterNetwork {
  int64_t width = 0;
  Projection down, first, second;
  WeightRef carry;  // optional: one number a channel; the first layer has none before it
  Norm norm;
};

struct Router {
  std::optional<RouterNetwork> network;
  Projection logits;
  WeightRef choice_bias;  // optional
};

struct SharedExpert {
  GatedMlp mlp;
  Projection share;  // optional: one row
};

struct Experts {
  static constexpr bool kMixer = false;
  enum class Share { of_all, of_chosen };
  enum class Skip { none, pass, zero };

  int64_t width = 0;  // of each expert
  int64_t used = 0;   // choices of a token
  Router router;
  Share share = Share::of_all;
  Skip skip = Skip::none;
  std::vector<GatedMlp> experts;
  std::optional<SharedExpert> shared;

  int64_t count() const { return static_cast<int64_t>(experts.size()); }
  int64_t choices() const { return count() + (skip == Skip::none ? 0 : 1); }
  void each_weight(WeightVisitor& visitor) const;
  std::vector<Projection*> sensitive();
};

}  // namespace anemone
