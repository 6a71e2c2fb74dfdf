// Qwen3: Llama with an RMS norm on each head of q and k before RoPE, and heads whose size is its own number.
#include "families/decoder.h"
#include "families/family.h"
#include "families/qwen.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen3", "Qwen3ForCausalLM"};

Model build(const Checkpoint& c) {
  DecoderTraits traits;
  traits.mlp_bias = Presence::absent;
  traits.head_norm = HeadNorm::before_rope;
  traits.default_eps = 1e-6;
  traits.default_context = 32768;
  traits.default_head_dim = 128;
  Model m = build_decoder(c, traits);
  set_qwen_windows(Hparams(c), m);
  return m;
}

}  // namespace

extern const Family qwen3{.name = "qwen3", .architectures = kNames, .build = build};

}  // namespace anemone::families
