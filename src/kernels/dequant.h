// Decodes stored blocks of any type (dequant_types.h) to floats or to halves.
//     decode_blocks(BlockType::q4_0, bytes.data(), 4096, floats);      // a row of 4096 elements
//     decode_range(BlockType::q4_0, bytes.data(), 100, 7, halves);     // elements 100 to 106 of it
// The floats are bit for bit those of the gguf package; a half is that float rounded to nearest even. The
// input may lie at any address. All functions may run on many threads at once; the type must be one that
// decodes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dequant_types.h"

namespace anemone {

// Whole blocks: `elements` is a multiple of the block's.
void decode_blocks(BlockType type, const std::byte* in, int64_t elements, float* out) noexcept;
void decode_blocks(BlockType type, const std::byte* in, int64_t elements, uint16_t* out) noexcept;

// Any `count` elements from number `begin` of the blocks at `in`.
void decode_range(BlockType type, const std::byte* in, int64_t begin, int64_t count, float* out) noexcept;
void decode_range(BlockType type, const std::byte* in, int64_t begin, int64_t count, uint16_t* out) noexcept;

// The plain twin, for tests and as the way for types that have no faster one.
void decode_blocks_plain(BlockType type, const std::byte* in, int64_t elements, float* out) noexcept;

}  // namespace anemone
