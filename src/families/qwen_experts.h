// What the families of Qwen with experts share: Qwen2-MoE, Qwen3-MoE.
//     Model m = build_qwen_experts(checkpoint, qwen3_traits(), {.sizes = {.count = 128, .used = 8, .width = 768}});
#pragma once

#include "families/decoder.h"
#include "families/experts.h"

namespace anemone {

// How they differ. Sizes are the defaults of the reference implementation's configuration class.
struct QwenExperts {
  ExpertSizes sizes;
  int64_t intermediate = 0;   // of layers without experts
  int64_t shared_width = 0;   // of the shared expert; 0: there is none
  bool gguf_divides = false;  // GGUF has no key for it: whether llama.cpp divides the weights by their sum
};

// A decoder of these traits with experts in place of the MLP, in all layers or in those that config.json names.
Model build_qwen_experts(const Checkpoint& checkpoint, DecoderTraits traits, const QwenExperts& how);

}  // namespace anemone
