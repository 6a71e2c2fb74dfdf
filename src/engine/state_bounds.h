// StateBounds: how large the elements of a state can be, kept up to date by whoever writes to it, so that
// attention can tell which columns cannot matter without looking at them.
//     bounds.include(head, rows, count);            // rows [count, width] were written to part `head`
//     if (bounds.known()) … bounds.lanes(head)[d]    // no |element d| of a row of that part is larger
// A state [.., S, D] has parts (all dimensions but the last two) of S rows of D elements (lanes).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mil/type.h"

namespace anemone {

class StateBounds {
 public:
  // Of a state of zeros.
  explicit StateBounds(const Type& content);

  // False when elements may be infinite or NaN, or nobody has looked.
  bool known() const { return known_; }
  int64_t parts() const { return width_ ? static_cast<int64_t>(lanes_.size()) / width_ : 0; }
  int64_t width() const { return width_; }  // D
  int64_t rows() const { return rows_; }    // S
  const float* lanes(int64_t part) const { return lanes_.data() + part * width_; }

  void forget() { known_ = false; }
  // The state now holds `data`, as a whole.
  void reset(const float* data);
  // `count` rows were written to a part.
  void include(int64_t part, const float* data, int64_t count);

 private:
  int64_t rows_ = 0, width_ = 0;
  bool known_ = true;
  std::vector<float> lanes_;
};

}  // namespace anemone
