// OLMo 2: no norm before the blocks but one behind each, and norms of q and k over all heads together.
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"olmo2", "Olmo2ForCausalLM"};

Model build(const Checkpoint& c) {
  DecoderTraits traits;
  traits.mlp_bias = Presence::absent;
  traits.head_norm = HeadNorm::over_width;
  traits.norms = StepNorms::behind;
  traits.default_eps = 1e-5;
  traits.files.hugging_face.default_rope_base = 500000;
  traits.default_context = 2048;
  Model m = build_decoder(c, traits);
  expect_no_window(Hparams(c));  // GGUF files of OLMo 3 have the same name and windows
  return m;
}

}  // namespace

extern const Family olmo2{.name = "olmo2", .architectures = kNames, .build = build};

}  // namespace anemone::families
