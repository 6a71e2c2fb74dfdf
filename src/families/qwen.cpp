#include "families/qwen.h"

namespace anemone {

DecoderTraits qwen2_traits() {
  DecoderTraits traits;
  traits.qkv_bias = Presence::required;
  traits.o_bias = traits.mlp_bias = Presence::absent;
  traits.default_eps = 1e-6;
  traits.default_context = 32768;
  return traits;
}

DecoderTraits qwen3_traits() {
  DecoderTraits traits;
  traits.mlp_bias = Presence::absent;
  traits.head_norm = HeadNorm::before_rope;
  traits.default_eps = 1e-6;
  traits.default_context = 32768;
  traits.default_head_dim = 128;
  return traits;
}

void set_qwen_windows(const Hparams& hp, Model& model, QwenWindows which) {
  if (!hp.find_flag({"use_sliding_window", ""}).value_or(false)) return;
  std::optional<int64_t> window = hp.find_integer(keys::kWindow);
  if (!window && hp.says(keys::kWindow)) return;  // null: none
  if (!window) window = 4096;                     // absent: the configuration class's default
  const size_t layers = model.layers.size();
  std::optional<std::vector<bool>> windowed = find_windowed_layers(hp, layers);
  if (!windowed) {
    const int64_t border = hp.find_integer({"max_window_layers", ""}, 0).value_or(28);
    windowed.emplace(layers);
    for (size_t i = 0; i < layers; ++i) {
      const bool behind = static_cast<int64_t>(i) >= border;
      (*windowed)[i] = which == QwenWindows::from_there_on ? behind : !behind && i % 2 == 0;
    }
  }
  set_windows(model, *window, *windowed);
}

}  // namespace anemone
