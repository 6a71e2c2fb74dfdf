#include "families/qwen_experts.h"

#include "base/error.h"
#include "families/shared_keys.h"
#include "families/size_names.h"

namespace anemone {
namespace {

constexpr Key kCount{"num_experts", "expert_count"}, kCountToo{"num_local_experts", "expert_count"},
    kUsed{"num_experts_per_tok", "expert_used_count"},
    kWidth{"moe_intermediate_size", "expert_feed_forward_length"},
    kSharedWidth{"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    kScale{"", "expert_weights_scale"};

// The names of what a layer has in the place of its MLP; ".weight" comes behind them.
struct Names {
  const char *router, *shared_gate, *shared_up, *shared_down, *share;
};
constexpr ByNaming<Names> kNames{
    {"mlp.gate", "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj",
     "mlp.shared_expert_gate"},
    {"ffn_gate_inp", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "ffn_gate_inp_shexp"}};

class ExpertsReader {
 public:
  ExpertsReader(const Checkpoint& c, const DecoderTraits& traits, const QwenExperts& how)
      : c_(c),
        hp_(c),
        how_(how),
        names_(kNames[hp_.naming()]),
        name_(c, traits.files[hp_.naming()].parts),
        activation_(read_activation(hp_, traits.activation_key, traits.activation)),
        keys_{hp_.says(kCount) || !hp_.says(kCountToo) ? kCount : kCountToo, kUsed, kWidth} {
    // GGUF files of the first weeks lack both widths. llama.cpp reads them so.
    if (how.shared_width && !hp_.has_defaults() && !hp_.says(kWidth)) {
      sizes_ = read_expert_sizes(hp_, {keys_.count, keys_.used, keys::kIntermediate}, how.sizes);
      sizes_.width /= sizes_.used;
    } else {
      sizes_ = read_expert_sizes(hp_, keys_, how.sizes);
    }
    if (const auto scale = hp_.find_number(kScale); scale && *scale != 0 && *scale != 1)
      throw errorf("the weights of experts are scaled, which is not supported in this family")
          .at(hp_.file())
          .found(fmt::format("{} ({})", *scale, hp_.named(kScale)));
  }

  // Of a layer without experts.
  int64_t intermediate() const {
    return hp_.find_integer(keys::kIntermediate, 2, 1 << 26)
        .value_or(hp_.has_defaults() ? how_.intermediate : sizes_.width);
  }

  void put_into(Model& m) const {
    note_expert_origins(hp_, keys_, m);
    if (hp_.says(kSharedWidth)) m.origins[std::string(size_names::kSharedExpert)] = hp_.named(kSharedWidth);
    const std::vector<bool> sparse = sparse_layers(m.layers.size());
    for (size_t layer = 0; layer < m.layers.size(); ++layer)
      if (sparse[layer]) m.layers[layer].steps[1].block = experts_of(layer, m.hidden);
  }

 private:
  // Which layers have experts. config.json may leave some out; GGUF has no such key.
  std::vector<bool> sparse_layers(size_t layers) const {
    const int64_t step = hp_.find_integer({"decoder_sparse_step", ""}).value_or(1);
    std::vector<bool> out(layers);
    for (size_t i = 0; i < layers; ++i) out[i] = static_cast<int64_t>(i + 1) % step == 0;
    if (const auto dense = hp_.find_integers({"mlp_only_layers", ""}, 0, static_cast<int64_t>(layers) - 1))
      for (const int64_t i : *dense) out[static_cast<size_t>(i)] = false;
    return out;
  }

  // config.json leaves the flag out for false.
  Experts::Share share() const {
    const Key key{"norm_topk_prob", ""};
    const bool divided = hp_.spells(key) ? hp_.find_flag(key).value_or(false) : how_.gguf_divides;
    return divided ? Experts::Share::of_chosen : Experts::Share::of_all;
  }

  Experts experts_of(size_t layer, int64_t hidden) const {
    Experts e;
    e.width = sizes_.width;
    e.used = sizes_.used;
    e.share = share();
    e.router.logits.weight = {weight(layer, names_.router), 0, sizes_.count, hidden};
    for (size_t i = 0; i < static_cast<size_t>(sizes_.count); ++i) {
      e.experts.push_back(kExpert[hp_.naming()](*this, layer, i, hidden));
      e.experts.back().width = sizes_.width;
      e.experts.back().activation = activation_;
    }
    if (how_.shared_width) e.shared = shared_of(layer, hidden);
    return e;
  }

  SharedExpert shared_of(size_t layer, int64_t hidden) const {
    const int64_t width = hp_.find_integer(kSharedWidth, 1, 1 << 26)
                              .value_or(hp_.has_defaults() ? how_.shared_width : intermediate());
    SharedExpert out;
    out.mlp.width = width;
    out.mlp.activation = activation_;
    out.mlp.gate.weight = {weight(layer, names_.shared_gate), 0, width, hidden};
    out.mlp.up.weight = {weight(layer, names_.shared_up), 0, width, hidden};
    out.mlp.down.weight = {weight(layer, names_.shared_down), 0, hidden, width};
    out.share.weight = {weight(layer, names_.share), 0, 1, hidden};
    // llama.cpp keeps its one row as a vector.
    const TensorReader* row = c_.find(out.share.weight.tensor);
    out.share.weight.transposed = row && row->shape().size() == 1;
    return out;
  }

  // One tensor a part and expert, or a stack with gate and up together.
  static GatedMlp config_expert(const ExpertsReader& r, size_t layer, size_t i, int64_t hidden) {
    const int64_t width = r.sizes_.width;
    GatedMlp mlp;
    const std::string at = r.name_(layer, "mlp.experts."), stack = at + "gate_up_proj";
    if (r.c_.find(stack)) {
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

  static GatedMlp gguf_expert(const ExpertsReader& r, size_t layer, size_t i, int64_t hidden) {
    const int64_t width = r.sizes_.width;
    GatedMlp mlp;
    const auto part = [&](const char* what, int64_t rows, int64_t columns) {
      return of_stack(r.weight(layer, what), i, {.end = rows, .columns = columns});
    };
    mlp.gate.weight = part("ffn_gate_exps", width, hidden);
    mlp.up.weight = part("ffn_up_exps", width, hidden);
    mlp.down.weight = part("ffn_down_exps", hidden, width);
    return mlp;
  }

  static constexpr ByNaming<GatedMlp (*)(const ExpertsReader&, size_t, size_t, int64_t)> kExpert{
      config_expert, gguf_expert};

  std::string weight(size_t layer, const char* part) const { return name_(layer, part) + ".weight"; }

  const Checkpoint& c_;
  Hparams hp_;
  const QwenExperts& how_;
  Names names_;
  TensorNames name_;
  Activation activation_;
  ExpertKeys keys_;
  ExpertSizes sizes_;
};

}  // namespace

Model build_qwen_experts(const Checkpoint& c, DecoderTraits traits, const QwenExperts& how) {
  const ExpertsReader reader(c, traits, how);
  traits.experts = true;
  if (!Hparams(c).says(keys::kIntermediate)) traits.intermediate = reader.intermediate();
  Model m = build_decoder(c, traits);
  reader.put_into(m);
  return m;
}

}  // namespace anemone
