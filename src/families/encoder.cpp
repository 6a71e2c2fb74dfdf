#include "families/encoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/sentence.h"
#include "families/shared_keys.h"

namespace anemone {
namespace {

// A sentence transformer may be cut shorter than its table of positions.
int64_t longest(const Hparams& hp, int64_t otherwise) {
  const int64_t context = hp.find_integer(keys::kContext).value_or(otherwise);
  return std::min(context, sentence_limit(hp).value_or(context));
}

PooledHead gguf_pooling(const Hparams& hp, int64_t) {
  const Key key{"", "pooling_type"};
  switch (hp.find_integer(key, 0).value_or(1)) {
    case 0:
    case 1: return {.pooling = Pooling::mean};
    case 2: return {.pooling = Pooling::first};
    default:
      throw errorf("{} is not supported", hp.named(key))
          .at(hp.file())
          .found(fmt::format("{}", *hp.find_integer(key, 0)))
          .expected("0 (none), 1 (mean) or 2 (the first token)");
  }
}

void expect_both_ways(const Hparams& hp) {
  const Key key{"is_decoder", "attention.causal"};
  if (hp.find_flag(key).value_or(false))
    throw Error("an encoder with causal attention is not supported")
        .at(hp.file())
        .found(fmt::format("{} true", hp.named(key)))
        .expected("false");
}

}  // namespace

Model begin_encoder(const Hparams& hp, const std::string& embedding, int64_t default_context) {
  const Checkpoint& c = hp.checkpoint();
  expect_both_ways(hp);
  Model m;
  m.architecture = c.architecture();
  m.name = c.source_name();
  m.hidden = hp.integer(keys::kHidden, 2, 1 << 24);
  m.context = longest(hp, default_context);
  m.vocab = vocabulary_size(hp, embedding);
  m.embedding.tokens = {embedding, 0, m.vocab, m.hidden};
  const int64_t layers = hp.integer(keys::kLayers, 1, 4096);
  m.layers.resize(static_cast<size_t>(layers));
  note_origins(hp, m);
  read_special_tokens(hp, m, IdsOutside::are_passed_over);
  return m;
}

PooledHead pooled_head(const Hparams& hp, int64_t hidden) {
  constexpr ByNaming<PooledHead (*)(const Hparams&, int64_t)> kReaders{sentence_head, gguf_pooling};
  return kReaders[hp.naming()](hp, hidden);
}

std::vector<std::string> class_labels(const Hparams& hp, const std::string& tensor) {
  std::vector<std::string> out;
  const Key key{"id2label", ""};
  if (const auto labels = hp.find_object(key)) {
    out.resize(labels->size());
    for (const auto& [id, label] : labels->items()) {
      const bool number =
          !id.empty() && id.size() < 7 && id.find_first_not_of("0123456789") == std::string::npos;
      const size_t at = number ? std::stoull(id) : out.size();
      if (at >= out.size() || !label.is_string() || !out[at].empty())
        throw errorf("{} does not number its labels from 0 on", hp.named(key))
            .at(hp.file())
            .found(printable(id));
      out[at] = label.get<std::string>();
    }
    return out;
  }
  const TensorReader* weight = hp.checkpoint().find(tensor);
  for (int64_t i = 0; i < (weight ? weight->rows() : 2); ++i) out.push_back(fmt::format("LABEL_{}", i));
  return out;
}

ClassScores class_scores(const Hparams& hp, size_t classes) {
  const Key key{"problem_type", ""};
  const std::optional<std::string> said = hp.find_text(key);
  if (said == "regression") return ClassScores::plain;
  if (said == "multi_label_classification") return ClassScores::sigmoid;
  if (said && said != "single_label_classification")
    throw errorf("{} is not supported", hp.named(key))
        .at(hp.file())
        .found(printable(*said))
        .expected("single_label_classification, multi_label_classification or regression");
  return classes == 1 ? ClassScores::sigmoid : ClassScores::softmax;
}

Norm layer_norm_of(const Checkpoint& checkpoint, const std::string& name, int64_t width, double eps,
                   bool has_bias) {
  const bool old = checkpoint.find(name + ".gamma") != nullptr;
  Norm norm{
      .kind = Norm::Kind::layer, .gain = {name + (old ? ".gamma" : ".weight"), 0, width, 1}, .eps = eps};
  if (has_bias) norm.bias = {name + (old ? ".beta" : ".bias"), 0, width, 1};
  return norm;
}

void mark_sensitive(Model& model) {
  for (Layer& layer : model.layers)
    for (ResidualStep& step : layer.steps)
      for (Projection* p : std::visit([](auto& block) { return block.sensitive(); }, step.block))
        p->weight.sensitive = true;
}

Projection linear_of(const std::string& name, int64_t rows, int64_t columns, bool has_bias) {
  Projection p{.weight = {name + ".weight", 0, rows, columns}};
  if (has_bias) p.bias = {name + ".bias", 0, rows, 1};
  return p;
}

}  // namespace anemone
