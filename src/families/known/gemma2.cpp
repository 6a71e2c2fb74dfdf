// Gemma 2: embedding times sqrt(hidden), norms with 1 + γ before and behind attention and MLP, GeGLU,
// soft-caps on attention scores and logits, every other layer windowed (the first is).
#include "families/decoder.h"
#include "families/family.h"
#include "families/gemma.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"gemma2", "Gemma2ForCausalLM"};

// Absent in config.json means the configuration class's default, null means none.
double softcap(const Hparams& hp, const Key& key, double otherwise) {
  const std::optional<double> value = hp.find_number(key);
  if (!value && hp.is_gguf()) throw hp.missing(key);
  if (!value) return hp.says(key) ? 0 : otherwise;
  if (*value < 0) throw Error("a soft-cap cannot be negative").at(hp.file()).found(hp.named(key));
  return *value;
}

Model describe(const Checkpoint& c) {
  const Hparams hp(c);
  Model m = describe_decoder(c, gemma_form());
  set_gemma_scales(hp, m);
  set_gemma_windows(hp, m, 2);
  m.attention_softcap = softcap(hp, {"attn_logit_softcapping", "attn_logit_softcapping"}, 50);
  m.logit_softcap = softcap(hp, {"final_logit_softcapping", "final_logit_softcapping"}, 30);
  return m;
}

}  // namespace

extern const Family gemma2{.name = "gemma2", .architectures = kNames, .describe = describe};

}  // namespace anemone::families
