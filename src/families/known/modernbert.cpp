// ModernBERT: norms before the blocks, rotations instead of learned positions, most layers looking at a band of
// neighbours alone. The embedding's norm serves as the first layer's.
#include <cmath>

#include "base/error.h"
#include "families/decoder.h"
#include "families/encoder.h"
#include "families/family.h"
#include "families/rope_params.h"
#include "families/shared_keys.h"
#include "families/tensor_names.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"modern-bert", "ModernBertModel", "ModernBertForTokenClassification",
                                       "ModernBertForSequenceClassification"};

// What the tensors are called in one naming.
struct Names {
  NameParts parts;
  const char* embedding_norm;
  // Of one layer.
  const char* attention_norm;
  const char* qkv;
  const char* o;
  const char* mlp_norm;
  const char* gate_up;
  const char* down;
  const char* final_norm;
};

constexpr const char* kPrefixes[] = {"", "model."};
constexpr const char* kNoPrefix[] = {""};
constexpr Names kHuggingFace{
    .parts = {.prefixes = kPrefixes, .layer = "layers.{}.", .embedding = "embeddings.tok_embeddings"},
    .embedding_norm = "embeddings.norm",
    .attention_norm = "attn_norm",
    .qkv = "attn.Wqkv",
    .o = "attn.Wo",
    .mlp_norm = "mlp_norm",
    .gate_up = "mlp.Wi",
    .down = "mlp.Wo",
    .final_norm = "final_norm"};
constexpr Names kGguf{.parts = {.prefixes = kNoPrefix, .layer = "blk.{}.", .embedding = "token_embd"},
                      .embedding_norm = "token_embd_norm",
                      .attention_norm = "attn_norm",
                      .qkv = "attn_qkv",
                      .o = "attn_output",
                      .mlp_norm = "ffn_norm",
                      .gate_up = "ffn_up",
                      .down = "ffn_down",
                      .final_norm = "output_norm"};
constexpr ByNaming<Names> kTensors{kHuggingFace, kGguf};

class ModernBertBuilder {
 public:
  explicit ModernBertBuilder(const Checkpoint& c)
      : c_(c), hp_(c), n_(kTensors[hp_.naming()]), name_(c, n_.parts) {}

  Model build() {
    m_ = begin_encoder(hp_, name_(n_.parts.embedding) + ".weight", 8192);
    heads_ = hp_.integer(keys::kHeads, 1, 65536);
    if (m_.hidden % heads_ != 0)
      throw Error("the number of heads does not divide the hidden size")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), hidden size {} ({})", heads_, hp_.named(keys::kHeads), m_.hidden,
                             hp_.named(keys::kHidden)));
    width_ = hp_.integer(keys::kIntermediate, 2, 1 << 26);
    eps_ = hp_.find_number({"norm_eps", "attention.layer_norm_epsilon"}).value_or(1e-5);
    activation_ = read_activation(hp_, {"hidden_activation", "hidden_activation"}, Activation::gelu);
    read_biases();
    m_.embedding.norm = norm(name_(n_.embedding_norm));
    read_ropes();
    const std::vector<bool> local = local_layers();
    for (size_t i = 0; i < m_.layers.size(); ++i)
      m_.layers[i].steps = {attention_step(i, local[i]), mlp_step(i)};
    m_.final_norm = norm(name_(n_.final_norm));
    name_head();
    const auto tables = rope_tables(hp_.naming());
    m_.unused.insert(m_.unused.end(), tables.begin(), tables.end());
    mark_sensitive(m_);
    return std::move(m_);
  }

 private:
  Norm norm(const std::string& name) const { return layer_norm_of(c_, name, m_.hidden, eps_, norm_bias_); }

  // GGUF files have no such keys and no such tensors.
  void read_biases() {
    norm_bias_ = hp_.find_flag({"norm_bias", ""}).value_or(false);
    attention_bias_ = hp_.find_flag({"attention_bias", ""}).value_or(false);
    mlp_bias_ = hp_.find_flag({"mlp_bias", ""}).value_or(false);
    classifier_bias_ = hp_.find_flag({"classifier_bias", ""}).value_or(false);
  }

  void read_ropes() {
    const int64_t dim = m_.hidden / heads_;
    m_.ropes = {read_rope(hp_, {.head_dim = dim,
                                .context = m_.context,
                                .base = 160000,
                                .base_key = {"global_rope_theta", "rope.freq_base"},
                                .scaled = false}),
                read_rope(hp_, {.head_dim = dim,
                                .context = m_.context,
                                .base = 10000,
                                .base_key = {"local_rope_theta", "rope.freq_base_swa"},
                                .layer_type = "sliding_attention",
                                .scaled = false})};
  }

  std::vector<bool> local_layers() const {
    if (const auto types = find_windowed_layers(hp_, m_.layers.size())) return *types;
    const int64_t every =
        hp_.find_integer({"global_attn_every_n_layers", "attention.sliding_window_pattern"}).value_or(3);
    std::vector<bool> out(m_.layers.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i) % every != 0;
    return out;
  }

  ResidualStep attention_step(size_t i, bool local) const {
    Attention a;
    a.heads = a.kv_heads = heads_;
    a.head_dim = m_.hidden / heads_;
    a.scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
    // The key has the width of the whole band, both sides together.
    const int64_t band = hp_.find_integer({"local_attention", "attention.sliding_window"}).value_or(128);
    a.reach = local ? Reach{Reach::Kind::band, band / 2} : Reach{Reach::Kind::full, 0};
    a.rope = local ? 1 : 0;
    const std::string fused = name_(i, n_.qkv);
    const int64_t h = m_.hidden;
    int64_t row = 0;
    for (Projection* p : {&a.q, &a.k, &a.v}) {
      p->weight = {fused + ".weight", row, row + h, h};
      if (attention_bias_) p->bias = {fused + ".bias", row, row + h, 1};
      row += h;
    }
    a.o = linear_of(name_(i, n_.o), h, h, attention_bias_);
    ResidualStep step;
    if (i > 0) step.norm_in = norm(name_(i, n_.attention_norm));
    step.block = std::move(a);
    return step;
  }

  ResidualStep mlp_step(size_t i) const {
    const std::string fused = name_(i, n_.gate_up);
    GatedMlp mlp;
    mlp.width = width_;
    mlp.activation = activation_;
    mlp.gate.weight = {fused + ".weight", 0, width_, m_.hidden};  // the first half is activated
    mlp.up.weight = {fused + ".weight", width_, 2 * width_, m_.hidden};
    if (mlp_bias_) {
      mlp.gate.bias = {fused + ".bias", 0, width_, 1};
      mlp.up.bias = {fused + ".bias", width_, 2 * width_, 1};
    }
    mlp.down = linear_of(name_(i, n_.down), m_.hidden, width_, mlp_bias_);
    ResidualStep step;
    step.norm_in = norm(name_(i, n_.mlp_norm));
    step.block = std::move(mlp);
    return step;
  }

  void name_head() {
    const std::string& architecture = c_.architecture();
    const bool text = architecture.ends_with("ForSequenceClassification");
    if (!text && !architecture.ends_with("ForTokenClassification")) {
      m_.head = pooled_head(hp_, m_.hidden);
      return;
    }
    ClassHead head;
    head.labels = class_labels(hp_, "classifier.weight");
    head.scores = class_scores(hp_, head.labels.size());
    head.dense = linear_of("head.dense", m_.hidden, m_.hidden, classifier_bias_);
    head.activation = ClassHead::Dense::gelu;
    const std::string said = hp_.find_text({"classifier_activation", ""}).value_or("gelu");
    if (said != "gelu")
      throw Error("the classifier's activation is not supported").at(hp_.file()).found(said);
    head.norm = norm("head.norm");
    head.classifier = linear_of("classifier", static_cast<int64_t>(head.labels.size()), m_.hidden, true);
    if (text)
      head.pooling = hp_.find_text({"classifier_pooling", ""}).value_or("cls") == "mean" ? Pooling::mean
                                                                                         : Pooling::first;
    m_.head = std::move(head);
  }

  const Checkpoint& c_;
  Hparams hp_;
  const Names& n_;
  TensorNames name_;
  int64_t heads_ = 0, width_ = 0;
  double eps_ = 0;
  bool norm_bias_ = false, attention_bias_ = false, mlp_bias_ = false, classifier_bias_ = false;
  Activation activation_ = Activation::gelu;
  Model m_;
};

Model build(const Checkpoint& c) { return ModernBertBuilder(c).build(); }

}  // namespace

extern const Family modernbert{.name = "modernbert", .architectures = kNames, .build = build};

}  // namespace anemone::families
