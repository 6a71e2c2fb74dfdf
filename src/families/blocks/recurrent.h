// RecurrentShape: the shape of a recurrent state, whose size does not grow with the text. A block with such states has
// a function recurrent() that lists them; the number of a state in that list is its slot. At most one block of a layer
// has such states. The block itself defines how a state is updated, in lower/ and in reference/.
//     std::vector<RecurrentShape> recurrent() const { return {{.columns = kernel - 1, .width = width}}; }
#pragma once

#include <cstdint>

namespace anemone {

// `columns` columns of `width` numbers, the newest column last.
struct RecurrentShape {
  int64_t columns = 0, width = 0;
};

}  // namespace anemone
