// ZAYA1: attention that mixes q, k and v over time first, experts with a small network as router, and a gain and a bias
// on both sides of every sum. An older layout of the same tensors has attention and experts as layers of their own, and
// other names and keys: a layer here is a pair of those.
#include <algorithm>
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

// What a part of a layer is called in either layout. In the older one, parts of attention are in layer 2j and those of
// the experts in layer 2j + 1.
struct Part {
  const char *name, *older;
};

namespace part {
constexpr Part kQ{"self_attn.qkv_proj.q_proj", "self_attn.qkv.linear_q"},
    kK{"self_attn.qkv_proj.k_proj", "self_attn.qkv.linear_k"},
    kV{"self_attn.qkv_proj.v_proj_current", "self_attn.qkv.val_proj1"},
    kDelayed{"self_attn.qkv_proj.v_proj_delayed", "self_attn.qkv.val_proj2"},
    kTaps{"self_attn.qkv_proj.conv_qk_depthwise", "self_attn.qkv.conv_qk.0"},
    kMix{"self_attn.qkv_proj.conv_qk_grouped", "self_attn.qkv.conv_qk.1"},
    kTemperature{"self_attn.qk_norm.temp", "self_attn.qkv.temp"}, kO{"self_attn.o_proj", "self_attn.o_proj"},
    kAttentionNorm{"input_layernorm.weight", "input_norm.weight"};
constexpr Part kExpertNorm{"post_attention_layernorm.weight", "input_norm.weight"},
    kDown{"mlp.gate.down_proj", "zaya_block.router.down_proj"},
    kCarry{"mlp.gate.router_states_scale", "zaya_block.router.router_states_scale"},
    kNorm{"mlp.gate.router_mlp.norm.weight", "zaya_block.router.rmsnorm_eda.weight"},
    kFirst{"mlp.gate.router_mlp.fc1", "zaya_block.router.router_mlp.0"},
    kSecond{"mlp.gate.router_mlp.fc2", "zaya_block.router.router_mlp.2"},
    kLogits{"mlp.gate.router_mlp.out_proj", "zaya_block.router.router_mlp.4"},
    kBias{"mlp.gate.balancing_biases", "zaya_block.router.balancing_biases"};
}  // namespace part

class ZayaBuilder {
 public:
  explicit ZayaBuilder(const Checkpoint& c) : c_(c), hp_(c) {
    if (c.naming() != Naming::hugging_face)
      throw Error("ZAYA1 is read from safetensors alone").at(c.metadata_file());
    older_ = c.find("model.layers.0.self_attn.qkv.linear_q.weight") ||
             (hp_.says({"num_query_groups", ""}) && !hp_.says({"layer_types", ""}) &&
              !c.find("model.layers.0.self_attn.qkv_proj.q_proj.weight"));
  }

  Model build() {
    read_sizes();
    m_.embedding.tokens = {"model.embed_tokens.weight", 0, m_.vocab, m_.hidden};
    const std::string start =
        older_ ? "model.layers.0.res_scale.hidden_states_" : "model.input_hidden_states_";
    m_.embedding.bias = {start + "bias", 0, m_.hidden, 1};
    m_.embedding.gain = {start + "scale", 0, m_.hidden, 1};
    const std::vector<bool> local = local_layers();
    for (size_t i = 0; i < m_.layers.size(); ++i)
      m_.layers[i].steps = {attention_step(i, local[i]), experts_step(i)};
    m_.final_norm = norm(older_ ? "model.final_norm.weight" : "model.norm.weight", m_.hidden);
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
    read_layers();
    m_.context = hp_.integer_or(keys::kContext, 131072);
    m_.vocab = vocabulary_size(hp_, "model.embed_tokens.weight", 262272);
    note_origins(hp_, m_);
    note_expert_origins(hp_, kKeys, m_);
    if (older_)
      read_older_sizes();
    else
      read_newer_sizes();
    if (heads_ % kv_heads_ != 0)
      throw Error("the number of query heads is not a multiple of the number of KV heads")
          .at(hp_.file())
          .found(fmt::format("{} query heads ({}), {} KV heads ({})", heads_, hp_.named(keys::kHeads),
                             kv_heads_, hp_.named(keys::kKvHeads)));
    if (kv_heads_ * head_dim_ % 2 != 0)
      throw Error("the values of a token cannot be halved")
          .at(hp_.file())
          .found(fmt::format("{} KV heads of {}", kv_heads_, head_dim_));
    steps_ = hp_.integer_or(kSteps, 2, 2, 64);
    mix_steps_ = hp_.integer_or(kMixSteps, 2, 2, 64);
    bias_ = hp_.find_flag({"attention_bias", ""}).value_or(false);
    if (!older_)
      m_.ropes = {read_rope(
          hp_, {.head_dim = head_dim_, .context = m_.context, .base = 5e6, .layer_type = "hybrid"})};
  }

  void read_layers() {
    int64_t layers = hp_.integer_or(keys::kLayers, older_ ? 80 : 40, 1, 8192);
    if (older_) {
      // A list of the layers, where there is one, is right and the number may not be.
      halves_ =
          static_cast<size_t>(hp_.list_size({"zaya_layers", ""}).value_or(static_cast<uint64_t>(layers)));
      if (halves_ < 2 || halves_ % 2 != 0 || halves_ > 8192)
        throw Error("the layers are no pairs of attention and experts")
            .at(hp_.file())
            .found(fmt::format("{} layers", halves_));
      layers = static_cast<int64_t>(halves_ / 2);
    }
    m_.layers.resize(static_cast<size_t>(layers));
  }

  void read_newer_sizes() {
    heads_ = hp_.integer_or(keys::kHeads, 8, 1, 65536);
    kv_heads_ = hp_.integer_or(keys::kKvHeads, 2, 1, 65536);
    head_dim_ = hp_.integer_or(kHeadDim, 128, 2, 65536);
    sizes_ = read_expert_sizes(hp_, kKeys, {.count = 16, .used = 1, .width = 2048});
    router_ = hp_.integer_or(kRouterSize, 256, 1, 1 << 24);
    eps_ = hp_.number_or(keys::kNormEps, 1e-5);
  }

  // A number of the older layout: one, or a list with zeros for the layers that do not have it. The first key that is
  // there counts.
  int64_t older_integer(std::initializer_list<const char*> spellings, int64_t otherwise, int64_t most) const {
    for (const char* spelling : spellings) {
      const Key key{spelling, ""};
      const auto values = hp_.find_layer_integers(key, halves_, 0, most);
      if (!values) continue;
      const int64_t largest = *std::max_element(values->begin(), values->end());
      for (const int64_t v : *values)
        if (v != 0 && v != largest)
          throw Error("layers of different sizes are not supported")
              .at(hp_.file())
              .found(fmt::format("{} and {} ({})", v, largest, hp_.named(key)));
      if (largest > 0) return largest;
    }
    return otherwise;
  }

  void read_older_sizes() {
    for (const char* flag :
         {"zaya_use_mod", "zaya_use_eda", "scale_residual_merge", "gated_linear_unit", "cca"})
      if (!hp_.find_flag({flag, ""}).value_or(true))
        throw errorf("'{}' is false, which is not supported", flag).at(hp_.file());
    if (hp_.find_flag({"clamp_temp", ""}).value_or(false))
      throw Error("'clamp_temp' is true, which is not supported").at(hp_.file());
    heads_ = older_integer({"cca_num_q_heads", "num_attention_heads"}, 8, 65536);
    kv_heads_ = older_integer({"num_query_groups_list", "num_query_groups", "num_key_value_heads"}, 2, 65536);
    head_dim_ = older_integer({"head_dim", "kv_channels"}, 128, 65536);
    sizes_.width = older_integer({"ffn_hidden_size_list", "ffn_hidden_size"}, 4096, 1 << 26) / 2;
    sizes_.count = older_integer({"num_experts"}, 16, 2048);
    sizes_.used = older_integer({"moe_router_topk", "num_experts_per_tok"}, 1, 2048);
    if (sizes_.used > sizes_.count || sizes_.width < 1)
      throw Error("the experts have sizes that cannot be")
          .at(hp_.file())
          .found(fmt::format("{} of {} used, width {}", sizes_.used, sizes_.count, sizes_.width));
    router_ = older_integer({"zaya_mlp_expansion", "router_hidden_size"}, 256, 1 << 24);
    eps_ = hp_.find_number({"norm_epsilon", ""}).value_or(hp_.find_number(keys::kNormEps).value_or(1e-5));
    const double base =
        hp_.find_number({"rope_theta", ""}).value_or(hp_.find_number({"rotary_base", ""}).value_or(5e6));
    m_.ropes = {older_rope(base)};
  }

  Rope older_rope(double base) const {
    const double part = hp_.find_number({"partial_rotary_factor", ""})
                            .value_or(hp_.find_number({"rope_pct", ""}).value_or(0.5));
    Rope rope;
    rope.dims = static_cast<int64_t>(std::lround(part * static_cast<double>(head_dim_)));
    if (rope.dims < 2 || rope.dims > head_dim_ || rope.dims % 2 != 0)
      throw Error("a part of a head that cannot be rotated").at(hp_.file()).found(fmt::format("{}", part));
    rope.base = base;
    return rope;
  }

  // Which layers see a window; those have a rope of their own.
  std::vector<bool> local_layers() {
    std::vector<bool> out(m_.layers.size());
    if (older_) return older_local_layers();
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

  // The older layout counts a window without the token itself.
  std::vector<bool> older_local_layers() {
    std::vector<bool> out(m_.layers.size());
    const int64_t window = older_integer({"swa_layers"}, 0, Hparams::kMost - 1);
    if (window == 0) return out;
    const auto windows = hp_.find_layer_integers({"swa_layers", ""}, halves_);
    for (size_t i = 0; i < out.size(); ++i) out[i] = (*windows)[2 * i] != 0;
    older_window_ = window + 1;
    m_.ropes.push_back(older_rope(hp_.find_number({"swa_rotary_base", ""}).value_or(1e4)));
    return out;
  }

  std::string attention_name(size_t layer, const Part& part) const {
    return older_ ? fmt::format("model.layers.{}.{}", 2 * layer, part.older)
                  : fmt::format("model.layers.{}.{}", layer, part.name);
  }
  std::string expert_name(size_t layer, const Part& part) const {
    return older_ ? fmt::format("model.layers.{}.{}", 2 * layer + 1, part.older)
                  : fmt::format("model.layers.{}.{}", layer, part.name);
  }
  Norm norm(const std::string& tensor, int64_t width) const {
    return {.gain = {tensor, 0, width, 1}, .eps = eps_};
  }

  // Bias and gain of both sides of the sum.
  void balance(const std::string& at, ResidualStep& step) const {
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
    if (local) a.reach = {Reach::Kind::window, older_ ? older_window_ : hp_.integer(keys::kWindow)};
    const int64_t h = m_.hidden, half = a.key_width() / 2, channels = a.query_width() + a.key_width();
    a.q = linear_of(attention_name(i, part::kQ), a.query_width(), h, bias_);
    a.k = linear_of(attention_name(i, part::kK), a.key_width(), h, bias_);
    a.v = linear_of(attention_name(i, part::kV), half, h, bias_);
    a.o = linear_of(attention_name(i, part::kO), h, a.query_width(), bias_);
    TimeMix mix;
    mix.steps = steps_;
    mix.mix_steps = mix_steps_;
    mix.delayed = linear_of(attention_name(i, part::kDelayed), half, h, bias_);
    const std::string taps = attention_name(i, part::kTaps) + ".",
                      grouped = attention_name(i, part::kMix) + ".";
    mix.taps = {taps + "weight", 0, channels, steps_};
    mix.tap_bias = {taps + "bias", 0, channels, 1};
    mix.mix = {grouped + "weight", 0, channels, head_dim_ * mix_steps_};
    mix.mix_bias = {grouped + "bias", 0, channels, 1};
    a.mix = std::move(mix);
    QkNorm heads;
    heads.q.eps = heads.k.eps = kHeadEps;
    heads.k_gain = {attention_name(i, part::kTemperature), 0, kv_heads_, 1};
    a.qk_norm = std::move(heads);
    ResidualStep step;
    step.norm_in = norm(attention_name(i, part::kAttentionNorm), h);
    step.block = std::move(a);
    balance(older_ ? fmt::format("model.layers.{}.res_scale.", 2 * i + 1)
                   : fmt::format("model.layers.{}.post_attention_residual_scale.", i),
            step);
    return step;
  }

  // A stack of all experts, gate above up; in the older layout a tensor each.
  GatedMlp newer_expert(size_t i, size_t x) const {
    const int64_t h = m_.hidden, wide = sizes_.width;
    const std::string gate_up = fmt::format("model.layers.{}.mlp.experts.gate_up_proj", i),
                      down = fmt::format("model.layers.{}.mlp.experts.down_proj", i);
    GatedMlp mlp;
    mlp.gate.weight = of_stack(gate_up, x, {.end = wide, .columns = h});
    mlp.up.weight = of_stack(gate_up, x, {.begin = wide, .end = 2 * wide, .columns = h});
    mlp.down.weight = of_stack(down, x, {.end = h, .columns = wide});
    return mlp;
  }
  GatedMlp older_expert(size_t i, size_t x) const {
    const int64_t h = m_.hidden, wide = sizes_.width;
    const std::string at = fmt::format("model.layers.{}.zaya_block.experts.local_experts.{}.", 2 * i + 1, x);
    GatedMlp mlp;
    mlp.gate.weight = {at + "linear_fc1.weight", 0, wide, h};
    mlp.up.weight = {at + "linear_fc1.weight", wide, 2 * wide, h};
    mlp.down.weight = {at + "linear_fc2.weight", 0, h, wide};
    return mlp;
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
    n.down = linear_of(expert_name(i, part::kDown), router_, h, true);
    if (i > 0) n.carry = {expert_name(i, part::kCarry), 0, router_, 1};
    n.norm = norm(expert_name(i, part::kNorm), router_);
    n.first = linear_of(expert_name(i, part::kFirst), router_, router_, true);
    n.second = linear_of(expert_name(i, part::kSecond), router_, router_, true);
    e.router.network = std::move(n);
    e.router.logits = linear_of(expert_name(i, part::kLogits), sizes_.count + 1, router_, false);
    e.router.choice_bias = {expert_name(i, part::kBias), 0, sizes_.count + 1, 1};
    const Activation activation = read_activation(hp_, {"hidden_act", ""}, Activation::silu);
    for (size_t x = 0; x < static_cast<size_t>(sizes_.count); ++x) {
      GatedMlp mlp = older_ ? older_expert(i, x) : newer_expert(i, x);
      mlp.width = wide;
      mlp.activation = activation;
      e.experts.push_back(std::move(mlp));
    }
    ResidualStep step;
    step.norm_in = norm(expert_name(i, part::kExpertNorm), h);
    step.block = std::move(e);
    balance(!older_                     ? fmt::format("model.layers.{}.post_mlp_residual_scale.", i)
            : i + 1 == m_.layers.size() ? std::string("model.res_scale.")
                                        : fmt::format("model.layers.{}.res_scale.", 2 * i + 2),
            step);
    return step;
  }

  const Checkpoint& c_;
  Hparams hp_;
  ExpertSizes sizes_;
  int64_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0, router_ = 0, steps_ = 0, mix_steps_ = 0;
  double eps_ = 0;
  bool bias_ = false, older_ = false;
  size_t halves_ = 0;         // layers of the older layout, two for each of ours
  int64_t older_window_ = 0;  // with the token itself
  Model m_;
};

Model build(const Checkpoint& c) { return ZayaBuilder(c).build(); }

}  // namespace

extern const Family zaya1{.name = "zaya1", .architectures = kNames, .build = build};

}  // namespace anemone::families
