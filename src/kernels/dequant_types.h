// BlockType: how the numbers of a stored tensor are laid out, for every layout that a checkpoint may use.
//     const BlockInfo* q4 = block_info(BlockType::q4_0);   // 32 elements in 18 bytes
//     uint64_t bytes = block_bytes(*q4, 4096);             // one row of 4096 elements
// The ids below 256 are those of GGUF files; the others are safetensors' and ours.
#pragma once

#include <cstdint>
#include <string_view>

namespace anemone {

enum class BlockType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  u8 = 256,
  u16 = 257,
  u32 = 258,
  u64 = 259,
  boolean = 260,
  f8_e4m3 = 261,  // no infinities; 0x7f and 0xff are NaN
  f8_e5m2 = 262,
  f8_e8m0 = 263,  // a power of two; a scale, never decoded as a weight
};

struct BlockInfo {
  BlockType type;
  std::string_view name;  // as GGUF and safetensors files spell it: "Q4_K", "BF16", "F8_E4M3"
  int elements;           // of one block; a row is a whole number of blocks
  int bytes;              // of one block
  bool decodes;           // whether dequant.h turns it into floats; integers do not
};

// The layout of a type; nullptr for a number that is no type.
const BlockInfo* block_info(BlockType type);
// The layout that GGUF files give this id; nullptr when it is unknown, removed, or not for files (Q8_1).
const BlockInfo* block_info_from_gguf(uint32_t id);
// Bytes of `elements` stored elements, a multiple of info.elements below 2^62 / info.bytes.
inline uint64_t block_bytes(const BlockInfo& info, int64_t elements) {
  return static_cast<uint64_t>(elements / info.elements) * static_cast<uint64_t>(info.bytes);
}

}  // namespace anemone
