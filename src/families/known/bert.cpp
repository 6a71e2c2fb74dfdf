// BERT and what has its form: MiniLM, E5, BGE, RoBERTa, XLM-R. Learned positions and token types, norms over the sum of
// stream and block, a plain MLP. RoBERTa counts positions from its padding token on.
#include <cmath>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/encoder.h"
#include "families/family.h"
#include "families/shared_keys.h"
#include "families/tensor_names.h"

namespace anemone::families {
namespace {

constexpr std::string_view kNames[] = {"bert",
                                       "BertModel",
                                       "BertForTokenClassification",
                                       "BertForSequenceClassification",
                                       "RobertaModel",
                                       "RobertaForTokenClassification",
                                       "RobertaForSequenceClassification",
                                       "XLMRobertaModel",
                                       "XLMRobertaForTokenClassification",
                                       "XLMRobertaForSequenceClassification"};

// What the tensors are called in one naming.
struct Names {
  NameParts parts;
  const char* positions;
  const char* types;
  const char* embedding_norm;
  // Of one layer.
  const char* q;
  const char* k;
  const char* v;
  const char* o;
  const char* attention_norm;
  const char* up;
  const char* down;
  const char* mlp_norm;
};

constexpr const char* kPrefixes[] = {"", "bert.", "roberta."};
constexpr const char* kNoPrefix[] = {""};
constexpr Names kHuggingFace{
    .parts = {.prefixes = kPrefixes, .layer = "encoder.layer.{}.", .embedding = "embeddings.word_embeddings"},
    .positions = "embeddings.position_embeddings",
    .types = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .q = "attention.self.query",
    .k = "attention.self.key",
    .v = "attention.self.value",
    .o = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "output.LayerNorm"};
constexpr Names kGguf{.parts = {.prefixes = kNoPrefix, .layer = "blk.{}.", .embedding = "token_embd"},
                      .positions = "position_embd",
                      .types = "token_types",
                      .embedding_norm = "token_embd_norm",
                      .q = "attn_q",
                      .k = "attn_k",
                      .v = "attn_v",
                      .o = "attn_output",
                      .attention_norm = "attn_output_norm",
                      .up = "ffn_up",
                      .down = "ffn_down",
                      .mlp_norm = "layer_output_norm"};
constexpr ByNaming<Names> kTensors{kHuggingFace, kGguf};

class BertBuilder {
 public:
  explicit BertBuilder(const Checkpoint& c)
      : c_(c),
        hp_(c),
        n_(kTensors[hp_.naming()]),
        name_(c, n_.parts),
        roberta_(c.architecture().find("oberta") != std::string::npos) {}

  Model build() {
    const std::string type = hp_.find_text({"position_embedding_type", ""}).value_or("absolute");
    if (type != "absolute")
      throw errorf("{} is not supported", hp_.named({"position_embedding_type", ""}))
          .at(hp_.file())
          .found(printable(type))
          .expected("absolute");
    m_ = begin_encoder(hp_, name_(n_.parts.embedding) + ".weight", 512);
    read_sizes();
    name_embedding();
    for (size_t i = 0; i < m_.layers.size(); ++i) m_.layers[i].steps = {attention_step(i), mlp_step(i)};
    name_head();
    mark_sensitive(m_);
    return std::move(m_);
  }

 private:
  void read_sizes() {
    heads_ = hp_.integer(keys::kHeads, 1, 65536);
    if (m_.hidden % heads_ != 0)
      throw Error("the number of heads does not divide the hidden size")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), hidden size {} ({})", heads_, hp_.named(keys::kHeads), m_.hidden,
                             hp_.named(keys::kHidden)));
    width_ = hp_.integer(keys::kIntermediate, 2, 1 << 26);
    eps_ = hp_.find_number({"layer_norm_eps", "attention.layer_norm_epsilon"}).value_or(1e-12);
    activation_ = read_activation(hp_, {"hidden_act", ""}, Activation::gelu);
  }

  void name_embedding() {
    const int64_t positions = hp_.integer(keys::kContext);
    Embedding& e = m_.embedding;
    e.positions = {name_(n_.positions) + ".weight", 0, positions, m_.hidden};
    if (roberta_) e.first_position = m_.pad.value_or(1) + 1;
    if (e.first_position >= positions)
      throw Error("the table of positions is too short")
          .at(hp_.file())
          .found(fmt::format("{} rows", positions));
    m_.context = std::min(m_.context, positions - e.first_position);
    const std::string types = name_(n_.types) + ".weight";
    if (const int64_t rows = type_rows(c_.find(types)); rows > 0) e.types = {types, 0, rows, m_.hidden};
    e.norm = layer_norm_of(c_, name_(n_.embedding_norm), m_.hidden, eps_, true);
    m_.unused.push_back(name_("embeddings.position_ids"));
  }

  // How many types of tokens there are: as the key says, or where there is no such key, as the table has rows.
  int64_t type_rows(const TensorReader* table) const {
    if (hp_.spells(keys::kTypes)) return hp_.find_integer(keys::kTypes, 0).value_or(2);
    return table ? table->rows() : 0;
  }

  ResidualStep attention_step(size_t i) const {
    Attention a;
    a.heads = a.kv_heads = heads_;
    a.head_dim = m_.hidden / heads_;
    a.scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
    a.reach = {Reach::Kind::full, 0};
    a.q = linear_of(name_(i, n_.q), m_.hidden, m_.hidden, true);
    a.k = linear_of(name_(i, n_.k), m_.hidden, m_.hidden, true);
    a.v = linear_of(name_(i, n_.v), m_.hidden, m_.hidden, true);
    a.o = linear_of(name_(i, n_.o), m_.hidden, m_.hidden, true);
    ResidualStep step;
    step.block = std::move(a);
    step.norm_sum = layer_norm_of(c_, name_(i, n_.attention_norm), m_.hidden, eps_, true);
    return step;
  }

  ResidualStep mlp_step(size_t i) const {
    PlainMlp mlp;
    mlp.width = width_;
    mlp.activation = activation_;
    mlp.up = linear_of(name_(i, n_.up), width_, m_.hidden, true);
    mlp.down = linear_of(name_(i, n_.down), m_.hidden, width_, true);
    ResidualStep step;
    step.block = std::move(mlp);
    step.norm_sum = layer_norm_of(c_, name_(i, n_.mlp_norm), m_.hidden, eps_, true);
    return step;
  }

  void name_head() {
    const std::string& architecture = c_.architecture();
    const std::string pooler = name_("pooler.dense");
    if (architecture.ends_with("ForTokenClassification")) {
      m_.head = classifier("classifier");
    } else if (architecture.ends_with("ForSequenceClassification")) {
      ClassHead head = classifier(roberta_ ? "classifier.out_proj" : "classifier");
      head.pooling = Pooling::first;
      head.activation = ClassHead::Dense::tanh;
      head.dense = linear_of(roberta_ ? "classifier.dense" : pooler, m_.hidden, m_.hidden, true);
      m_.head = std::move(head);
      return;
    } else {
      m_.head = pooled_head(hp_, m_.hidden);
    }
    m_.unused.push_back(pooler + ".weight");
    m_.unused.push_back(pooler + ".bias");
  }

  ClassHead classifier(const std::string& tensor) const {
    ClassHead head;
    head.labels = class_labels(hp_, tensor + ".weight");
    head.scores = class_scores(hp_, head.labels.size());
    head.classifier = linear_of(tensor, static_cast<int64_t>(head.labels.size()), m_.hidden, true);
    return head;
  }

  const Checkpoint& c_;
  Hparams hp_;
  const Names& n_;
  TensorNames name_;
  bool roberta_;  // GGUF files of a RoBERTa are a bert, with positions from 0 on
  int64_t heads_ = 0, width_ = 0;
  double eps_ = 0;
  Activation activation_ = Activation::gelu;
  Model m_;
};

Model build(const Checkpoint& c) { return BertBuilder(c).build(); }

}  // namespace

extern const Family bert{.name = "bert", .architectures = kNames, .build = build};

}  // namespace anemone::families
