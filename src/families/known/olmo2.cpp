// OLMo 2: no norm before the blocks but one behind each, and norms of q and k over all heads together.
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"olmo2", "Olmo2ForCausalLM"};

Model describe(const Checkpoint& c) {
  const Hparams hp(c);
  DecoderTraits traits;
  traits.mlp_bias = Presence::absent;
  traits.head_norm = HeadNorm::over_width;
  traits.norms = StepNorms::behind;
  traits.default_eps = 1e-5;
  traits.default_rope_base = hp.is_gguf() ? 10000 : 500000;
  traits.default_context = 2048;
  Model m = describe_decoder(c, traits);
  // GGUF files of OLMo 3 have the same name and windows.
  if (hp.is_gguf()) expect_no_window(hp);
  return m;
}

}  // namespace

extern const Family olmo2{.name = "olmo2", .architectures = kNames, .describe = describe};

}  // namespace anemone::families
