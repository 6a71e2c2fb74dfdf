// The bytes of a matrix in a form, before anything is encoded. Plans count by it and shards are cut by it, so that both
// agree with what is written.
//     StorageForm form;  form.palette = PaletteForm{.bits = 4, .group = 16};
//     stored_bytes(form, 4096, 1024);                      // codes and 256 tables of 16 halves
#pragma once

#include <cstdint>

#include "compress/form.h"

namespace anemone {

// Each part is a constant of its own.
struct StoredParts {
  uint64_t data = 0;    // codes, or values
  uint64_t tables = 0;  // of palettes
  uint64_t scales = 0, offsets = 0;
  uint64_t mask = 0;  // of pruned weights

  uint64_t sum() const { return data + tables + scales + offsets + mask; }
};

// Of a matrix of halves in a program for iOS 18. A form that is kept counts as plain halves. What depends on the values
// is counted at its most: pruning by a threshold as if it pruned nothing, tables in unique mode with all their bits.
StoredParts stored_parts(const StorageForm& form, int64_t rows, int64_t columns);
uint64_t stored_bytes(const StorageForm& form, int64_t rows, int64_t columns);

}  // namespace anemone
