#include "kernels/dequant.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/dequant_plain.h"
#include "kernels/dequant_simd.h"

namespace anemone {
namespace {

constexpr int64_t kMaxBlock = 256;  // elements of the largest block

const uint8_t* bytes(const std::byte* in) { return reinterpret_cast<const uint8_t*>(in); }

const BlockInfo& info_of(BlockType type) {
  const BlockInfo* info = block_info(type);
  ANEMONE_CHECK(info && info->decodes);
  return *info;
}

// The 8-bit floats: all 256 of them, decoded once.
template <class Out>
struct ByteTable {
  explicit ByteTable(BlockType type) {
    for (int i = 0; i < 256; ++i) {
      const auto byte = static_cast<uint8_t>(i);
      float x;
      plain_decoder(type)(&byte, &x);
      if constexpr (sizeof(Out) == 2) {
        values[i] = half_from_float(x);
      } else {
        values[i] = x;
      }
    }
  }
  Out values[256];
};

template <class Out>
void decode_bytes(BlockType type, const std::byte* in, int64_t elements, Out* out) {
  static const ByteTable<Out> e4m3(BlockType::f8_e4m3), e5m2(BlockType::f8_e5m2);
  const Out* values = type == BlockType::f8_e4m3 ? e4m3.values : e5m2.values;
  for (int64_t i = 0; i < elements; ++i) out[i] = values[std::to_integer<size_t>(in[i])];
}

bool is_byte_float(BlockType type) { return type == BlockType::f8_e4m3 || type == BlockType::f8_e5m2; }

// Through a small buffer of floats that stays in the first-level cache.
void decode_by_floats(BlockType type, const std::byte* in, int64_t elements, uint16_t* out) {
  constexpr int64_t kChunk = 4 * kMaxBlock;
  const BlockInfo& info = info_of(type);
  float buffer[kChunk];
  for (int64_t done = 0; done < elements; done += kChunk) {
    const int64_t count = std::min(kChunk, elements - done);
    decode_blocks(type, in + block_bytes(info, done), count, buffer);
    floats_to_halves(buffer, count, out + done);
  }
}

template <class Out>
void range(BlockType type, const std::byte* in, int64_t begin, int64_t count, Out* out) {
  const BlockInfo& info = info_of(type);
  Out block[kMaxBlock];
  while (count > 0) {
    const int64_t skip = begin % info.elements;
    const std::byte* at = in + block_bytes(info, begin - skip);
    int64_t taken = count / info.elements * info.elements;
    if (skip == 0 && taken > 0) {
      decode_blocks(type, at, taken, out);
    } else {
      taken = std::min<int64_t>(count, info.elements - skip);
      decode_blocks(type, at, info.elements, block);
      std::memcpy(out, block + skip, static_cast<size_t>(taken) * sizeof(Out));
    }
    begin += taken;
    count -= taken;
    out += taken;
  }
}

}  // namespace

void decode_blocks_plain(BlockType type, const std::byte* in, int64_t elements, float* out) noexcept {
  const BlockInfo& info = info_of(type);
  const PlainDecoder decode = plain_decoder(type);
  for (int64_t done = 0; done < elements; done += info.elements, in += info.bytes)
    decode(bytes(in), out + done);
}

void decode_blocks(BlockType type, const std::byte* in, int64_t elements, float* out) noexcept {
  if (elements <= 0) return;
  if (type == BlockType::f32) {
    std::memcpy(out, in, static_cast<size_t>(elements) * 4);
  } else if (type == BlockType::f16) {
    halves_to_floats(in, elements, out);
  } else if (type == BlockType::bf16) {
    bfloats_to_floats(in, elements, out);
  } else if (is_byte_float(type)) {
    decode_bytes(type, in, elements, out);
  } else if (const auto decode = simd_decoder_to_float(type)) {
    decode(bytes(in), elements / info_of(type).elements, out);
  } else {
    decode_blocks_plain(type, in, elements, out);
  }
}

void decode_blocks(BlockType type, const std::byte* in, int64_t elements, uint16_t* out) noexcept {
  if (elements <= 0) return;
  if (type == BlockType::f16) {
    std::memcpy(out, in, static_cast<size_t>(elements) * 2);
  } else if (type == BlockType::bf16) {
    bfloats_to_halves(in, elements, out);
  } else if (is_byte_float(type)) {
    decode_bytes(type, in, elements, out);
  } else if (const auto decode = simd_decoder_to_half(type)) {
    decode(bytes(in), elements / info_of(type).elements, out);
  } else {
    decode_by_floats(type, in, elements, out);
  }
}

void decode_range(BlockType type, const std::byte* in, int64_t begin, int64_t count, float* out) noexcept {
  range(type, in, begin, count, out);
}
void decode_range(BlockType type, const std::byte* in, int64_t begin, int64_t count, uint16_t* out) noexcept {
  range(type, in, begin, count, out);
}

}  // namespace anemone
