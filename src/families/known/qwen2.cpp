// Qwen2 and Qwen2.5: Llama with a bias on q, k and v that no key announces.
#include "families/decoder.h"
#include "families/family.h"
#include "families/qwen.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen2", "Qwen2ForCausalLM"};

Model describe(const Checkpoint& c) {
  DecoderForm form;
  form.qkv_bias = Presence::required;
  form.o_bias = form.mlp_bias = Presence::absent;
  form.default_eps = 1e-6;
  form.default_context = 32768;
  Model m = describe_decoder(c, form);
  set_qwen_windows(Hparams(c), m);
  return m;
}

}  // namespace

extern const Family qwen2{.name = "qwen2", .architectures = kNames, .describe = describe};

}  // namespace anemone::families
