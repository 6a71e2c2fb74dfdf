// BERT and what has its form: MiniLM, E5, BGE, RoBERTa, XLM-R. Learned positions and token types, norms over the sum of
// stream and block, a plain MLP. RoBERTa counts positions from its padding token on.
#include <cmath>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/encoder.h"
#include "families/family.h"

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

// Names of tensors in either naming.
struct Names {
  const char* words;
  const char* positions;
  const char* types;
  const char* embedding_norm;
  const char* layer;  // with the number in it
  const char* q;
  const char* k;
  const char* v;
  const char* o;
  const char* attention_norm;
  const char* up;
  const char* down;
  const char* mlp_norm;
};

constexpr Names kHuggingFace{"embeddings.word_embeddings",
                             "embeddings.position_embeddings",
                             "embeddings.token_type_embeddings",
                             "embeddings.LayerNorm",
                             "encoder.layer.{}.",
                             "attention.self.query",
                             "attention.self.key",
                             "attention.self.value",
                             "attention.output.dense",
                             "attention.output.LayerNorm",
                             "intermediate.dense",
                             "output.dense",
                             "output.LayerNorm"};
constexpr Names kGguf{"token_embd",       "position_embd",    "token_types", "token_embd_norm",
                      "blk.{}.",          "attn_q",           "attn_k",      "attn_v",
                      "attn_output",      "attn_output_norm", "ffn_up",      "ffn_down",
                      "layer_output_norm"};

class Describer {
 public:
  explicit Describer(const Checkpoint& c) : c_(c), hp_(c), n_(hp_.is_gguf() ? kGguf : kHuggingFace) {}

  Model describe() {
    const std::string type = hp_.find_text({"position_embedding_type", ""}).value_or("absolute");
    if (type != "absolute")
      throw Error("relative positions are not supported").at(hp_.file()).found(printable(type));
    m_ = begin_encoder(hp_, 512);
    prefix_ =
        hp_.is_gguf() ? "" : find_prefix(c_, {"", "bert.", "roberta."}, std::string(n_.words) + ".weight");
    read_sizes();
    name_embedding();
    for (size_t i = 0; i < m_.layers.size(); ++i) m_.layers[i].steps = {attention_step(i), mlp_step(i)};
    name_head();
    keep_sensitive_half(m_);
    return std::move(m_);
  }

 private:
  std::string name(const char* part) const { return prefix_ + part; }
  std::string name(size_t layer, const char* part) const {
    return prefix_ + fmt::format(fmt::runtime(n_.layer), layer) + part;
  }

  void read_sizes() {
    heads_ = hp_.integer(keys::kHeads, 1, 65536);
    if (m_.hidden % heads_ != 0)
      throw Error("the heads do not divide the hidden size")
          .at(hp_.file())
          .found(fmt::format("{} heads ({}), hidden size {} ({})", heads_, hp_.named(keys::kHeads), m_.hidden,
                             hp_.named(keys::kHidden)));
    width_ = hp_.integer(keys::kIntermediate, 2, 1 << 26);
    eps_ = hp_.find_number({"layer_norm_eps", "attention.layer_norm_epsilon"}).value_or(1e-12);
    activation_ = encoder_activation(hp_, {"hidden_act", ""});
  }

  void name_embedding() {
    const bool roberta = !hp_.is_gguf() && c_.architecture().find("oberta") != std::string::npos;
    const int64_t positions = hp_.integer(keys::kContext);
    Embedding& e = m_.embedding;
    e.tokens = {name(n_.words) + ".weight", 0, m_.vocab, m_.hidden};
    e.positions = {name(n_.positions) + ".weight", 0, positions, m_.hidden};
    if (roberta) e.first_position = m_.pad.value_or(1) + 1;
    if (e.first_position >= positions)
      throw Error("the table of positions is too short")
          .at(hp_.file())
          .found(fmt::format("{} rows", positions));
    m_.context = std::min(m_.context, positions - e.first_position);
    const int64_t types = hp_.find_integer(keys::kTypes, 0).value_or(2);
    const std::string table = name(n_.types) + ".weight";
    if (const TensorReader* found = c_.find(table); found || (types > 0 && !hp_.is_gguf()))
      e.types = {table, 0, hp_.is_gguf() ? found->rows() : types, m_.hidden};
    e.norm = layer_norm_of(c_, name(n_.embedding_norm), m_.hidden, eps_, true);
    m_.unused.push_back(name("embeddings.position_ids"));
  }

  ResidualStep attention_step(size_t i) const {
    Attention a;
    a.heads = a.kv_heads = heads_;
    a.head_dim = m_.hidden / heads_;
    a.scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
    a.reach = {Reach::Kind::full, 0};
    a.q = linear_of(c_, name(i, n_.q), m_.hidden, m_.hidden, true);
    a.k = linear_of(c_, name(i, n_.k), m_.hidden, m_.hidden, true);
    a.v = linear_of(c_, name(i, n_.v), m_.hidden, m_.hidden, true);
    a.o = linear_of(c_, name(i, n_.o), m_.hidden, m_.hidden, true);
    ResidualStep step;
    step.block = std::move(a);
    step.norm_sum = layer_norm_of(c_, name(i, n_.attention_norm), m_.hidden, eps_, true);
    return step;
  }

  ResidualStep mlp_step(size_t i) const {
    PlainMlp mlp;
    mlp.width = width_;
    mlp.activation = activation_;
    mlp.up = linear_of(c_, name(i, n_.up), width_, m_.hidden, true);
    mlp.down = linear_of(c_, name(i, n_.down), m_.hidden, width_, true);
    ResidualStep step;
    step.block = std::move(mlp);
    step.norm_sum = layer_norm_of(c_, name(i, n_.mlp_norm), m_.hidden, eps_, true);
    return step;
  }

  void name_head() {
    const std::string& architecture = c_.architecture();
    const bool roberta = architecture.find("oberta") != std::string::npos;
    const std::string pooler = name("pooler.dense");
    if (architecture.ends_with("ForTokenClassification")) {
      m_.head = classifier("classifier");
    } else if (architecture.ends_with("ForSequenceClassification")) {
      ClassHead head = classifier(roberta ? "classifier.out_proj" : "classifier");
      head.pooling = Pooling::first;
      head.activation = ClassHead::Dense::tanh;
      head.dense = linear_of(c_, roberta ? "classifier.dense" : pooler, m_.hidden, m_.hidden, true);
      m_.head = std::move(head);
      return;
    } else {
      m_.head = pooled_head(hp_);
    }
    m_.unused.push_back(pooler + ".weight");
    m_.unused.push_back(pooler + ".bias");
  }

  ClassHead classifier(const std::string& tensor) const {
    ClassHead head;
    head.labels = class_labels(hp_, tensor + ".weight");
    head.classifier = linear_of(c_, tensor, static_cast<int64_t>(head.labels.size()), m_.hidden, true);
    return head;
  }

  const Checkpoint& c_;
  Hparams hp_;
  const Names& n_;
  std::string prefix_;
  int64_t heads_ = 0, width_ = 0;
  double eps_ = 0;
  Activation activation_ = Activation::gelu;
  Model m_;
};

Model describe(const Checkpoint& c) { return Describer(c).describe(); }

}  // namespace

extern const Family bert{.name = "bert", .architectures = kNames, .describe = describe};

}  // namespace anemone::families
