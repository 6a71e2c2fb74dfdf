#include "families/decoder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/json_file.h"
#include "families/rope_params.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

constexpr Key kBos{"bos_token_id", "tokenizer.ggml.bos_token_id"};
constexpr Key kEos{"eos_token_id", "tokenizer.ggml.eos_token_id"};
constexpr Key kPad{"pad_token_id", "tokenizer.ggml.padding_token_id"};

class Describer {
 public:
  Describer(const Checkpoint& checkpoint, const DecoderForm& form)
      : c_(checkpoint), hp_(checkpoint), form_(form) {}

  Model describe() {
    expect_dense(hp_);
    expect_plain_weights();
    m_.architecture = c_.architecture();
    m_.name = c_.source_name();
    read_sizes();
    read_norm();
    m_.activation = activation();
    m_.head_norm = form_.head_norm;
    m_.query_scale = 1 / std::sqrt(static_cast<double>(m_.head_dim));
    m_.ropes = {read_rope(hp_, {.head_dim = m_.head_dim,
                                .context = m_.context,
                                .original_context = form_.default_original_context,
                                .base = form_.default_rope_base})};
    if (interleaved() && m_.ropes[0].dims != m_.head_dim)
      throw Error(
          "a part of each head is rotated, but the rows of q and k are stored in pairs over all of it")
          .at(hp_.file())
          .found(fmt::format("{} of {} dimensions", m_.ropes[0].dims, m_.head_dim));
    find_prefix();
    for (size_t i = 0; i < m_.layers.size(); ++i) name_layer(i);
    name_ends();
    read_tokens();
    return std::move(m_);
  }

 private:
  bool interleaved() const { return c_.format() == CheckpointFormat::gguf && form_.interleaved_gguf; }

  // GPTQ, AWQ, FP8 and others keep weights in forms of their own beside tensors of the usual names.
  void expect_plain_weights() const {
    if (hp_.is_gguf() || c_.config_only()) return;
    const auto at = c_.config().find("quantization_config");
    if (at == c_.config().end() || !at->is_object()) return;
    const auto method = at->find("quant_method");
    throw Error("the checkpoint is quantised in a form that is not read")
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
    m_.intermediate = hp_.integer(keys::kIntermediate, 2, 1 << 26);
    m_.heads = size(keys::kHeads, kMostHeads, form_.default_heads);
    const int64_t kv_default = form_.default_kv_heads ? form_.default_kv_heads : m_.heads;
    m_.kv_heads = hp_.find_integer(keys::kKvHeads, 1, kMostHeads).value_or(kv_default);
    if (m_.heads % m_.kv_heads != 0)
      throw Error("the query heads cannot be shared evenly among the key heads")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), {} key heads ({})", m_.heads, hp_.named(keys::kHeads),
                             m_.kv_heads, hp_.named(keys::kKvHeads)));
    m_.head_dim = head_dim(kMostHeads);
    const int64_t layers = hp_.integer(keys::kLayers, 1, c_.config_only() ? 4096 : Hparams::kMost);
    if (!c_.config_only() && static_cast<size_t>(layers) > c_.tensors().size())
      throw Error("there are fewer tensors than layers")
          .at(hp_.file())
          .found(fmt::format("{} tensors", c_.tensors().size()))
          .expected(fmt::format("those of {} layers ({})", layers, hp_.named(keys::kLayers)));
    m_.layers.resize(static_cast<size_t>(layers));
    m_.context = size(keys::kContext, Hparams::kMost, form_.default_context);
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
    if (!hp_.is_gguf() && form_.default_head_dim) return form_.default_head_dim;
    if (m_.hidden % m_.heads != 0)
      throw Error("the size of a head is not said, and the heads do not divide the hidden size")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), hidden size {} ({})", m_.heads, hp_.named(keys::kHeads),
                             m_.hidden, hp_.named(keys::kHidden)));
    return m_.hidden / m_.heads;
  }

  // GGUF says it where the architecture always did; every file has the list of tokens.
  int64_t vocab() const {
    if (!hp_.is_gguf()) return size(keys::kVocab, Hparams::kMost, form_.default_vocab);
    const GgufValue* tokens = c_.gguf().find("tokenizer.ggml.tokens");
    const std::optional<int64_t> said = hp_.find_integer(keys::kVocab);
    if (said) return *said;
    if (tokens && tokens->is_array && tokens->count >= 1 && tokens->count <= uint64_t{Hparams::kMost})
      return without_padding(static_cast<int64_t>(tokens->count));
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
    const std::vector<int64_t> types = c_.gguf().integers("tokenizer.ggml.token_type");
    if (static_cast<int64_t>(types.size()) != tokens) return tokens;
    const bool unused =
        std::all_of(types.begin() + table->rows(), types.end(), [](int64_t type) { return type == kUnused; });
    return unused ? table->rows() : tokens;
  }

  void read_norm() {
    const std::optional<double> eps = hp_.find_number(keys::kNormEps);
    if (!eps && (form_.default_eps == 0 || hp_.is_gguf())) throw hp_.missing(keys::kNormEps);
    m_.norm_eps = eps.value_or(form_.default_eps);
    if (!(m_.norm_eps >= 0 && m_.norm_eps < 1))
      throw errorf("{} is out of range", hp_.named(keys::kNormEps))
          .at(hp_.file())
          .found(fmt::format("{}", m_.norm_eps));
    m_.norm_offset = hp_.is_gguf() ? 0 : form_.stored_norm_offset;
  }

  Activation activation() const {
    const std::optional<std::string> name = hp_.find_text({form_.activation_key, ""});
    if (!name) return form_.activation;
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

  void name_layer(size_t i) {
    const int64_t query = m_.heads * m_.head_dim, key = m_.kv_heads * m_.head_dim, hidden = m_.hidden;
    Layer& l = m_.layers[i];
    l.attention_norm = {tensor(i, "input_layernorm", "attn_norm", "weight"), 0, hidden, 1};
    if (form_.fused_qkv) {
      const std::string fused = tensor(i, "self_attn.qkv_proj", "attn_qkv", "weight");
      l.q = {fused, 0, query, hidden};
      l.k = {fused, query, query + key, hidden};
      l.v = {fused, query + key, query + 2 * key, hidden};
    } else {
      l.q = {tensor(i, "self_attn.q_proj", "attn_q", "weight"), 0, query, hidden};
      l.k = {tensor(i, "self_attn.k_proj", "attn_k", "weight"), 0, key, hidden};
      l.v = {tensor(i, "self_attn.v_proj", "attn_v", "weight"), 0, key, hidden};
      name_bias(form_.qkv_bias, "attention_bias", tensor(i, "self_attn.q_proj", "attn_q", "bias"), query,
                l.q_bias);
      name_bias(form_.qkv_bias, "attention_bias", tensor(i, "self_attn.k_proj", "attn_k", "bias"), key,
                l.k_bias);
      name_bias(form_.qkv_bias, "attention_bias", tensor(i, "self_attn.v_proj", "attn_v", "bias"), key,
                l.v_bias);
    }
    if (interleaved())
      for (WeightRef* ref : {&l.q, &l.k, &l.q_bias, &l.k_bias})
        if (*ref) ref->interleaved_head = m_.head_dim;
    l.o = {tensor(i, "self_attn.o_proj", "attn_output", "weight"), 0, hidden, query};
    name_bias(form_.o_bias, "attention_bias", tensor(i, "self_attn.o_proj", "attn_output", "bias"), hidden,
              l.o_bias);
    if (form_.head_norm != HeadNorm::none) {
      l.q_norm = {tensor(i, form_.q_norm, "attn_q_norm", "weight"), 0, m_.head_dim, 1};
      l.k_norm = {tensor(i, form_.k_norm, "attn_k_norm", "weight"), 0, m_.head_dim, 1};
    }
    name_mlp(i, l);
  }

  void name_mlp(size_t i, Layer& l) {
    const int64_t hidden = m_.hidden, wide = m_.intermediate;
    if (form_.post_norms) {
      l.post_attention_norm = {tensor(i, "post_attention_layernorm", "post_attention_norm", "weight"), 0,
                               hidden, 1};
      l.mlp_norm = {tensor(i, "pre_feedforward_layernorm", "ffn_norm", "weight"), 0, hidden, 1};
      l.post_mlp_norm = {tensor(i, "post_feedforward_layernorm", "post_ffw_norm", "weight"), 0, hidden, 1};
    } else {
      l.mlp_norm = {tensor(i, "post_attention_layernorm", "ffn_norm", "weight"), 0, hidden, 1};
    }
    if (form_.fused_gate_up) {
      const std::string fused = tensor(i, "mlp.gate_up_proj", "ffn_up", "weight");
      l.gate = {fused, 0, wide, hidden};
      l.up = {fused, wide, 2 * wide, hidden};
    } else {
      l.gate = {tensor(i, "mlp.gate_proj", "ffn_gate", "weight"), 0, wide, hidden};
      l.up = {tensor(i, "mlp.up_proj", "ffn_up", "weight"), 0, wide, hidden};
      name_bias(form_.mlp_bias, "mlp_bias", tensor(i, "mlp.gate_proj", "ffn_gate", "bias"), wide,
                l.gate_bias);
      name_bias(form_.mlp_bias, "mlp_bias", tensor(i, "mlp.up_proj", "ffn_up", "bias"), wide, l.up_bias);
    }
    l.down = {tensor(i, "mlp.down_proj", "ffn_down", "weight"), 0, hidden, wide};
    name_bias(form_.mlp_bias, "mlp_bias", tensor(i, "mlp.down_proj", "ffn_down", "bias"), hidden,
              l.down_bias);
  }

  void name_bias(Presence presence, const char* key, const std::string& name, int64_t rows,
                 WeightRef& out) const {
    if (present(presence, key, name)) out = {name, 0, rows, 1};
  }

  void name_ends() {
    const bool gguf = hp_.is_gguf();
    m_.embedding = {gguf ? "token_embd.weight" : prefix_ + "embed_tokens.weight", 0, m_.vocab, m_.hidden};
    m_.final_norm = {gguf ? "output_norm.weight" : prefix_ + "norm.weight", 0, m_.hidden, 1};
    // GGUF says it by leaving the head out.
    m_.tied_head = gguf ? c_.find("output.weight") == nullptr
                        : hp_.find_flag({"tie_word_embeddings", ""}).value_or(form_.tied_by_default);
    m_.lm_head = m_.embedding;
    if (!m_.tied_head) m_.lm_head.tensor = gguf ? "output.weight" : head_name();
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
    if (c_.config_only()) return;  // there may be no folder at all
    const std::filesystem::path path = c_.folder() / "generation_config.json";
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return;
    const Json generation = read_json_file(path);
    const auto at = generation.is_object() ? generation.find("eos_token_id") : generation.end();
    if (at == generation.end()) return;
    const auto add = [&](const Json& id) {
      if (id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(m_.vocab))
        return add_eos({id.get<int64_t>()});
      throw Error("'eos_token_id' is no token of the vocabulary")
          .at(path.string())
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
  const DecoderForm& form_;
  std::string prefix_ = "model.";
  Model m_;
};

}  // namespace

Model describe_decoder(const Checkpoint& checkpoint, const DecoderForm& form) {
  return Describer(checkpoint, form).describe();
}

void expect_dense(const Hparams& hp) {
  for (const Key key : {Key{"num_local_experts", "expert_count"}, Key{"num_experts", ""}})
    if (hp.find_integer(key, 0).value_or(0) > 1)
      throw errorf("the model is a mixture of experts, which its family here is not")
          .at(hp.file())
          .found(fmt::format("{} experts ({})", *hp.find_integer(key, 0), hp.named(key)));
}

std::optional<std::vector<bool>> find_windowed_layers(const Hparams& hp, size_t layers) {
  if (hp.is_gguf()) return std::nullopt;
  const auto at = hp.config().find("layer_types");
  if (at == hp.config().end() || !at->is_array()) return std::nullopt;
  if (at->size() != layers)
    throw Error("'layer_types' has another number of layers than the model")
        .at(hp.file())
        .found(fmt::format("{} types", at->size()))
        .expected(fmt::format("{} ({})", layers, hp.named(keys::kLayers)));
  std::vector<bool> windowed;
  for (const Json& type : *at) {
    if (type != "sliding_attention" && type != "full_attention")
      throw Error("'layer_types' has a type that is not supported")
          .at(hp.file())
          .found(printable(type.dump(-1, ' ', true, Json::error_handler_t::replace)))
          .expected("full_attention or sliding_attention");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

void set_windows(Model& model, int64_t window, const std::vector<bool>& windowed) {
  if (window >= model.context) window = 0;
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (windowed[i]) model.layers[i].window = window;
}

}  // namespace anemone
