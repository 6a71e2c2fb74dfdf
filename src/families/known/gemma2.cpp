// Gemma 2: embedding times sqrt(hidden), norms with 1 + γ before and behind attention and MLP, GeGLU,
// soft-caps on attention scores and logits, every other layer windowed (the first is).
#include "families/decoder.h"
#include "families/family.h"
#include "families/gemma.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"gemma2", "Gemma2ForCausalLM"};

// In config.json absent means the configuration class's default, and null none; GGUF files always have it.
double softcap(const Hparams& hp, const Key& key, double otherwise) {
  return hp.says(key) ? gemma_softcap(hp, key) : hp.number_or(key, otherwise);
}

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  DecoderTraits traits = gemma_traits();
  traits.default_context = 8192;
  Model m = build_decoder(c, traits);
  set_gemma_scales(hp, m);
  set_gemma_windows(hp, m, 2);
  const double cap = softcap(hp, {"attn_logit_softcapping", "attn_logit_softcapping"}, 50);
  each_attention(m, [&](Attention& a, size_t) { a.softcap = cap; });
  std::get<VocabularyHead>(m.head).softcap =
      softcap(hp, {"final_logit_softcapping", "final_logit_softcapping"}, 30);
  return m;
}

}  // namespace

extern const Family gemma2{.name = "gemma2", .architectures = kNames, .build = build};

}  // namespace anemone::families
