// LFM2 and LFM2.5, dense: gated short convolutions in most layers, attention in the others. The final norm is called
// after the embedding, but comes last.
#include <cmath>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/decoder.h"
#include "families/family.h"
#include "families/size_names.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"lfm2", "Lfm2ForCausalLM"};

// How the parts of a convolution are called, of one layer.
struct ConvNames {
  const char* in;
  const char* taps;
  const char* out;
};
constexpr ByNaming<ConvNames> kConv{{"conv.in_proj", "conv.conv", "conv.out_proj"},
                                    {"shortconv.in_proj", "shortconv.conv", "shortconv.out_proj"}};

// Which layers attend. config.json has a type for each, or a list of those that do.
std::vector<bool> config_attending(const Hparams& hp, size_t layers) {
  std::vector<bool> out(layers, true);
  if (const auto types = hp.find_layer_texts({"layer_types", ""}, layers)) {
    for (size_t i = 0; i < layers; ++i) {
      if ((*types)[i] != "conv" && (*types)[i] != "full_attention")
        throw Error("'layer_types' has a type that is not supported")
            .at(hp.file())
            .found(printable((*types)[i]))
            .expected("conv or full_attention");
      out[i] = (*types)[i] == "full_attention";
    }
  } else if (const auto which =
                 hp.find_integers({"full_attn_idxs", ""}, 0, static_cast<int64_t>(layers) - 1)) {
    out.assign(layers, false);
    for (const int64_t i : *which) out[static_cast<size_t>(i)] = true;
  }
  return out;
}

// GGUF says it by the number of key heads, which is 0 for convolutions.
std::vector<bool> gguf_attending(const Hparams& hp, size_t layers) {
  std::vector<bool> out(layers, true);
  const auto heads = hp.find_layer_integers(keys::kKvHeads, layers);
  for (size_t i = 0; heads && i < layers; ++i) out[i] = (*heads)[i] > 0;
  return out;
}

constexpr ByNaming<std::vector<bool> (*)(const Hparams&, size_t)> kAttending{config_attending,
                                                                             gguf_attending};

constexpr Key kBlockWidth{"block_ff_dim", ""};

// The width in config.json is not that of the MLP, unless a key turns the adjustment off.
int64_t config_mlp_width(const Hparams& hp) {
  std::optional<int64_t> said = hp.find_integer(kBlockWidth, 2, 1 << 26);
  if (!said) said = hp.find_integer(keys::kIntermediate, 2, 1 << 26);
  int64_t width = said.value_or(12288);
  if (!hp.find_flag({"block_auto_adjust_ff_dim", ""}).value_or(true)) return width;
  width = 2 * width / 3;
  const Key multiplier{"block_ffn_dim_multiplier", ""};
  if (hp.says(multiplier) && !hp.find_number(multiplier)) return width;
  width = static_cast<int64_t>(hp.find_number(multiplier).value_or(1) * static_cast<double>(width));
  const int64_t unit = hp.find_integer({"block_multiple_of", ""}).value_or(256);
  return (width + unit - 1) / unit * unit;
}

int64_t gguf_mlp_width(const Hparams& hp) { return hp.integer(keys::kIntermediate, 2, 1 << 26); }

constexpr ByNaming<int64_t (*)(const Hparams&)> kMlpWidth{config_mlp_width, gguf_mlp_width};

// Of the layers that attend, which must have the same number; 0 where nothing is said.
int64_t key_heads(const Hparams& hp, size_t layers) {
  int64_t out = 0;
  const auto heads = hp.find_layer_integers(keys::kKvHeads, layers);
  for (size_t i = 0; heads && i < layers; ++i) {
    const int64_t n = (*heads)[i];
    if (n && out && n != out)
      throw errorf("{} differs from layer to layer, which is not supported", hp.named(keys::kKvHeads))
          .at(hp.file())
          .found(fmt::format("{} before layer {}, {} in it", out, i, n));
    if (n) out = n;
  }
  return out;
}

ShortConv short_conv(const Hparams& hp, const TensorNames& name, int64_t hidden, size_t layer) {
  const ConvNames& parts = kConv[hp.naming()];
  const std::string in = name(layer, parts.in) + ".weight";
  ShortConv conv;
  conv.width = hidden;
  conv.kernel = hp.find_integer({"conv_L_cache", "shortconv.l_cache"}, 2, 64).value_or(3);
  conv.gate_in.weight = {in, 0, hidden, hidden};
  conv.gate_out.weight = {in, hidden, 2 * hidden, hidden};
  conv.value.weight = {in, 2 * hidden, 3 * hidden, hidden};
  conv.taps = {name(layer, parts.taps) + ".weight", 0, hidden, conv.kernel};
  conv.o.weight = {name(layer, parts.out) + ".weight", 0, hidden, hidden};
  return conv;
}

ByNaming<DecoderFiles> lfm2_files() {
  ByNaming<DecoderFiles> files = llama_files();
  DecoderFiles& named = files.hugging_face;
  named.attention_norm = "operator_norm";
  named.o = "self_attn.out_proj";
  named.q_norm = "self_attn.q_layernorm";
  named.k_norm = "self_attn.k_layernorm";
  named.mlp_norm = "ffn_norm";
  named.gate = "feed_forward.w1";
  named.up = "feed_forward.w3";
  named.down = "feed_forward.w2";
  named.final_norm = "embedding_norm";
  files.gguf.final_norm = "token_embd_norm";
  files.hugging_face.default_rope_base = files.gguf.default_rope_base = 1000000;
  return files;
}

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  if (hp.find_flag({"conv_bias", ""}).value_or(false))
    throw Error("convolutions with biases are not supported").at(hp.file()).found("'conv_bias'");
  expect_no_window(hp);
  const auto layers = static_cast<size_t>(hp.integer(keys::kLayers, 1, 4096));
  const std::vector<bool> attends = kAttending[hp.naming()](hp, layers);
  DecoderTraits traits;
  traits.qkv_bias = traits.o_bias = traits.mlp_bias = Presence::absent;
  traits.head_norm = HeadNorm::before_rope;
  traits.tied_by_default = hp.find_flag({"tie_embedding", ""}).value_or(true);
  traits.default_eps = 1e-5;
  traits.default_context = 128000;
  traits.eps_key = {"norm_eps", "attention.layer_norm_rms_epsilon"};
  traits.intermediate = kMlpWidth[hp.naming()](hp);
  traits.kv_heads = key_heads(hp, layers);
  traits.files = lfm2_files();
  Model m = build_decoder(c, traits);
  if (hp.says(kBlockWidth)) m.origins[std::string(size_names::kMlp)] = hp.named(kBlockWidth);
  const TensorNames name(c, traits.files[hp.naming()].parts);
  for (size_t i = 0; i < layers; ++i)
    if (!attends[i]) m.layers[i].steps[0].block = short_conv(hp, name, m.hidden, i);
  return m;
}

}  // namespace

extern const Family lfm2{.name = "lfm2", .architectures = kNames, .build = build};

}  // namespace anemone::families
