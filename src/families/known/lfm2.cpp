// LFM2 and LFM2.5, dense: gated short convolutions in most layers, attention in the others. The final norm is called
// after the embedding, but comes last.
#include <cmath>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/decoder.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"lfm2", "Lfm2ForCausalLM"};

// Which layers attend. GGUF says it by the number of key heads, which is 0 for convolutions.
std::vector<bool> attending(const Hparams& hp, size_t layers) {
  std::vector<bool> out(layers, true);
  if (hp.is_gguf()) {
    const auto heads = hp.find_layer_integers(keys::kKvHeads, layers);
    for (size_t i = 0; heads && i < layers; ++i) out[i] = (*heads)[i] > 0;
  } else if (const auto types = hp.find_layer_texts({"layer_types", ""}, layers)) {
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

// config.json says another width than the MLP has, unless told not to adjust it.
int64_t mlp_width(const Hparams& hp) {
  std::optional<int64_t> said = hp.find_integer({"block_ff_dim", "feed_forward_length"}, 2, 1 << 26);
  if (!said) said = hp.find_integer(keys::kIntermediate, 2, 1 << 26);
  if (hp.is_gguf()) return said ? *said : throw hp.missing(keys::kIntermediate);
  int64_t width = said.value_or(12288);
  if (!hp.find_flag({"block_auto_adjust_ff_dim", ""}).value_or(true)) return width;
  width = 2 * width / 3;
  const Key multiplier{"block_ffn_dim_multiplier", ""};
  if (hp.says(multiplier) && !hp.find_number(multiplier)) return width;
  width = static_cast<int64_t>(hp.find_number(multiplier).value_or(1) * static_cast<double>(width));
  const int64_t unit = hp.find_integer({"block_multiple_of", ""}).value_or(256);
  return (width + unit - 1) / unit * unit;
}

ShortConv short_conv(const Hparams& hp, const Model& m, size_t layer) {
  const bool gguf = hp.is_gguf();
  const auto name = [&](const char* part) {
    return gguf ? fmt::format("blk.{}.shortconv.{}.weight", layer, part)
                : fmt::format("model.layers.{}.conv.{}.weight", layer, part);
  };
  ShortConv conv;
  conv.width = m.hidden;
  conv.kernel = hp.find_integer({"conv_L_cache", "shortconv.l_cache"}, 2, 64).value_or(3);
  const int64_t h = m.hidden;
  conv.gate_in.weight = {name("in_proj"), 0, h, h};
  conv.gate_out.weight = {name("in_proj"), h, 2 * h, h};
  conv.value.weight = {name("in_proj"), 2 * h, 3 * h, h};
  conv.taps = {name("conv"), 0, h, conv.kernel};
  conv.o.weight = {name("out_proj"), 0, h, h};
  return conv;
}

Model describe(const Checkpoint& c) {
  const Hparams hp(c);
  if (hp.find_flag({"conv_bias", ""}).value_or(false))
    throw Error("convolutions with biases are not supported").at(hp.file()).found("'conv_bias'");
  const auto layers = static_cast<size_t>(hp.integer(keys::kLayers, 1, 4096));
  const std::vector<bool> attends = attending(hp, layers);
  DecoderTraits traits;
  traits.qkv_bias = traits.o_bias = traits.mlp_bias = Presence::absent;
  traits.head_norm = HeadNorm::before_rope;
  traits.tied_by_default = hp.find_flag({"tie_embedding", ""}).value_or(true);
  traits.default_eps = 1e-5;
  traits.default_rope_base = 1000000;
  traits.default_context = 128000;
  traits.eps_key = {"norm_eps", "attention.layer_norm_rms_epsilon"};
  traits.intermediate = mlp_width(hp);
  if (const auto heads = hp.find_layer_integers(keys::kKvHeads, layers))
    for (const int64_t n : *heads) traits.kv_heads = std::max(traits.kv_heads, n);
  traits.names = {.attention_norm = "operator_norm",
                  .o = "self_attn.out_proj",
                  .q_norm = "self_attn.q_layernorm",
                  .k_norm = "self_attn.k_layernorm",
                  .mlp_norm = "ffn_norm",
                  .gate = "feed_forward.w1",
                  .up = "feed_forward.w3",
                  .down = "feed_forward.w2",
                  .final_norm = "embedding_norm",
                  .gguf_final_norm = "token_embd_norm"};
  Model m = describe_decoder(c, traits);
  for (size_t i = 0; i < layers; ++i)
    if (!attends[i]) m.layers[i].steps[0].block = short_conv(hp, m, i);
  return m;
}

}  // namespace

extern const Family lfm2{.name = "lfm2", .architectures = kNames, .describe = describe};

}  // namespace anemone::families
