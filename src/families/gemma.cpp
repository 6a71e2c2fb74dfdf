#include "families/gemma.h"

#include <cmath>

#include "base/error.h"

namespace anemone {
namespace {

std::vector<bool> every_last_full(size_t layers, int64_t period) {
  std::vector<bool> windowed(layers);
  for (size_t i = 0; i < layers; ++i) windowed[i] = (static_cast<int64_t>(i) + 1) % period != 0;
  return windowed;
}

// GGUF files do not say it of most models: it is 1/sqrt(head size) in all of them but the 27B models, which have 46
// and 62 layers and use the hidden size per head.
double gguf_query_scale(const Hparams& hp, const Model& model) {
  const size_t layers = model.layers.size();
  const bool is_27b = layers == 46 || layers == 62;
  const Attention& a = *first_attention(model);
  const double head = is_27b ? static_cast<double>(model.hidden) / static_cast<double>(a.heads)
                             : static_cast<double>(a.head_dim);
  return hp.find_number({"", "attention.scale"}).value_or(1 / std::sqrt(head));
}

double config_query_scale(const Hparams& hp, const Model&) {
  const double scalar = hp.find_number({"query_pre_attn_scalar", ""}).value_or(256);
  if (!(scalar > 0))
    throw Error("'query_pre_attn_scalar' must be positive").at(hp.file()).found(fmt::format("{}", scalar));
  return 1 / std::sqrt(scalar);
}

constexpr ByNaming<double (*)(const Hparams&, const Model&)> kQueryScale{config_query_scale,
                                                                         gguf_query_scale};

// As the keys say: a type for each layer, a flag for each layer, or a period.
std::vector<bool> windowed_layers(const Hparams& hp, size_t layers, int64_t period) {
  if (const auto types = find_windowed_layers(hp, layers)) return *types;
  constexpr Key kFlags{"", "attention.sliding_window_pattern"};
  if (hp.is_list(kFlags)) return *hp.find_layer_flags(kFlags, layers);
  for (const Key& key : {kFlags, Key{"sliding_window_pattern", ""}, Key{"_sliding_window_pattern", ""}})
    if (const auto said = hp.find_integer(key)) return every_last_full(layers, *said);
  return every_last_full(layers, period);
}

}  // namespace

DecoderTraits gemma_traits() {
  DecoderTraits traits;
  traits.mlp_bias = Presence::absent;
  traits.norms = StepNorms::around;
  traits.tied_by_default = true;
  traits.activation = Activation::gelu_tanh;
  traits.activation_key = {"hidden_activation",
                           ""};  // "hidden_act" stands in old files too, and means nothing
  traits.files.hugging_face.mlp_norm = "pre_feedforward_layernorm";
  traits.files.hugging_face.norm_offset = 1;  // GGUF files have it added already
  traits.default_eps = 1e-6;
  traits.default_head_dim = 256;
  return traits;
}

void set_gemma_scales(const Hparams& hp, Model& model) {
  model.embedding.scale = std::sqrt(static_cast<double>(model.hidden));
  const double scale = kQueryScale[hp.naming()](hp, model);
  each_attention(model, [&](Attention& a, size_t) { a.scale = scale; });
}

double gemma_softcap(const Hparams& hp, const Key& key) {
  const double cap = hp.find_number(key).value_or(0);
  if (cap < 0)
    throw errorf("{} cannot be negative", hp.named(key)).at(hp.file()).found(fmt::format("{}", cap));
  return cap;
}

std::vector<bool> set_gemma_windows(const Hparams& hp, Model& model, int64_t period) {
  const std::vector<bool> windowed = windowed_layers(hp, model.layers.size(), period);
  set_windows(model, hp.integer_or(keys::kWindow, 4096), windowed);
  return windowed;
}

}  // namespace anemone
