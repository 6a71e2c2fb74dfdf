// Angles of the rotation, as the reference computes them: cos and sin of each position in double, kept as
// float.
//     RotaryTable table(model.ropes[0], 0, 512, LongRope::by_length);
//     table.rotate(head, position);           // in place, the first `dims` of head
#pragma once

#include <cstdint>
#include <vector>

#include "families/model.h"

namespace anemone {

// Which of longrope's two lists of factors: by the number of positions in use, or the given one.
enum class LongRope { by_length, short_factors, long_factors };

// The dims/2 frequencies of a rope; `positions` is how many positions the sequence uses in all.
std::vector<double> rotary_frequencies(const Rope& rope, int64_t positions, LongRope choice);

class RotaryTable {
 public:
  RotaryTable(const Rope& rope, int64_t positions, LongRope choice);

  // Makes sure that positions [begin, end) can be asked for.
  void cover(int64_t begin, int64_t end);
  // Rotates one head at a covered position.
  void rotate(float* head, int64_t position) const;

 private:
  std::vector<double> frequencies_;
  double attention_factor_;
  int64_t begin_ = 0, end_ = 0;
  std::vector<float> cos_, sin_;  // [positions, dims / 2]
};

}  // namespace anemone
