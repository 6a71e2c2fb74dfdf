#include "families/decoder.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/rope_params.h"
#include "families/shared_keys.h"
#include "families/tensor_names.h"

namespace anemone {
namespace {

constexpr Key kAttentionBias{"attention_bias", ""};
constexpr Key kMlpBias{"mlp_bias", ""};
constexpr Key kTied{"tie_word_embeddings", ""};
constexpr Key kValueDim{"", "attention.value_length"};

// What a vision model has beside its text part.
constexpr const char* kVisionParts[] = {"vision_tower.*", "multi_modal_projector.*", "model.vision_tower.*",
                                        "model.multi_modal_projector.*"};

class DecoderBuilder {
 public:
  DecoderBuilder(const Checkpoint& checkpoint, const DecoderTraits& traits)
      : c_(checkpoint),
        hp_(checkpoint),
        traits_(traits),
        files_(traits.files[hp_.naming()]),
        name_(checkpoint, files_.parts) {}

  Model build() {
    if (!traits_.experts) expect_dense(hp_);
    expect_plain_weights();
    m_.architecture = c_.architecture();
    m_.name = c_.source_name();
    read_sizes();
    note_origins(hp_, m_);
    read_eps();
    m_.ropes = {read_rope(hp_, {.head_dim = head_dim_,
                                .context = m_.context,
                                .original_context = traits_.default_original_context,
                                .base = files_.default_rope_base})};
    if (files_.paired_rows && m_.ropes[0].dims != head_dim_)
      throw Error(
          "only a part of each head is rotated, but the rows of q and k are stored in pairs over the whole "
          "head")
          .at(hp_.file())
          .found(fmt::format("{} of {} dimensions", m_.ropes[0].dims, head_dim_));
    for (size_t i = 0; i < m_.layers.size(); ++i) m_.layers[i].steps = {attention_step(i), mlp_step(i)};
    name_ends();
    name_unused();
    read_special_tokens(hp_, m_, IdsOutside::are_errors);
    return std::move(m_);
  }

 private:
  // GPTQ, AWQ, FP8 and others keep weights in forms of their own beside tensors of the usual names.
  void expect_plain_weights() const {
    if (c_.config_only()) return;
    const auto at = c_.value("quantization_config");
    if (!at || !at->is_object()) return;
    const auto method = at->find("quant_method");
    if (method != at->end() && method->is_string() && method->get<std::string>() == traits_.quantization)
      return;
    throw Error("the checkpoint is quantized in a form that is not supported")
        .at(hp_.file())
        .found(method != at->end() && method->is_string() ? printable(method->get<std::string>())
                                                          : "'quantization_config'")
        .expected("weights of F32, F16 or BF16")
        .hint("use the original checkpoint, or a GGUF file of it");
  }

  void read_sizes() {
    constexpr int64_t kMostHeads = 65536;  // products of two of these stay far from overflow
    m_.hidden = hp_.integer(keys::kHidden, 2, 1 << 24);
    intermediate_ =
        traits_.intermediate ? traits_.intermediate : hp_.integer(keys::kIntermediate, 2, 1 << 26);
    heads_ = hp_.integer_or(keys::kHeads, traits_.default_heads, 1, kMostHeads);
    const int64_t kv_default = traits_.default_kv_heads ? traits_.default_kv_heads : heads_;
    kv_heads_ = traits_.kv_heads ? traits_.kv_heads
                                 : hp_.find_integer(keys::kKvHeads, 1, kMostHeads).value_or(kv_default);
    if (heads_ % kv_heads_ != 0)
      throw Error("the number of query heads is not a multiple of the number of KV heads")
          .at(hp_.file())
          .found(fmt::format("{} query heads ({}), {} KV heads ({})", heads_, hp_.named(keys::kHeads),
                             kv_heads_, hp_.named(keys::kKvHeads)));
    head_dim_ = head_dim(kMostHeads);
    const int64_t layers = hp_.integer(keys::kLayers, 1, c_.config_only() ? 4096 : Hparams::kMost);
    if (!c_.config_only() && static_cast<size_t>(layers) > c_.tensors().size())
      throw Error("there are fewer tensors than layers")
          .at(hp_.file())
          .found(fmt::format("{} tensors", c_.tensors().size()))
          .expected(fmt::format("those of {} layers ({})", layers, hp_.named(keys::kLayers)));
    m_.layers.resize(static_cast<size_t>(layers));
    m_.context = hp_.integer_or(keys::kContext, traits_.default_context);
    m_.vocab = vocabulary_size(hp_, embedding_name(), traits_.default_vocab);
  }

  int64_t head_dim(int64_t most) const {
    std::optional<int64_t> given = hp_.find_integer(keys::kHeadDim, 2, most);
    const std::optional<int64_t> of_value = hp_.find_integer(kValueDim, 2, most);
    if (given && of_value && *given != *of_value)
      throw Error("the head sizes of keys and values differ, which is not supported")
          .at(hp_.file())
          .found(fmt::format("{} ({}) and {} ({})", *given, hp_.named(keys::kHeadDim), *of_value,
                             hp_.named(kValueDim)));
    if (given) return *given;
    if (hp_.has_defaults() && traits_.default_head_dim) return traits_.default_head_dim;
    if (m_.hidden % heads_ != 0)
      throw Error("the head size is not given, and the number of heads does not divide the hidden size")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), hidden size {} ({})", heads_, hp_.named(keys::kHeads), m_.hidden,
                             hp_.named(keys::kHidden)));
    return m_.hidden / heads_;
  }

  void read_eps() {
    eps_ = hp_.number_or(traits_.eps_key, traits_.default_eps);
    if (!(eps_ >= 0 && eps_ < 1))
      throw errorf("{} is out of range", hp_.named(traits_.eps_key))
          .at(hp_.file())
          .found(fmt::format("{}", eps_));
  }

  std::string embedding_name() const { return name_(files_.parts.embedding) + ".weight"; }
  std::string weight_name(size_t layer, const char* part) const { return name_(layer, part) + ".weight"; }

  bool present(Presence presence, const Key& key, const std::string& name) const {
    if (presence == Presence::by_key)
      return hp_.spells(key) ? hp_.find_flag(key).value_or(false) : c_.find(name) != nullptr;
    return presence == Presence::required;
  }

  Norm rms(const std::string& name, int64_t width) const {
    return {.gain = {name, 0, width, 1}, .eps = eps_, .offset = files_.norm_offset};
  }

  std::optional<Norm> step_norm(size_t i, bool wanted, const char* part) const {
    if (!wanted) return std::nullopt;
    return rms(weight_name(i, part), m_.hidden);
  }

  Projection projection(size_t i, const char* part, int64_t rows, int64_t columns, Presence bias,
                        const Key& bias_key) const {
    Projection p;
    p.weight = {weight_name(i, part), 0, rows, columns};
    const std::string name = name_(i, part) + ".bias";
    if (present(bias, bias_key, name)) p.bias = {name, 0, rows, 1};
    return p;
  }

  ResidualStep attention_step(size_t i) const {
    ResidualStep step;
    step.norm_in = step_norm(i, traits_.norms != StepNorms::behind, files_.attention_norm);
    step.norm_out = step_norm(i, traits_.norms != StepNorms::before, files_.attention_norm_out);
    Attention a;
    a.heads = heads_;
    a.kv_heads = kv_heads_;
    a.head_dim = head_dim_;
    a.rope = 0;
    a.scale = 1 / std::sqrt(static_cast<double>(head_dim_));
    const int64_t query = a.query_width(), key = a.key_width(), hidden = m_.hidden;
    if (traits_.fused_qkv) {
      const std::string fused = weight_name(i, files_.qkv);
      a.q.weight = {fused, 0, query, hidden};
      a.k.weight = {fused, query, query + key, hidden};
      a.v.weight = {fused, query + key, query + 2 * key, hidden};
    } else {
      a.q = projection(i, files_.q, query, hidden, traits_.qkv_bias, kAttentionBias);
      a.k = projection(i, files_.k, key, hidden, traits_.qkv_bias, kAttentionBias);
      a.v = projection(i, files_.v, key, hidden, traits_.qkv_bias, kAttentionBias);
    }
    if (files_.paired_rows)
      for (WeightRef* ref : {&a.q.weight, &a.k.weight, &a.q.bias, &a.k.bias})
        if (*ref) ref->interleaved_head = head_dim_;
    a.o = projection(i, files_.o, hidden, query, traits_.o_bias, kAttentionBias);
    a.qk_norm = qk_norm(i, query, key);
    step.block = std::move(a);
    return step;
  }

  std::optional<QkNorm> qk_norm(size_t i, int64_t query, int64_t key) const {
    if (traits_.head_norm == HeadNorm::none) return std::nullopt;
    const bool wide = traits_.head_norm == HeadNorm::over_width;
    QkNorm out;
    out.q = rms(weight_name(i, files_.q_norm), wide ? query : head_dim_);
    out.k = rms(weight_name(i, files_.k_norm), wide ? key : head_dim_);
    out.over_width = wide;
    out.after_rope = traits_.head_norm == HeadNorm::after_rope;
    return out;
  }

  ResidualStep mlp_step(size_t i) const {
    ResidualStep step;
    step.norm_in = step_norm(i, traits_.norms != StepNorms::behind, files_.mlp_norm);
    step.norm_out = step_norm(i, traits_.norms != StepNorms::before, files_.mlp_norm_out);
    GatedMlp mlp;
    mlp.width = intermediate_;
    mlp.activation = read_activation(hp_, traits_.activation_key, traits_.activation);
    const int64_t hidden = m_.hidden, wide = intermediate_;
    if (traits_.fused_gate_up) {
      const std::string fused = weight_name(i, files_.gate_up);
      mlp.gate.weight = {fused, 0, wide, hidden};
      mlp.up.weight = {fused, wide, 2 * wide, hidden};
    } else {
      mlp.gate = projection(i, files_.gate, wide, hidden, traits_.mlp_bias, kMlpBias);
      mlp.up = projection(i, files_.up, wide, hidden, traits_.mlp_bias, kMlpBias);
    }
    mlp.down = projection(i, files_.down, hidden, wide, traits_.mlp_bias, kMlpBias);
    step.block = std::move(mlp);
    return step;
  }

  void name_ends() {
    m_.embedding.tokens = {embedding_name(), 0, m_.vocab, m_.hidden};
    m_.final_norm = rms(name_(files_.final_norm) + ".weight", m_.hidden);
    const std::optional<std::string> own = find_head();
    VocabularyHead head;
    // Without a key, a missing head means that it is tied.
    head.tied = hp_.spells(kTied) ? hp_.find_flag(kTied).value_or(traits_.tied_by_default) : !own;
    head.weight = m_.embedding.tokens;
    if (!head.tied) head.weight.tensor = own.value_or(files_.heads.front() + std::string(".weight"));
    m_.head = std::move(head);
  }

  std::optional<std::string> find_head() const {
    for (const char* name : files_.heads)
      if (std::string whole = name + std::string(".weight"); c_.find(whole)) return whole;
    return std::nullopt;
  }

  // Tables that are computed from the keys, rope factors (which the Model holds as numbers), a head that repeats the
  // embedding, the other parts of a vision model.
  void name_unused() {
    const auto tables = rope_tables(hp_.naming());
    m_.unused.assign(tables.begin(), tables.end());
    if (m_.vocabulary_head().tied)
      for (const char* name : files_.heads) m_.unused.push_back(name + std::string(".weight"));
    if (hp_.has_text_part())
      m_.unused.insert(m_.unused.end(), std::begin(kVisionParts), std::end(kVisionParts));
  }

  const Checkpoint& c_;
  Hparams hp_;
  const DecoderTraits& traits_;
  const DecoderFiles& files_;
  TensorNames name_;
  int64_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0, intermediate_ = 0;
  double eps_ = 0;
  Model m_;
};

}  // namespace

Model build_decoder(const Checkpoint& checkpoint, const DecoderTraits& traits) {
  return DecoderBuilder(checkpoint, traits).build();
}

void expect_dense(const Hparams& hp) {
  for (const Key key : {Key{"num_local_experts", "expert_count"}, Key{"num_experts", ""}})
    if (hp.find_integer(key, 0).value_or(0) > 1)
      throw errorf("the model is a mixture of experts, which is not supported in this family")
          .at(hp.file())
          .found(fmt::format("{} experts ({})", *hp.find_integer(key, 0), hp.named(key)));
}

void expect_no_window(const Hparams& hp) {
  constexpr Key kGgufWindow{"", keys::kWindow.gguf};
  if (hp.find_integer(kGgufWindow, 0).value_or(0) > 0)
    throw errorf("the model has sliding-window layers, which are not supported in this family")
        .at(hp.file())
        .found(hp.named(kGgufWindow));
}

std::optional<std::vector<bool>> find_windowed_layers(const Hparams& hp, size_t layers) {
  const auto types = hp.find_layer_texts({"layer_types", ""}, layers);
  if (!types) return std::nullopt;
  std::vector<bool> windowed;
  for (const std::string& type : *types) {
    if (type != "sliding_attention" && type != "full_attention")
      throw Error("'layer_types' has a type that is not supported")
          .at(hp.file())
          .found(printable(type))
          .expected("full_attention or sliding_attention");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

void set_windows(Model& model, int64_t window, const std::vector<bool>& windowed) {
  if (window >= model.context) window = 0;
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (Attention* a = find_attention(model.layers[i]); a && windowed[i] && window > 0)
      a->reach = {Reach::Kind::window, window};
}

}  // namespace anemone
