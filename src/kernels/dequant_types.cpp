#include "kernels/dequant_types.h"

namespace anemone {
namespace {

constexpr BlockInfo kBlocks[] = {
    {BlockType::f32, "F32", 1, 4, true},           {BlockType::f16, "F16", 1, 2, true},
    {BlockType::q4_0, "Q4_0", 32, 18, true},       {BlockType::q4_1, "Q4_1", 32, 20, true},
    {BlockType::q5_0, "Q5_0", 32, 22, true},       {BlockType::q5_1, "Q5_1", 32, 24, true},
    {BlockType::q8_0, "Q8_0", 32, 34, true},       {BlockType::q2_k, "Q2_K", 256, 84, true},
    {BlockType::q3_k, "Q3_K", 256, 110, true},     {BlockType::q4_k, "Q4_K", 256, 144, true},
    {BlockType::q5_k, "Q5_K", 256, 176, true},     {BlockType::q6_k, "Q6_K", 256, 210, true},
    {BlockType::q8_k, "Q8_K", 256, 292, true},     {BlockType::iq2_xxs, "IQ2_XXS", 256, 66, true},
    {BlockType::iq2_xs, "IQ2_XS", 256, 74, true},  {BlockType::iq3_xxs, "IQ3_XXS", 256, 98, true},
    {BlockType::iq1_s, "IQ1_S", 256, 50, true},    {BlockType::iq4_nl, "IQ4_NL", 32, 18, true},
    {BlockType::iq3_s, "IQ3_S", 256, 110, true},   {BlockType::iq2_s, "IQ2_S", 256, 82, true},
    {BlockType::iq4_xs, "IQ4_XS", 256, 136, true}, {BlockType::i8, "I8", 1, 1, false},
    {BlockType::i16, "I16", 1, 2, false},          {BlockType::i32, "I32", 1, 4, false},
    {BlockType::i64, "I64", 1, 8, false},          {BlockType::f64, "F64", 1, 8, true},
    {BlockType::iq1_m, "IQ1_M", 256, 56, true},    {BlockType::bf16, "BF16", 1, 2, true},
    {BlockType::tq1_0, "TQ1_0", 256, 54, true},    {BlockType::tq2_0, "TQ2_0", 256, 66, true},
    {BlockType::mxfp4, "MXFP4", 32, 17, true},     {BlockType::nvfp4, "NVFP4", 64, 36, true},
    {BlockType::q1_0, "Q1_0", 128, 18, true},      {BlockType::u8, "U8", 1, 1, false},
    {BlockType::u16, "U16", 1, 2, false},          {BlockType::u32, "U32", 1, 4, false},
    {BlockType::u64, "U64", 1, 8, false},          {BlockType::boolean, "BOOL", 1, 1, false},
    {BlockType::f8_e4m3, "F8_E4M3", 1, 1, true},   {BlockType::f8_e5m2, "F8_E5M2", 1, 1, true},
    {BlockType::f8_e8m0, "F8_E8M0", 1, 1, false},
};

}  // namespace

const BlockInfo* block_info(BlockType type) {
  for (const BlockInfo& info : kBlocks)
    if (info.type == type) return &info;
  return nullptr;
}

const BlockInfo* block_info_from_gguf(uint32_t id) {
  return id < 256 ? block_info(static_cast<BlockType>(id)) : nullptr;
}

}  // namespace anemone
