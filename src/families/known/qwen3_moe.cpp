// Qwen3-MoE: Qwen3 with experts in place of the MLP, in all layers or in some.
#include <algorithm>

#include "base/error.h"
#include "families/experts.h"
#include "families/family.h"
#include "families/qwen.h"
#include "families/shared_keys.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"qwen3moe", "Qwen3MoeForCausalLM"};
constexpr Key kCount{"num_experts", "expert_count"}, kCountToo{"num_local_experts", "expert_count"},
    kUsed{"num_experts_per_tok", "expert_used_count"},
    kWidth{"moe_intermediate_size", "expert_feed_forward_length"};

ExpertKeys expert_keys(const Hparams& hp) {
  return {hp.says(kCount) || !hp.says(kCountToo) ? kCount : kCountToo, kUsed, kWidth};
}

// Which layers have experts. config.json may leave some out; GGUF has no such key.
std::vector<bool> sparse_layers(const Hparams& hp, size_t layers) {
  const int64_t step = hp.find_integer({"decoder_sparse_step", ""}).value_or(1);
  std::vector<bool> out(layers);
  for (size_t i = 0; i < layers; ++i) out[i] = static_cast<int64_t>(i + 1) % step == 0;
  if (const auto dense = hp.find_integers({"mlp_only_layers", ""}, 0, static_cast<int64_t>(layers) - 1))
    for (const int64_t i : *dense) out[static_cast<size_t>(i)] = false;
  return out;
}

// config.json leaves the flag out for false. GGUF has none: llama.cpp always divides by the sum.
Experts::Share read_share(const Hparams& hp) {
  const Key key{"norm_topk_prob", ""};
  const bool divided = !hp.spells(key) || hp.find_flag(key).value_or(false);
  return divided ? Experts::Share::of_chosen : Experts::Share::of_all;
}

// The weights of one layer's experts: one tensor a part and expert, or a stack with gate and up together.
GatedMlp config_expert(const Checkpoint& c, const TensorNames& name, size_t layer, size_t i, int64_t width,
                       int64_t hidden) {
  GatedMlp mlp;
  const std::string at = name(layer, "mlp.experts."), stack = at + "gate_up_proj";
  if (c.find(stack)) {
    mlp.gate.weight = of_stack(stack, i, {.end = width, .columns = hidden});
    mlp.up.weight = of_stack(stack, i, {.begin = width, .end = 2 * width, .columns = hidden});
    mlp.down.weight = of_stack(at + "down_proj", i, {.end = hidden, .columns = width});
    return mlp;
  }
  const std::string own = at + std::to_string(i) + ".";
  mlp.gate.weight = {own + "gate_proj.weight", 0, width, hidden};
  mlp.up.weight = {own + "up_proj.weight", 0, width, hidden};
  mlp.down.weight = {own + "down_proj.weight", 0, hidden, width};
  return mlp;
}

GatedMlp gguf_expert(const Checkpoint&, const TensorNames& name, size_t layer, size_t i, int64_t width,
                     int64_t hidden) {
  GatedMlp mlp;
  const auto part = [&](const char* what, int64_t rows, int64_t columns) {
    return of_stack(name(layer, what) + ".weight", i, {.end = rows, .columns = columns});
  };
  mlp.gate.weight = part("ffn_gate_exps", width, hidden);
  mlp.up.weight = part("ffn_up_exps", width, hidden);
  mlp.down.weight = part("ffn_down_exps", hidden, width);
  return mlp;
}

constexpr ByNaming<GatedMlp (*)(const Checkpoint&, const TensorNames&, size_t, size_t, int64_t, int64_t)>
    kExpert{config_expert, gguf_expert};
constexpr ByNaming<const char*> kRouter{"mlp.gate", "ffn_gate_inp"};

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  const ExpertKeys keys = expert_keys(hp);
  const ExpertSizes sizes = read_expert_sizes(hp, keys, {.count = 128, .used = 8, .width = 768});
  DecoderTraits traits = qwen3_traits();
  traits.experts = true;
  if (!hp.says(keys::kIntermediate)) traits.intermediate = sizes.width;
  Model m = build_decoder(c, traits);
  set_qwen_windows(hp, m);
  note_expert_origins(hp, keys, m);
  const TensorNames name(c, traits.files[hp.naming()].parts);
  const Activation activation = read_activation(hp, traits.activation_key, traits.activation);
  const std::vector<bool> sparse = sparse_layers(hp, m.layers.size());
  for (size_t layer = 0; layer < m.layers.size(); ++layer) {
    if (!sparse[layer]) continue;
    Experts e;
    e.width = sizes.width;
    e.used = sizes.used;
    e.share = read_share(hp);
    e.router.logits.weight = {name(layer, kRouter[hp.naming()]) + ".weight", 0, sizes.count, m.hidden};
    for (size_t i = 0; i < static_cast<size_t>(sizes.count); ++i) {
      e.experts.push_back(kExpert[hp.naming()](c, name, layer, i, sizes.width, m.hidden));
      e.experts.back().width = sizes.width;
      e.experts.back().activation = activation;
    }
    m.layers[layer].steps[1].block = std::move(e);
  }
  return m;
}

}  // namespace

extern const Family qwen3_moe{.name = "qwen3-moe", .architectures = kNames, .build = build};

}  // namespace anemone::families
