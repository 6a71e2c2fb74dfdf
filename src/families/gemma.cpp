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
  const GgufFile& gguf = hp.checkpoint().gguf();
  const std::string key = hp.checkpoint().architecture() + ".attention.sliding_window_pattern";
  const GgufValue* value = gguf.find(key);
  if (!value) return every_last_full(layers, period);
  if (!value->is_array) {
    const int64_t given = hp.integer({"", "attention.sliding_window_pattern"});
    return every_last_full(layers, given);
  }
  std::vector<bool> windowed = gguf.booleans(key);
  if (windowed.size() != layers)
    throw errorf("'{}' has another number of layers than the model", key)
        .at(hp.file())
        .found(std::to_string(windowed.size()))
        .expected(fmt::format("{} ({})", layers, hp.named(keys::kLayers)));
  return windowed;
}

}  // namespace

DecoderForm gemma_form() {
  DecoderForm form;
  form.mlp_bias = Presence::absent;
  form.post_norms = true;
  form.tied_by_default = true;
  form.activation = Activation::gelu_tanh;
  form.activation_key = "hidden_activation";  // "hidden_act" stands in old files too, and means nothing
  form.stored_norm_offset = 1;
  form.default_eps = 1e-6;
  form.default_head_dim = 256;
  return form;
}

void set_gemma_scales(const Hparams& hp, Model& model) {
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  if (hp.is_gguf()) {
    const size_t layers = model.layers.size();
    const bool is_27b = layers == 46 || layers == 62;
    const double head = is_27b ? static_cast<double>(model.hidden) / static_cast<double>(model.heads)
                               : static_cast<double>(model.head_dim);
    model.query_scale = hp.find_number({"", "attention.scale"}).value_or(1 / std::sqrt(head));
    return;
  }
  const double scalar = hp.find_number({"query_pre_attn_scalar", ""}).value_or(256);
  if (!(scalar > 0))
    throw Error("'query_pre_attn_scalar' must be positive").at(hp.file()).found(fmt::format("{}", scalar));
  model.query_scale = 1 / std::sqrt(scalar);
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
