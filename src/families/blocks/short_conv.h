// ShortConv: a mixer that uses only the last few tokens (LFM2).
//     s_t = gate_in h_t * (value h_t)
//     y_t = sum over j of taps[:, j] * s_(t - kernel + 1 + j)        each channel separately; 0 before the text
//     out = o (gate_out h_t * y_t)
// Its state is the last kernel - 1 columns of s.
#pragma once

#include <cstdint>
#include <vector>

#include "families/blocks/norm.h"
#include "families/blocks/recurrent.h"

namespace anemone {

class WeightVisitor;

struct ShortConv {
  static constexpr bool kMixer = true;

  int64_t width = 0, kernel = 0;
  Projection gate_in, gate_out, value, o;
  WeightRef taps;  // [width, kernel], the last one for the token itself

  std::vector<RecurrentShape> recurrent() const { return {{kernel - 1, width}}; }
  void each_weight(WeightVisitor& visitor) const;
  std::vector<Projection*> sensitive() { return {}; }
};

}  // namespace anemone
