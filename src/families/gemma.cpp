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

std::vector<bool> gguf_pattern(const Hparams& hp, size_t layers, int64_t period) {
  const Key key{"", "attention.sliding_window_pattern"};
  if (!hp.is_list(key)) return every_last_full(layers, hp.find_integer(key).value_or(period));
  return *hp.find_layer_flags(key, layers);
}

}  // namespace

DecoderTraits gemma_traits() {
  DecoderTraits traits;
  traits.mlp_bias = Presence::absent;
  traits.norms = StepNorms::around;
  traits.tied_by_default = true;
  traits.activation = Activation::gelu_tanh;
  traits.activation_key = "hidden_activation";  // "hidden_act" stands in old files too, and means nothing
  traits.stored_norm_offset = 1;
  traits.default_eps = 1e-6;
  traits.default_head_dim = 256;
  return traits;
}

void set_gemma_scales(const Hparams& hp, Model& model) {
  model.embedding.scale = std::sqrt(static_cast<double>(model.hidden));
  double scale = 0;
  if (hp.is_gguf()) {
    const size_t layers = model.layers.size();
    const bool is_27b = layers == 46 || layers == 62;
    const Attention& a = *first_attention(model);
    const double head = is_27b ? static_cast<double>(model.hidden) / static_cast<double>(a.heads)
                               : static_cast<double>(a.head_dim);
    scale = hp.find_number({"", "attention.scale"}).value_or(1 / std::sqrt(head));
  } else {
    const double scalar = hp.find_number({"query_pre_attn_scalar", ""}).value_or(256);
    if (!(scalar > 0))
      throw Error("'query_pre_attn_scalar' must be positive").at(hp.file()).found(fmt::format("{}", scalar));
    scale = 1 / std::sqrt(scalar);
  }
  each_attention(model, [&](Attention& a, size_t) { a.scale = scale; });
}

double gemma_softcap(const Hparams& hp, const Key& key) {
  const double cap = hp.find_number(key).value_or(0);
  if (cap < 0)
    throw errorf("{} cannot be negative", hp.named(key)).at(hp.file()).found(fmt::format("{}", cap));
  return cap;
}

std::vector<bool> set_gemma_windows(const Hparams& hp, Model& model, int64_t period) {
  const size_t layers = model.layers.size();
  std::vector<bool> windowed;
  if (hp.is_gguf()) {
    windowed = gguf_pattern(hp, layers, period);
  } else if (const auto types = find_windowed_layers(hp, layers)) {
    windowed = *types;
  } else {
    std::optional<int64_t> given = hp.find_integer({"sliding_window_pattern", ""});
    if (!given) given = hp.find_integer({"_sliding_window_pattern", ""});
    windowed = every_last_full(layers, given.value_or(period));
  }
  // The configuration class's default; GGUF files always say it.
  const int64_t window =
      hp.is_gguf() ? hp.integer(keys::kWindow) : hp.find_integer(keys::kWindow).value_or(4096);
  set_windows(model, window, windowed);
  return windowed;
}

}  // namespace anemone
