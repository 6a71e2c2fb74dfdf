// ZAYA1: attention that mixes q, k and v over time first, experts with a small network as router, and a gain and a bias
// on both sides of every sum. An older layout of the same tensors has attention and experts as layers of their own: it
// is refused by name.
#include <cmath>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/decoder.h"
#include "families/encoder.h"
#include "families/experts.h"
#include "families/family.h"
#include "families/rope_params.h"
#include "families/shared_keys.h"
#include "families/size_names.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"zaya", "ZayaForCausalLM"};
constexpr Key kHeadDim = keys::kHeadDim, kRouterSize{"router_hidden_size", ""}, kSteps{"cca_time0", ""},
              kMixSteps{"cca_time1", ""};
constexpr ExpertKeys kKeys{.count = {"num_experts", ""},
                           .used = {"num_experts_per_tok", ""},
                           .width = {"moe_intermediate_size", ""}};
// The norm of q and k has no epsilon of its own. This one keeps a token of zeros at zero and changes no other.
constexpr double kHeadEps = 1e-12;

class ZayaBuilder {
 public:
  explicit ZayaBuilder(const Checkpoint& c) : c_(c), hp_(c) {
    if (c.naming() != Naming::hugging_face)
      throw Error("ZAYA1 is read from safetensors alone").at(c.metadata_file());
    if (hp_.says({"num_query_groups", ""}) || c.find("model.layers.1.zaya_block.router.down_proj.weight"))
      throw Error("this is ZAYA1's older layout, in which attention and experts are layers of their own")
          .at(c.metadata_file())
          .hint("use the files published since July 2026 (transformers' own 'zaya')");
  }

  Model build() {
    read_sizes();
    m_.embedding.tokens = {"model.embed_tokens.weight", 0, m_.vocab, m_.hidden};
    m_.embedding.bias = {"model.input_hidden_states_bias", 0, m_.hidden, 1};
    m_.embedding.gain = {"model.input_hidden_states_scale", 0, m_.hidden, 1};
    const std::vector<bool> local = local_layers();
    for (size_t i = 0; i < m_.layers.size(); ++i)
      m_.layers[i].steps = {attention_step(i, local[i]), experts_step(i)};
    m_.final_norm = norm("model.norm.weight", m_.hidden);
    VocabularyHead head;
    head.tied = hp_.find_flag({"tie_word_embeddings", ""}).value_or(true);
    head.weight = m_.embedding.tokens;
    if (!head.tied) head.weight.tensor = "lm_head.weight";
    if (hp_.find_flag({"lm_head_bias", ""}).value_or(false)) head.bias = {"lm_head.bias", 0, m_.vocab, 1};
    if (head.tied) m_.unused.emplace_back("lm_head.weight");
    m_.head = std::move(head);
    const auto tables = rope_tables(hp_.naming());
    m_.unused.insert(m_.unused.end(), tables.begin(), tables.end());
    read_special_tokens(hp_, m_, IdsOutside::are_errors);
    return std::move(m_);
  }

 private:
  void read_sizes() {
    m_.architecture = c_.architecture();
    m_.name = c_.source_name();
    m_.hidden = hp_.integer_or(keys::kHidden, 2048, 2, 1 << 24);
    m_.layers.resize(static_cast<size_t>(hp_.integer_or(keys::kLayers, 40, 1, 4096)));
    m_.context = hp_.integer_or(keys::kContext, 131072);
    m_.vocab = vocabulary_size(hp_, "model.embed_tokens.weight", 262272);
    note_origins(hp_, m_);
    note_expert_origins(hp_, kKeys, m_);
    heads_ = hp_.integer_or(keys::kHeads, 8, 1, 65536);
    kv_heads_ = hp_.integer_or(keys::kKvHeads, 2, 1, 65536);
    head_dim_ = hp_.integer_or(kHeadDim, 128, 2, 65536);
    if (heads_ % kv_heads_ != 0)
      throw Error("the number of query heads is not a multiple of the number of KV heads")
          .at(hp_.file())
          .found(fmt::format("{} query heads ({}), {} KV heads ({})", heads_, hp_.named(keys::kHeads),
                             kv_heads_, hp_.named(keys::kKvHeads)));
    if (kv_heads_ * head_dim_ % 2 != 0)
      throw Error("the values of a token cannot be halved")
          .at(hp_.file())
          .found(fmt::format("{} KV heads of {}", kv_heads_, head_dim_));
    sizes_ = read_expert_sizes(hp_, kKeys, {.count = 16, .used = 1, .width = 2048});
    router_ = hp_.integer_or(kRouterSize, 256, 1, 1 << 24);
    steps_ = hp_.integer_or(kSteps, 2, 2, 64);
    mix_steps_ = hp_.integer_or(kMixSteps, 2, 2, 64);
    eps_ = hp_.number_or(keys::kNormEps, 1e-5);
    bias_ = hp_.find_flag({"attention_bias", ""}).value_or(false);
    m_.ropes = {
        read_rope(hp_, {.head_dim = head_dim_, .context = m_.context, .base = 5e6, .layer_type = "hybrid"})};
  }

  // Which layers see a window; those have a rope of their own.
  std::vector<bool> local_layers() {
    std::vector<bool> out(m_.layers.size());
    const auto types = hp_.find_layer_texts({"layer_types", ""}, out.size());
    bool any = false;
    for (size_t i = 0; types && i < out.size(); ++i) {
      const std::string& type = (*types)[i];
      if (type != "hybrid" && type != "hybrid_sliding")
        throw Error("'layer_types' has a type that is not supported")
            .at(hp_.file())
            .found(printable(type))
            .expected("hybrid or hybrid_sliding");
      any = any || (out[i] = type == "hybrid_sliding");
    }
    if (any)
      m_.ropes.push_back(read_rope(
          hp_, {.head_dim = head_dim_, .context = m_.context, .base = 1e4, .layer_type = "hybrid_sliding"}));
    return out;
  }

  static std::string name(size_t layer, const char* part) {
    return fmt::format("model.layers.{}.{}", layer, part);
  }
  Norm norm(const std::string& tensor, int64_t width) const {
    return {.gain = {tensor, 0, width, 1}, .eps = eps_};
  }

  // Bias and gain of both sides of the sum.
  void balance(size_t i, const char* part, ResidualStep& step) const {
    const std::string at = name(i, part) + ".";
    const auto vector = [&](const char* what) { return WeightRef{at + what, 0, m_.hidden, 1}; };
    step.bias = vector("hidden_states_bias");
    step.gain = vector("hidden_states_scale");
    step.stream_bias = vector("residual_bias");
    step.stream_gain = vector("residual_scale");
  }

  ResidualStep attention_step(size_t i, bool local) const {
    Attention a;
    a.heads = heads_;
    a.kv_heads = kv_heads_;
    a.head_dim = head_dim_;
    a.scale = 1 / std::sqrt(static_cast<double>(head_dim_));
    a.rope = local ? 1 : 0;
    if (local) a.reach = {Reach::Kind::window, hp_.integer(keys::kWindow)};
    const int64_t h = m_.hidden, half = a.key_width() / 2, channels = a.query_width() + a.key_width();
    a.q = linear_of(name(i, "self_attn.qkv_proj.q_proj"), a.query_width(), h, bias_);
    a.k = linear_of(name(i, "self_attn.qkv_proj.k_proj"), a.key_width(), h, bias_);
    a.v = linear_of(name(i, "self_attn.qkv_proj.v_proj_current"), half, h, bias_);
    a.o = linear_of(name(i, "self_attn.o_proj"), h, a.query_width(), bias_);
    TimeMix mix;
    mix.steps = steps_;
    mix.mix_steps = mix_steps_;
    mix.delayed = linear_of(name(i, "self_attn.qkv_proj.v_proj_delayed"), half, h, bias_);
    const std::string taps = name(i, "self_attn.qkv_proj.conv_qk_depthwise."),
                      grouped = name(i, "self_attn.qkv_proj.conv_qk_grouped.");
    mix.taps = {taps + "weight", 0, channels, steps_};
    mix.tap_bias = {taps + "bias", 0, channels, 1};
    mix.mix = {grouped + "weight", 0, channels, head_dim_ * mix_steps_};
    mix.mix_bias = {grouped + "bias", 0, channels, 1};
    a.mix = std::move(mix);
    QkNorm heads;
    heads.q.eps = heads.k.eps = kHeadEps;
    heads.k_gain = {name(i, "self_attn.qk_norm.temp"), 0, kv_heads_, 1};
    a.qk_norm = std::move(heads);
    ResidualStep step;
    step.norm_in = norm(name(i, "input_layernorm.weight"), h);
    step.block = std::move(a);
    balance(i, "post_attention_residual_scale", step);
    return step;
  }

  ResidualStep experts_step(size_t i) const {
    const int64_t h = m_.hidden, wide = sizes_.width;
    Experts e;
    e.width = wide;
    e.used = sizes_.used;
    e.share = Experts::Share::of_all;
    e.skip = Experts::Skip::pass;  // as the vendor's own code does
    RouterNetwork n;
    n.width = router_;
    n.down = linear_of(name(i, "mlp.gate.down_proj"), router_, h, true);
    if (i > 0) n.carry = {name(i, "mlp.gate.router_states_scale"), 0, router_, 1};
    n.norm = norm(name(i, "mlp.gate.router_mlp.norm.weight"), router_);
    n.first = linear_of(name(i, "mlp.gate.router_mlp.fc1"), router_, router_, true);
    n.second = linear_of(name(i, "mlp.gate.router_mlp.fc2"), router_, router_, true);
    e.router.network = std::move(n);
    e.router.logits = linear_of(name(i, "mlp.gate.router_mlp.out_proj"), sizes_.count + 1, router_, false);
    e.router.choice_bias = {name(i, "mlp.gate.balancing_biases"), 0, sizes_.count + 1, 1};
    const std::string gate_up = name(i, "mlp.experts.gate_up_proj"), down = name(i, "mlp.experts.down_proj");
    const Activation activation = read_activation(hp_, {"hidden_act", ""}, Activation::silu);
    for (size_t x = 0; x < static_cast<size_t>(sizes_.count); ++x) {
      GatedMlp mlp;
      mlp.width = wide;
      mlp.activation = activation;
      mlp.gate.weight = of_stack(gate_up, x, {.end = wide, .columns = h});
      mlp.up.weight = of_stack(gate_up, x, {.begin = wide, .end = 2 * wide, .columns = h});
      mlp.down.weight = of_stack(down, x, {.end = h, .columns = wide});
      e.experts.push_back(std::move(mlp));
    }
    ResidualStep step;
    step.norm_in = norm(name(i, "post_attention_layernorm.weight"), h);
    step.block = std::move(e);
    balance(i, "post_mlp_residual_scale", step);
    return step;
  }

  const Checkpoint& c_;
  Hparams hp_;
  ExpertSizes sizes_;
  int64_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0, router_ = 0, steps_ = 0, mix_steps_ = 0;
  double eps_ = 0;
  bool bias_ = false;
  Model m_;
};

Model build(const Checkpoint& c) { return ZayaBuilder(c).build(); }

}  // namespace

extern const Family zaya1{.name = "zaya1", .architectures = kNames, .build = build};

}  // namespace anemone::families
