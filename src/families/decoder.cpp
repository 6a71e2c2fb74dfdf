#include "families/decoder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/rope_params.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

constexpr Key kBos{"bos_token_id", "tokenizer.ggml.bos_token_id"};
constexpr Key kEos{"eos_token_id", "tokenizer.ggml.eos_token_id"};
constexpr Key kPad{"pad_token_id", "tokenizer.ggml.padding_token_id"};

class Describer {
 public:
  Describer(const Checkpoint& checkpoint, const DecoderTraits& traits)
      : c_(checkpoint), hp_(checkpoint), traits_(traits) {}

  Model describe() {
    expect_dense(hp_);
    expect_plain_weights();
    m_.architecture = c_.architecture();
    m_.name = c_.source_name();
    read_sizes();
    read_norm();
    m_.ropes = {read_rope(hp_, {.head_dim = head_dim_,
                                .context = m_.context,
                                .original_context = traits_.default_original_context,
                                .base = traits_.default_rope_base})};
    if (interleaved() && m_.ropes[0].dims != head_dim_)
      throw Error(
          "a part of each head is rotated, but the rows of q and k are stored in pairs over all of it")
          .at(hp_.file())
          .found(fmt::format("{} of {} dimensions", m_.ropes[0].dims, head_dim_));
    find_prefix();
    for (size_t i = 0; i < m_.layers.size(); ++i) m_.layers[i].steps = {attention_step(i), mlp_step(i)};
    name_ends();
    read_tokens();
    return std::move(m_);
  }

 private:
  bool interleaved() const { return hp_.is_gguf() && traits_.interleaved_gguf; }

  // GPTQ, AWQ, FP8 and others keep weights in forms of their own beside tensors of the usual names.
  void expect_plain_weights() const {
    if (hp_.is_gguf() || c_.config_only()) return;
    const auto at = c_.value("quantization_config");
    if (!at || !at->is_object()) return;
    const auto method = at->find("quant_method");
    throw Error("the checkpoint is quantised in a form that is not supported")
        .at(hp_.file())
        .found(method != at->end() && method->is_string() ? printable(method->get<std::string>())
                                                          : "'quantization_config'")
        .expected("weights of F32, F16 or BF16")
        .hint("take the original checkpoint, or a GGUF file of it");
  }

  int64_t size(const Key& key, int64_t most, int64_t otherwise) const {
    const std::optional<int64_t> value = hp_.find_integer(key, 1, most);
    if (!value && (otherwise == 0 || hp_.is_gguf())) throw hp_.missing(key);
    return value.value_or(otherwise);
  }

  void read_sizes() {
    constexpr int64_t kMostHeads = 65536;  // products of two of these stay far from overflow
    m_.hidden = hp_.integer(keys::kHidden, 2, 1 << 24);
    intermediate_ =
        traits_.intermediate ? traits_.intermediate : hp_.integer(keys::kIntermediate, 2, 1 << 26);
    heads_ = size(keys::kHeads, kMostHeads, traits_.default_heads);
    const int64_t kv_default = traits_.default_kv_heads ? traits_.default_kv_heads : heads_;
    kv_heads_ = traits_.kv_heads ? traits_.kv_heads
                                 : hp_.find_integer(keys::kKvHeads, 1, kMostHeads).value_or(kv_default);
    if (heads_ % kv_heads_ != 0)
      throw Error("the query heads cannot be shared evenly among the key heads")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), {} key heads ({})", heads_, hp_.named(keys::kHeads), kv_heads_,
                             hp_.named(keys::kKvHeads)));
    head_dim_ = head_dim(kMostHeads);
    const int64_t layers = hp_.integer(keys::kLayers, 1, c_.config_only() ? 4096 : Hparams::kMost);
    if (!c_.config_only() && static_cast<size_t>(layers) > c_.tensors().size())
      throw Error("there are fewer tensors than layers")
          .at(hp_.file())
          .found(fmt::format("{} tensors", c_.tensors().size()))
          .expected(fmt::format("those of {} layers ({})", layers, hp_.named(keys::kLayers)));
    m_.layers.resize(static_cast<size_t>(layers));
    m_.context = size(keys::kContext, Hparams::kMost, traits_.default_context);
    m_.vocab = vocab();
  }

  int64_t head_dim(int64_t most) const {
    std::optional<int64_t> given = hp_.find_integer(keys::kHeadDim, 2, most);
    const std::optional<int64_t> of_value = hp_.find_integer({"", "attention.value_length"}, 2, most);
    if (given && of_value && *given != *of_value)
      throw Error("heads of the key and of the value differ in size, which is not supported")
          .at(hp_.file())
          .found(fmt::format("{} ({}) and {} ({})", *given, hp_.named(keys::kHeadDim), *of_value,
                             hp_.named({"", "attention.value_length"})));
    if (given) return *given;
    if (!hp_.is_gguf() && traits_.default_head_dim) return traits_.default_head_dim;
    if (m_.hidden % heads_ != 0)
      throw Error("the size of a head is not said, and the heads do not divide the hidden size")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), hidden size {} ({})", heads_, hp_.named(keys::kHeads), m_.hidden,
                             hp_.named(keys::kHidden)));
    return m_.hidden / heads_;
  }

  // GGUF says it where the architecture always did; every file has the list of tokens.
  int64_t vocab() const {
    if (!hp_.is_gguf()) return size(keys::kVocab, Hparams::kMost, traits_.default_vocab);
    const std::optional<uint64_t> tokens = c_.list_size("tokenizer.ggml.tokens");
    const std::optional<int64_t> said = hp_.find_integer(keys::kVocab);
    if (said) return *said;
    if (tokens && *tokens >= 1 && *tokens <= uint64_t{Hparams::kMost})
      return without_padding(static_cast<int64_t>(*tokens));
    throw errorf("the size of the vocabulary is not said")
        .at(hp_.file())
        .expected(fmt::format("{} or the list 'tokenizer.ggml.tokens'", hp_.named(keys::kVocab)));
  }

  // The usual converter fills the list of tokens up to the size in config.json, but of Gemma it writes only
  // the rows that have a token: what is left of the list is unused.
  int64_t without_padding(int64_t tokens) const {
    constexpr int64_t kUnused = 5;
    const TensorReader* table = c_.find("token_embd.weight");
    if (!table || table->rows() >= tokens) return tokens;
    const auto types = c_.value("tokenizer.ggml.token_type");
    if (!types || !types->is_array() || static_cast<int64_t>(types->size()) != tokens) return tokens;
    const bool unused = std::all_of(types->begin() + table->rows(), types->end(),
                                    [](const Json& type) { return type == kUnused; });
    return unused ? table->rows() : tokens;
  }

  void read_norm() {
    const std::optional<double> eps = hp_.find_number(traits_.eps_key);
    if (!eps && (traits_.default_eps == 0 || hp_.is_gguf())) throw hp_.missing(traits_.eps_key);
    eps_ = eps.value_or(traits_.default_eps);
    if (!(eps_ >= 0 && eps_ < 1))
      throw errorf("{} is out of range", hp_.named(traits_.eps_key))
          .at(hp_.file())
          .found(fmt::format("{}", eps_));
    norm_offset_ = hp_.is_gguf() ? 0 : traits_.stored_norm_offset;
  }

  Activation activation() const {
    const std::optional<std::string> name = hp_.find_text({traits_.activation_key, ""});
    if (!name) return traits_.activation;
    if (*name == "silu" || *name == "swish") return Activation::silu;
    if (*name == "gelu_pytorch_tanh" || *name == "gelu_new") return Activation::gelu_tanh;
    if (*name == "gelu") return Activation::gelu;
    throw Error("the activation is not supported")
        .at(hp_.file())
        .found(printable(*name))
        .expected("silu, gelu_pytorch_tanh or gelu");
  }

  // Models with a vision part keep the text model's tensors one level deeper.
  void find_prefix() {
    if (hp_.is_gguf()) return;
    for (const char* prefix : {"model.", "language_model.model.", "model.language_model."})
      if (c_.find(std::string(prefix) + "embed_tokens.weight")) {
        prefix_ = prefix;
        return;
      }
  }

  std::string tensor(size_t layer, const char* config, const char* gguf, const char* kind) const {
    if (hp_.is_gguf()) return fmt::format("blk.{}.{}.{}", layer, gguf, kind);
    return fmt::format("{}layers.{}.{}.{}", prefix_, layer, config, kind);
  }

  bool present(Presence presence, const char* key, const std::string& name) const {
    if (presence == Presence::by_key)
      return hp_.is_gguf() ? c_.find(name) != nullptr : hp_.find_flag({key, ""}).value_or(false);
    return presence == Presence::required;
  }

  WeightRef vector(const std::string& name, int64_t rows) const { return {name, 0, rows, 1}; }

  Norm rms(const std::string& name, int64_t width) const {
    return {.gain = vector(name, width), .eps = eps_, .offset = norm_offset_};
  }

  std::optional<Norm> step_norm(size_t i, bool wanted, const char* config, const char* gguf) const {
    if (!wanted) return std::nullopt;
    return rms(tensor(i, config, gguf, "weight"), m_.hidden);
  }

  Projection projection(size_t i, const char* config, const char* gguf, int64_t rows, int64_t columns,
                        Presence bias, const char* bias_key) const {
    Projection p;
    p.weight = {tensor(i, config, gguf, "weight"), 0, rows, columns};
    const std::string name = tensor(i, config, gguf, "bias");
    if (present(bias, bias_key, name)) p.bias = vector(name, rows);
    return p;
  }

  ResidualStep attention_step(size_t i) const {
    const TensorNames& n = traits_.names;
    const bool around = traits_.norms == StepNorms::around;
    ResidualStep step;
    step.norm_in = step_norm(i, traits_.norms != StepNorms::behind, n.attention_norm, "attn_norm");
    step.norm_out = step_norm(i, around || !step.norm_in, n.attention_norm_out, "post_attention_norm");
    Attention a;
    a.heads = heads_;
    a.kv_heads = kv_heads_;
    a.head_dim = head_dim_;
    a.rope = 0;
    a.scale = 1 / std::sqrt(static_cast<double>(head_dim_));
    const int64_t query = a.query_width(), key = a.key_width(), hidden = m_.hidden;
    const char* bias = "attention_bias";
    if (traits_.fused_qkv) {
      const std::string fused = tensor(i, n.qkv, "attn_qkv", "weight");
      a.q.weight = {fused, 0, query, hidden};
      a.k.weight = {fused, query, query + key, hidden};
      a.v.weight = {fused, query + key, query + 2 * key, hidden};
    } else {
      a.q = projection(i, n.q, "attn_q", query, hidden, traits_.qkv_bias, bias);
      a.k = projection(i, n.k, "attn_k", key, hidden, traits_.qkv_bias, bias);
      a.v = projection(i, n.v, "attn_v", key, hidden, traits_.qkv_bias, bias);
    }
    if (interleaved())
      for (WeightRef* ref : {&a.q.weight, &a.k.weight, &a.q.bias, &a.k.bias})
        if (*ref) ref->interleaved_head = head_dim_;
    a.o = projection(i, n.o, "attn_output", hidden, query, traits_.o_bias, bias);
    a.qk_norm = qk_norm(i, query, key);
    step.block = std::move(a);
    return step;
  }

  std::optional<QkNorm> qk_norm(size_t i, int64_t query, int64_t key) const {
    if (traits_.head_norm == HeadNorm::none) return std::nullopt;
    const bool wide = traits_.head_norm == HeadNorm::over_width;
    QkNorm out;
    out.q = rms(tensor(i, traits_.names.q_norm, "attn_q_norm", "weight"), wide ? query : head_dim_);
    out.k = rms(tensor(i, traits_.names.k_norm, "attn_k_norm", "weight"), wide ? key : head_dim_);
    out.over_width = wide;
    out.after_rope = traits_.head_norm == HeadNorm::after_rope;
    return out;
  }

  ResidualStep mlp_step(size_t i) const {
    const TensorNames& n = traits_.names;
    const bool around = traits_.norms == StepNorms::around;
    ResidualStep step;
    step.norm_in = step_norm(i, traits_.norms != StepNorms::behind,
                             around ? "pre_feedforward_layernorm" : n.mlp_norm, "ffn_norm");
    step.norm_out = step_norm(i, around || !step.norm_in, n.mlp_norm_out, "post_ffw_norm");
    GatedMlp mlp;
    mlp.width = intermediate_;
    mlp.activation = activation();
    const int64_t hidden = m_.hidden, wide = intermediate_;
    const char* bias = "mlp_bias";
    if (traits_.fused_gate_up) {
      const std::string fused = tensor(i, n.gate_up, "ffn_up", "weight");
      mlp.gate.weight = {fused, 0, wide, hidden};
      mlp.up.weight = {fused, wide, 2 * wide, hidden};
    } else {
      mlp.gate = projection(i, n.gate, "ffn_gate", wide, hidden, traits_.mlp_bias, bias);
      mlp.up = projection(i, n.up, "ffn_up", wide, hidden, traits_.mlp_bias, bias);
    }
    mlp.down = projection(i, n.down, "ffn_down", hidden, wide, traits_.mlp_bias, bias);
    step.block = std::move(mlp);
    return step;
  }

  void name_ends() {
    const bool gguf = hp_.is_gguf();
    m_.embedding.tokens = {gguf ? "token_embd.weight" : prefix_ + "embed_tokens.weight", 0, m_.vocab,
                           m_.hidden};
    m_.final_norm = rms(gguf ? fmt::format("{}.weight", traits_.names.gguf_final_norm)
                             : fmt::format("{}{}.weight", prefix_, traits_.names.final_norm),
                        m_.hidden);
    VocabularyHead head;
    // GGUF says it by leaving the head out.
    head.tied = gguf ? c_.find("output.weight") == nullptr
                     : hp_.find_flag({"tie_word_embeddings", ""}).value_or(traits_.tied_by_default);
    head.weight = m_.embedding.tokens;
    if (!head.tied) head.weight.tensor = gguf ? "output.weight" : head_name();
    m_.head = std::move(head);
  }

  std::string head_name() const {
    const char* nested = "language_model.lm_head.weight";
    return c_.find(nested) ? nested : "lm_head.weight";
  }

  void read_tokens() {
    if (const auto bos = hp_.find_token_ids(kBos, m_.vocab); !bos.empty()) m_.bos = bos.front();
    try {  // some files say -1 for "none"
      if (const auto pad = hp_.find_token_ids(kPad, m_.vocab); !pad.empty()) m_.pad = pad.front();
    } catch (const Error&) {
    }
    add_eos(hp_.find_token_ids(kEos, m_.vocab));
    if (hp_.is_gguf()) {
      add_eos(hp_.find_token_ids({"", "tokenizer.ggml.eot_token_id"}, m_.vocab));
      add_eos(hp_.find_token_ids({"", "tokenizer.ggml.eom_token_id"}, m_.vocab));
    } else {
      add_generation_eos();
    }
  }

  void add_generation_eos() {
    const auto generation = c_.companion("generation_config.json");
    if (!generation || !generation->is_object()) return;
    const auto at = generation->find("eos_token_id");
    if (at == generation->end()) return;
    const auto add = [&](const Json& id) {
      if (id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(m_.vocab))
        return add_eos({id.get<int64_t>()});
      throw Error("'eos_token_id' is no token of the vocabulary")
          .at((c_.folder() / "generation_config.json").string())
          .found(printable(id.dump()))
          .expected(fmt::format("0 to {}", m_.vocab - 1));
    };
    if (at->is_array())
      for (const Json& id : *at) add(id);
    else if (!at->is_null())
      add(*at);
  }

  void add_eos(const std::vector<int64_t>& ids) {
    for (const int64_t id : ids)
      if (std::find(m_.eos.begin(), m_.eos.end(), id) == m_.eos.end()) m_.eos.push_back(id);
  }

  const Checkpoint& c_;
  Hparams hp_;
  const DecoderTraits& traits_;
  std::string prefix_ = "model.";
  int64_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0, intermediate_ = 0;
  double eps_ = 0, norm_offset_ = 0;
  Model m_;
};

}  // namespace

Model describe_decoder(const Checkpoint& checkpoint, const DecoderTraits& traits) {
  return Describer(checkpoint, traits).describe();
}

void expect_dense(const Hparams& hp) {
  for (const Key key : {Key{"num_local_experts", "expert_count"}, Key{"num_experts", ""}})
    if (hp.find_integer(key, 0).value_or(0) > 1)
      throw errorf("the model is a mixture of experts, which is not supported in this family")
          .at(hp.file())
          .found(fmt::format("{} experts ({})", *hp.find_integer(key, 0), hp.named(key)));
}

void expect_no_window(const Hparams& hp) {
  if (hp.find_integer(keys::kWindow, 0).value_or(0) > 0)
    throw errorf("the model has layers with a window, which are not supported in this family")
        .at(hp.file())
        .found(hp.named(keys::kWindow));
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
