// Norm: scales the values of a token to a common size.
//     rms:    x / sqrt(mean(x²) + eps) * (gain + offset)
//     layer:  (x - mean(x)) / sqrt(variance(x) + eps) * (gain + offset) + bias
#pragma once

#include "families/weight_ref.h"

namespace anemone {

struct Norm {
  enum class Kind { rms, layer };

  Kind kind = Kind::rms;
  WeightRef gain;
  WeightRef bias;  // optional; layer norms only
  double eps = 0;
  double offset = 0;  // 1 where a gain is stored as γ and used as 1 + γ (Gemma safetensors)
};

// y = weight x + bias.
struct Projection {
  WeightRef weight;
  WeightRef bias;  // optional

  explicit operator bool() const { return static_cast<bool>(weight); }
};

}  // namespace anemone
