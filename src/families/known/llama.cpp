// Llama 2, 3 and 3.x, and what has the same form: SmolLM2, Mistral. GGUF files of this architecture keep the
// rows of q and k in pairs. Mistral may have a window in every layer.
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"llama", "LlamaForCausalLM", "mistral", "MistralForCausalLM"};

// By config.json. A GGUF file of a Mistral is a llama.
bool is_mistral(const Hparams& hp) {
  const std::string type = hp.find_text({"model_type", ""}).value_or("");
  return type.empty() ? hp.checkpoint().architecture() == "MistralForCausalLM" : type == "mistral";
}

// In GGUF the key means what it says. config.json of a Llama may have it too, but it means nothing there. In Mistral's,
// null means none and absent the configuration class's default.
int64_t window(const Hparams& hp) {
  constexpr Key kGguf{"", keys::kWindow.gguf}, kConfig{keys::kWindow.hugging_face, ""};
  if (const auto said = hp.find_integer(kGguf, 0)) return *said;
  if (!is_mistral(hp)) return 0;
  return hp.find_integer(kConfig, 0).value_or(hp.says(kConfig) ? 0 : 4096);
}

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  DecoderTraits traits;
  traits.files.gguf.paired_rows = true;
  traits.default_eps = 1e-6;
  traits.default_context = is_mistral(hp) ? 131072 : 2048;
  Model m = build_decoder(c, traits);
  if (hp.find_flag({"rope_interleaved", ""}).value_or(false))
    throw Error("rotation of neighboring dimensions is not supported")
        .at(hp.file())
        .found("'rope_interleaved'");
  set_windows(m, window(hp), std::vector<bool>(m.layers.size(), true));
  return m;
}

}  // namespace

extern const Family llama{.name = "llama", .architectures = kNames, .build = build};

}  // namespace anemone::families
