// FastLevel: the kernels of fast.h for one kind of processor. fast_loops-inl.h writes them once; each fast_<level>.cpp
// gives the few operations that they are made of.
//     const FastLevel* level = fast_level_avx2();     // null where it was not compiled
#pragma once

#include "kernels/fast.h"

namespace anemone {

struct FastLevel {
  const char* name;
  int64_t lanes;                      // columns of a panel
  int64_t value_bytes;                // of a value in a panel, and in an expanded row that is not fine
  int64_t rows = 24;                  // that gemm takes best at a time
  int64_t tile = 1;                   // rows that are multiplied together; there is room for whole tiles
  int64_t (*split_bytes)(int64_t k);  // of FastColumn::split
  void (*column)(const float* x, int64_t k, int8_t* values, float* scales, float* sums, float* total,
                 int8_t* split);  // null: not needed
  void (*matvec)(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count, int64_t k,
                 const FastColumn* x, int64_t x_count, float* const* out);
  void (*pack)(const float* x, int64_t stride, int64_t k, int64_t columns, std::byte* panel);
  void (*gemm)(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count,
               const FastPanels& x, float* out, int64_t out_stride, std::byte* room);
};

const FastLevel* fast_level_amx();
const FastLevel* fast_level_avx512();
const FastLevel* fast_level_avx512bw();
const FastLevel* fast_level_avx2();
const FastLevel* fast_level_portable();

inline int64_t fast_padded(int64_t k) { return (k + kFastStep - 1) / kFastStep * kFastStep; }
// Of a panel: for each block its values, and scales, scaled sums and sums of whole numbers; at the end the totals.
constexpr int64_t fast_block_bytes(int64_t lanes, int64_t value_bytes) {
  return (kFastBlock * value_bytes + 12) * lanes;
}
inline int64_t fast_panel_bytes(int64_t k, int64_t lanes, int64_t value_bytes) {
  return fast_padded(k) / kFastBlock * fast_block_bytes(lanes, value_bytes) + 4 * lanes;
}

}  // namespace anemone
