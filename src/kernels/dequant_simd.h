// The SIMD decoders of block types, chosen for the CPU at hand; used by dequant.cpp alone.
#pragma once

#include <cstdint>

#include "kernels/dequant_types.h"

namespace anemone {

template <class Out>
using BlockDecoder = void (*)(const uint8_t* in, int64_t blocks, Out* out);

// A decoder of whole blocks for this CPU; nullptr where the type has only a plain one.
BlockDecoder<float> simd_decoder_to_float(BlockType type) noexcept;
BlockDecoder<uint16_t> simd_decoder_to_half(BlockType type) noexcept;

}  // namespace anemone
