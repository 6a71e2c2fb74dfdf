// gpt-oss: experts with a clamped gate, sinks in every attention, every other layer windowed.
#include <algorithm>

#include "base/error.h"
#include "families/decoder.h"
#include "families/experts.h"
#include "families/family.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"gpt-oss", "GptOssForCausalLM"};
constexpr ExpertKeys kKeys{.count = {"num_local_experts", "expert_count"},
                           .used = {"num_experts_per_tok", "expert_used_count"},
                           .width = {"intermediate_size", "expert_feed_forward_length"}};

ByNaming<DecoderFiles> gpt_oss_files() {
  ByNaming<DecoderFiles> files = llama_files();
  files.gguf.mlp_norm = "post_attention_norm";
  files.hugging_face.default_rope_base = files.gguf.default_rope_base = 150000;
  return files;
}

// Expert i of a layer: sizes of the model's stream and of the expert.
struct Place {
  const Checkpoint& c;
  const TensorNames& name;
  size_t layer, i;
  int64_t hidden, width;
};

// Gate and up lie row by row in turns. In MXFP4 the matrices are [out, in], otherwise [in, out].
GatedMlp config_expert(const Place& p) {
  const std::string gate_up = p.name(p.layer, "mlp.experts.gate_up_proj"),
                    down = p.name(p.layer, "mlp.experts.down_proj");
  const TensorReader* found = p.c.find(gate_up);
  const bool turned = !found || found->type_name() != "MXFP4";
  const auto half = [&](int64_t begin) {
    return Projection{
        of_stack(gate_up, p.i,
                 {.begin = begin,
                  .end = begin + p.width,
                  .columns = p.hidden,
                  .transposed = turned,
                  .paired = 2 * p.width}),
        of_stack(gate_up + "_bias", p.i, {.begin = begin, .end = begin + p.width, .paired = 2 * p.width})};
  };
  GatedMlp mlp;
  mlp.gate = half(0);
  mlp.up = half(p.width);
  mlp.down = {of_stack(down, p.i, {.end = p.hidden, .columns = p.width, .transposed = turned}),
              of_stack(down + "_bias", p.i, {.end = p.hidden})};
  return mlp;
}

GatedMlp gguf_expert(const Place& p) {
  const auto part = [&](const char* what, int64_t rows, int64_t columns) {
    const std::string tensor = p.name(p.layer, what);
    return Projection{of_stack(tensor + ".weight", p.i, {.end = rows, .columns = columns}),
                      of_stack(tensor + ".bias", p.i, {.end = rows})};
  };
  GatedMlp mlp;
  mlp.gate = part("ffn_gate_exps", p.width, p.hidden);
  mlp.up = part("ffn_up_exps", p.width, p.hidden);
  mlp.down = part("ffn_down_exps", p.hidden, p.width);
  return mlp;
}

constexpr ByNaming<GatedMlp (*)(const Place&)> kExpert{config_expert, gguf_expert};
constexpr ByNaming<const char*> kRouter{"mlp.router", "ffn_gate_inp"};
constexpr ByNaming<const char*> kSinks{"self_attn.sinks", "attn_sinks.weight"};

Experts experts_of(const Hparams& hp, const TensorNames& name, size_t layer, const ExpertSizes& sizes,
                   int64_t hidden) {
  Experts e;
  e.width = sizes.width;
  e.used = sizes.used;
  e.share = Experts::Share::of_chosen;
  const std::string router = name(layer, kRouter[hp.naming()]);
  e.router.logits = {{router + ".weight", 0, sizes.count, hidden}, {router + ".bias", 0, sizes.count, 1}};
  for (size_t i = 0; i < static_cast<size_t>(sizes.count); ++i) {
    GatedMlp mlp = kExpert[hp.naming()]({hp.checkpoint(), name, layer, i, hidden, sizes.width});
    mlp.width = sizes.width;
    mlp.limit = hp.find_number({"swiglu_limit", ""}).value_or(7);
    mlp.slope = hp.find_number({"swiglu_alpha", ""}).value_or(1.702);
    if (!(mlp.limit > 0 && mlp.limit <= 1000))
      throw errorf("{} is out of range", hp.named({"swiglu_limit", ""}))
          .at(hp.file())
          .found(fmt::format("{}", mlp.limit));
    e.experts.push_back(std::move(mlp));
  }
  return e;
}

Model build(const Checkpoint& c) {
  const Hparams hp(c);
  const ExpertSizes sizes = read_expert_sizes(hp, kKeys, {.count = 128, .used = 4, .width = 2880});
  DecoderTraits traits;
  traits.qkv_bias = traits.o_bias = Presence::required;
  traits.mlp_bias = Presence::absent;
  traits.default_eps = 1e-5;
  traits.default_context = 131072;
  traits.default_head_dim = 64;
  traits.intermediate = sizes.width;
  traits.experts = true;
  traits.quantization = "mxfp4";
  traits.files = gpt_oss_files();
  Model m = build_decoder(c, traits);
  note_expert_origins(hp, kKeys, m);
  // GGUF does not say it, and llama.cpp's own is without rounding too.
  if (!hp.has_defaults()) m.ropes[0].truncate = false;
  const size_t layers = m.layers.size();
  std::optional<std::vector<bool>> windowed = find_windowed_layers(hp, layers);
  if (!windowed) {
    windowed.emplace(layers);
    for (size_t i = 0; i < layers; i += 2) (*windowed)[i] = true;
  }
  set_windows(m, hp.find_integer(keys::kWindow).value_or(128), *windowed);
  const TensorNames name(c, traits.files[hp.naming()].parts);
  for (size_t i = 0; i < layers; ++i) {
    auto& attention = std::get<Attention>(m.layers[i].steps[0].block);
    attention.sinks = {name(i, kSinks[hp.naming()]), 0, attention.heads, 1};
    m.layers[i].steps[1].block = experts_of(hp, name, i, sizes, m.hidden);
  }
  return m;
}

}  // namespace

extern const Family gpt_oss{.name = "gpt-oss", .architectures = kNames, .build = build};

}  // namespace anemone::families
