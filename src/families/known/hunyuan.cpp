// Hunyuan dense v1, as in Hy-MT 1.5: like Qwen3, but the norm of the heads of q and k comes after RoPE, and
// the rope base is stretched by alpha (in GGUF it is stored stretched).
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"hunyuan-dense", "hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM"};

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  DecoderTraits traits;
  traits.files.hugging_face.q_norm = "self_attn.query_layernorm";
  traits.files.hugging_face.k_norm = "self_attn.key_layernorm";
  // Implementations differ in whether "use_qk_norm": false has a say. A file that has the norms means them.
  const DecoderFiles& files = traits.files[hp.naming()];
  const bool said = hp.find_flag({"use_qk_norm", ""}).value_or(true);
  const bool there = c.find(TensorNames(c, files.parts)(0, files.q_norm) + ".weight") != nullptr;
  traits.head_norm = said || there ? HeadNorm::after_rope : HeadNorm::none;
  traits.default_eps = 1e-5;
  traits.default_context = 2048;
  return build_decoder(c, traits);
}

}  // namespace

extern const Family hunyuan{.name = "hunyuan", .architectures = kNames, .build = build};

}  // namespace anemone::families
