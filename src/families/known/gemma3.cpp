// Gemma 3, its text part: like Gemma 2, as published without soft-caps, with a norm on each head of q and k
// before RoPE; every sixth layer is full, the windowed ones have a rope base of their own. A vision part is
// ignored.
#include "families/decoder.h"
#include "families/family.h"
#include "families/gemma.h"
#include "families/rope_params.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"gemma3", "gemma3_text", "Gemma3ForCausalLM",
                                       "Gemma3ForConditionalGeneration"};

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  if (hp.find_flag({"use_bidirectional_attention", ""}).value_or(false))
    throw Error("bidirectional attention is not supported").at(hp.file());
  DecoderTraits traits = gemma_traits();
  traits.head_norm = HeadNorm::before_rope;
  traits.files.hugging_face.default_rope_base = 1000000;
  traits.default_heads = 8;
  traits.default_kv_heads = 4;
  traits.default_vocab = 262208;
  traits.default_context = 131072;
  Model m = build_decoder(c, traits);
  set_gemma_scales(hp, m);
  // "attn_logit_softcapping" stands in its config.json, but no implementation applies it.
  std::get<VocabularyHead>(m.head).softcap =
      gemma_softcap(hp, {"final_logit_softcapping", "final_logit_softcapping"});
  // A file without defaults says the window unless all layers are full.
  if (!hp.has_defaults() && !hp.find_integer(keys::kWindow)) return m;
  m.ropes.push_back(read_rope(hp, {.head_dim = first_attention(m)->head_dim,
                                   .context = m.context,
                                   .base = 10000,
                                   .base_key = {"rope_local_base_freq", "rope.freq_base_swa"},
                                   .layer_type = "sliding_attention",
                                   .scaled = false}));
  const std::vector<bool> windowed = set_gemma_windows(hp, m, 6);
  each_attention(m, [&](Attention& a, size_t i) { a.rope = windowed[i] ? 1 : 0; });
  return m;
}

}  // namespace

extern const Family gemma3{.name = "gemma3", .architectures = kNames, .build = build};

}  // namespace anemone::families
