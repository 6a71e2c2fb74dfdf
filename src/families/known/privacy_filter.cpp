// OpenAI's privacy filter: an encoder that gives every token a label, with the layers of gpt-oss: experts with a
// clamped gate, sinks. Every token sees a band of neighbours.
#include <cmath>

#include "base/error.h"
#include "families/encoder.h"
#include "families/experts.h"
#include "families/family.h"
#include "families/rope_params.h"
#include "families/shared_keys.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"openai_privacy_filter", "OpenAIPrivacyFilterForTokenClassification"};
constexpr ExpertKeys kKeys{.count = {"num_local_experts", ""},
                           .used = {"num_experts_per_tok", ""},
                           .width = {"intermediate_size", ""}};

class PrivacyFilterBuilder {
 public:
  explicit PrivacyFilterBuilder(const Checkpoint& c) : hp_(c) {
    if (c.naming() != Naming::hugging_face)
      throw Error("a privacy filter is read from safetensors alone").at(c.metadata_file());
  }

  Model build() {
    m_ = begin_encoder(hp_, "model.embed_tokens.weight", 131072);
    sizes_ = read_expert_sizes(hp_, kKeys, {.count = 128, .used = 4, .width = 640});
    note_expert_origins(hp_, kKeys, m_);
    heads_ = hp_.integer_or(keys::kHeads, 14, 1, 65536);
    kv_heads_ = hp_.integer_or(keys::kKvHeads, 2, 1, 65536);
    head_dim_ = hp_.integer_or(keys::kHeadDim, 64, 2, 65536);
    if (heads_ % kv_heads_ != 0)
      throw Error("the number of query heads is not a multiple of the number of KV heads")
          .at(hp_.file())
          .found(fmt::format("{} query heads ({}), {} KV heads ({})", heads_, hp_.named(keys::kHeads),
                             kv_heads_, hp_.named(keys::kKvHeads)));
    eps_ = hp_.number_or(keys::kNormEps, 1e-5);
    bias_ = hp_.find_flag({"attention_bias", ""}).value_or(true);
    m_.ropes = {read_rope(hp_, {.head_dim = head_dim_, .context = m_.context, .base = 150000})};
    if (m_.ropes[0].dims != head_dim_)
      throw Error("a privacy filter that rotates a part of each head is not supported")
          .at(hp_.file())
          .found(fmt::format("{} of {} dimensions", m_.ropes[0].dims, head_dim_));
    for (size_t i = 0; i < m_.layers.size(); ++i) m_.layers[i].steps = {attention_step(i), experts_step(i)};
    m_.final_norm = norm("model.norm");
    ClassHead head;
    head.labels = class_labels(hp_, "score.weight");
    head.scores = class_scores(hp_, head.labels.size());
    head.classifier = linear_of("score", static_cast<int64_t>(head.labels.size()), m_.hidden, true);
    m_.head = std::move(head);
    const auto tables = rope_tables(hp_.naming());
    m_.unused.insert(m_.unused.end(), tables.begin(), tables.end());
    mark_sensitive(m_);
    return std::move(m_);
  }

 private:
  static std::string layer_name(size_t layer, const char* part) {
    return fmt::format("model.layers.{}.{}", layer, part);
  }
  Norm norm(const std::string& name) const {
    return {.gain = {name + ".weight", 0, m_.hidden, 1}, .eps = eps_};
  }

  ResidualStep attention_step(size_t i) const {
    Attention a;
    a.heads = heads_;
    a.kv_heads = kv_heads_;
    a.head_dim = head_dim_;
    a.scale = 1 / std::sqrt(static_cast<double>(head_dim_));
    a.rope = 0;
    a.reach = {Reach::Kind::band, hp_.integer_or(keys::kWindow, 128)};
    const int64_t h = m_.hidden;
    a.q = linear_of(layer_name(i, "self_attn.q_proj"), a.query_width(), h, bias_);
    a.k = linear_of(layer_name(i, "self_attn.k_proj"), a.key_width(), h, bias_);
    a.v = linear_of(layer_name(i, "self_attn.v_proj"), a.key_width(), h, bias_);
    a.o = linear_of(layer_name(i, "self_attn.o_proj"), h, a.query_width(), bias_);
    // Neighbours are rotated against each other; the order of a head's elements is the same in q and k.
    for (WeightRef* ref : {&a.q.weight, &a.k.weight, &a.q.bias, &a.k.bias})
      if (*ref) ref->interleaved_head = head_dim_;
    a.sinks = {layer_name(i, "self_attn.sinks"), 0, heads_, 1};
    ResidualStep step;
    step.norm_in = norm(layer_name(i, "input_layernorm"));
    step.block = std::move(a);
    return step;
  }

  ResidualStep experts_step(size_t i) const {
    Experts e;
    e.width = sizes_.width;
    e.used = sizes_.used;
    e.share = Experts::Share::of_chosen;
    e.router.logits = linear_of(layer_name(i, "mlp.router"), sizes_.count, m_.hidden, true);
    for (size_t n = 0; n < static_cast<size_t>(sizes_.count); ++n) e.experts.push_back(expert(i, n));
    ResidualStep step;
    step.norm_in = norm(layer_name(i, "post_attention_layernorm"));
    step.block = std::move(e);
    return step;
  }

  // All matrices are [in, out]; the columns of gate come before those of up.
  GatedMlp expert(size_t layer, size_t n) const {
    const std::string gate_up = layer_name(layer, "mlp.experts.gate_up_proj"),
                      down = layer_name(layer, "mlp.experts.down_proj");
    const int64_t wide = sizes_.width, h = m_.hidden;
    const auto half = [&](int64_t begin) {
      return Projection{
          of_stack(gate_up, n, {.begin = begin, .end = begin + wide, .columns = h, .transposed = true}),
          of_stack(gate_up + "_bias", n, {.begin = begin, .end = begin + wide})};
    };
    GatedMlp mlp;
    mlp.width = wide;
    mlp.gate = half(0);
    mlp.up = half(wide);
    mlp.down = {of_stack(down, n, {.end = h, .columns = wide, .transposed = true}),
                of_stack(down + "_bias", n, {.end = h})};
    mlp.limit = 7;
    mlp.slope = 1.702;
    return mlp;
  }

  Hparams hp_;
  ExpertSizes sizes_;
  int64_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0;
  double eps_ = 0;
  bool bias_ = true;
  Model m_;
};

Model build(const Checkpoint& c) { return PrivacyFilterBuilder(c).build(); }

}  // namespace

extern const Family privacy_filter{.name = "privacy-filter", .architectures = kNames, .build = build};

}  // namespace anemone::families
