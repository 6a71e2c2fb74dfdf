// RecurrentShape: what a block remembers beside keys and values, in a size that does not grow with the text. A block
// with such states has a function recurrent() that lists them; a state's number in that list is its slot. At most one
// block of a layer has them. How a state moves on is the block's own affair, in lower/ and in reference/.
//     std::vector<RecurrentShape> recurrent() const { return {{.columns = kernel - 1, .width = width}}; }
#pragma once

#include <cstdint>

namespace anemone {

// So many columns of so many numbers, the newest column last.
struct RecurrentShape {
  int64_t columns = 0, width = 0;
};

}  // namespace anemone
