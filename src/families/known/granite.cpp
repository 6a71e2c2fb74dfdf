// Granite 3 and 4, dense: Llama with four multipliers, on the embedding, the scores, what each block adds, and the
// logits, which are divided. GGUF files keep the rows of q and k in pairs.
#include "base/error.h"
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"granite", "GraniteForCausalLM"};

// In config.json a missing one is 1; in GGUF a missing one or a 0 is "off".
constexpr ByNaming<std::optional<double>> kMissing{1.0, std::nullopt};
constexpr ByNaming<bool> kZeroIsOff{false, true};

// What half precision can hold, which the packages compute with: a larger factor leaves nothing but infinities. The
// same the other way round, since one of them divides.
constexpr double kMost = 65504, kLeast = 1 / kMost;

std::optional<double> multiplier(const Hparams& hp, const Key& key) {
  const std::optional<double> value = hp.find_number(key);
  if (kZeroIsOff[hp.naming()] && value == 0.0) return std::nullopt;
  if (value && !(*value > 0))
    throw errorf("{} must be positive", hp.named(key)).at(hp.file()).found(fmt::format("{}", *value));
  if (value && (*value < kLeast || *value > kMost))
    throw errorf("{} is out of range", hp.named(key))
        .at(hp.file())
        .found(fmt::format("{}", *value))
        .expected(fmt::format("{:.2g} to {}", kLeast, kMost));
  return value ? value : kMissing[hp.naming()];
}

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  DecoderTraits traits;
  traits.files.gguf.paired_rows = true;
  traits.default_eps = 1e-6;
  traits.default_context = 2048;
  Model m = build_decoder(c, traits);
  m.embedding.scale = multiplier(hp, {"embedding_multiplier", "embedding_scale"}).value_or(1);
  // It takes the place of 1/sqrt(head size).
  const auto scores = multiplier(hp, {"attention_multiplier", "attention.scale"});
  each_attention(m, [&](Attention& a, size_t) { a.scale = scores.value_or(a.scale); });
  const double residual = multiplier(hp, {"residual_multiplier", "residual_scale"}).value_or(1);
  for (Layer& layer : m.layers)
    for (ResidualStep& step : layer.steps) step.scale = residual;
  std::get<VocabularyHead>(m.head).scale = 1 / multiplier(hp, {"logits_scaling", "logit_scale"}).value_or(1);
  return m;
}

}  // namespace

extern const Family granite{.name = "granite", .architectures = kNames, .build = build};

}  // namespace anemone::families
