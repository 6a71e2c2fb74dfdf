// SmolLM3: Llama, with every fourth layer left without a rotation. GGUF files keep the rows of q and k in pairs, and do
// not say which layers those are.
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"smollm3", "SmolLM3ForCausalLM"};

// "no_rope_layers" has a 1 for the layers that do rotate.
std::vector<bool> rotating(const Hparams& hp, size_t layers) {
  if (const auto said = hp.find_layer_flags({"no_rope_layers", ""}, layers)) return *said;
  const auto interval = static_cast<size_t>(hp.find_integer({"no_rope_layer_interval", ""}).value_or(4));
  std::vector<bool> out(layers);
  for (size_t i = 0; i < layers; ++i) out[i] = (i + 1) % interval != 0;
  return out;
}

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  DecoderTraits traits;
  traits.files.gguf.paired_rows = true;
  traits.tied_by_default = true;
  traits.default_eps = 1e-6;
  traits.files.hugging_face.default_rope_base = traits.files.gguf.default_rope_base = 2000000;
  traits.default_context = 32768;
  Model m = build_decoder(c, traits);
  const std::vector<bool> rotates = rotating(hp, m.layers.size());
  each_attention(m, [&](Attention& a, size_t i) {
    if (!rotates[i]) a.rope.reset();
  });
  if (!hp.find_flag({"use_sliding_window", ""}).value_or(false)) return m;
  if (const auto window = hp.find_integer(keys::kWindow)) {
    std::vector<bool> windowed = rotates;
    windowed.flip();
    set_windows(m, *window, find_windowed_layers(hp, m.layers.size()).value_or(windowed));
  }
  return m;
}

}  // namespace

extern const Family smollm3{.name = "smollm3", .architectures = kNames, .build = build};

}  // namespace anemone::families
