// Qwen3: Llama with an RMS norm on each head of q and k before RoPE, and heads whose size is its own number.
#include "families/decoder.h"
#include "families/family.h"
#include "families/qwen.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen3", "Qwen3ForCausalLM"};

Model describe(const Checkpoint& c) {
  DecoderForm form;
  form.mlp_bias = Presence::absent;
  form.head_norm = HeadNorm::before_rope;
  form.default_eps = 1e-6;
  form.default_context = 32768;
  form.default_head_dim = 128;
  Model m = describe_decoder(c, form);
  set_qwen_windows(Hparams(c), m);
  return m;
}

}  // namespace

extern const Family qwen3{.name = "qwen3", .architectures = kNames, .describe = describe};

}  // namespace anemone::families
