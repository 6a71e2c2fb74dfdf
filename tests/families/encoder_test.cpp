// What the files of an encoder say beside its sizes: which biases there are.
#include "families/encoder.h"

#include <doctest/doctest.h>

#include "families/family.h"
#include "families/tiny_model.h"
#include "support/model_parts.h"
#include "support/temp_folder.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using test::attention_of;
using test::TinyEncoder;
using test::TinyModel;

namespace {

Model described_encoder(TinyEncoder encoder) {
  const TempFolder folder;
  encoder.write(folder / "model");
  return describe(Checkpoint::open(folder / "model"));
}

// Two layers of ModernBERT with hidden 8, and 3 classes for a text.
TinyModel modern_bert() {
  TinyModel m;
  m.config = {{"architectures", {"ModernBertForSequenceClassification"}},
              {"model_type", "modernbert"},
              {"hidden_size", 8},
              {"intermediate_size", 12},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 2},
              {"vocab_size", 10},
              {"max_position_embeddings", 64},
              {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
  m.tensors = {{"model.embeddings.tok_embeddings.weight", {10, 8}},
               {"model.embeddings.norm.weight", {8}},
               {"model.layers.1.attn_norm.weight", {8}},
               {"model.final_norm.weight", {8}},
               {"head.dense.weight", {8, 8}},
               {"head.norm.weight", {8}},
               {"classifier.weight", {3, 8}},
               {"classifier.bias", {3}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."})
    m.tensors.insert({{layer + "attn.Wqkv.weight", {24, 8}},
                      {layer + "attn.Wo.weight", {8, 8}},
                      {layer + "mlp_norm.weight", {8}},
                      {layer + "mlp.Wi.weight", {24, 8}},
                      {layer + "mlp.Wo.weight", {8, 12}}});
  return m;
}

Model described_modern_bert(const TinyModel& m) {
  const TempFolder folder;
  return describe(m.safetensors(folder));
}

}  // namespace

TEST_CASE("BERT and RoBERTa have a bias everywhere, and one that is missing is named") {
  const auto without = [](const char* architecture, const char* type, int64_t classes,
                          const std::string& tensor) {
    TinyEncoder m(architecture, type, classes);
    REQUIRE(m.shapes.erase(tensor) == 1);
    CAPTURE(tensor);
    CHECK_THROWS_WITH_AS(described_encoder(m), doctest::Contains(("'" + tensor + "'").c_str()), Error);
  };
  for (const char* tensor :
       {"embeddings.LayerNorm.bias", "encoder.layer.0.attention.self.query.bias",
        "encoder.layer.1.attention.output.dense.bias", "encoder.layer.1.attention.output.LayerNorm.bias",
        "encoder.layer.0.intermediate.dense.bias", "encoder.layer.1.output.dense.bias",
        "encoder.layer.0.output.LayerNorm.bias"}) {
    without("BertModel", "bert", 0, tensor);
    without("RobertaModel", "roberta", 0, tensor);
  }
  without("BertForTokenClassification", "bert", 3, "classifier.bias");
  without("BertForSequenceClassification", "bert", 3, "bert.pooler.dense.bias");
  without("RobertaForSequenceClassification", "roberta", 3, "classifier.dense.bias");
  without("RobertaForSequenceClassification", "roberta", 3, "classifier.out_proj.bias");
}

TEST_CASE("ModernBERT has the biases that its keys say, and no others") {
  CHECK(!attention_of(described_modern_bert(modern_bert()), 1).q.bias);
  const std::map<const char*, std::map<std::string, int64_t>> biases = {
      {"norm_bias",
       {{"model.embeddings.norm", 8},
        {"model.layers.0.mlp_norm", 8},
        {"model.layers.1.attn_norm", 8},
        {"model.layers.1.mlp_norm", 8},
        {"model.final_norm", 8},
        {"head.norm", 8}}},
      {"attention_bias",
       {{"model.layers.0.attn.Wqkv", 24},
        {"model.layers.0.attn.Wo", 8},
        {"model.layers.1.attn.Wqkv", 24},
        {"model.layers.1.attn.Wo", 8}}},
      {"mlp_bias",
       {{"model.layers.0.mlp.Wi", 24},
        {"model.layers.0.mlp.Wo", 8},
        {"model.layers.1.mlp.Wi", 24},
        {"model.layers.1.mlp.Wo", 8}}},
      {"classifier_bias", {{"head.dense", 8}}}};
  for (const auto& [key, places] : biases) {
    CAPTURE(key);
    TinyModel whole = modern_bert();
    whole.config[key] = true;
    for (const auto& [place, size] : places) whole.tensors[place + ".bias"] = {size};
    CHECK_NOTHROW(described_modern_bert(whole));
    for (const auto& [place, size] : places) {
      const std::string named = "'" + place + ".bias'";
      CAPTURE(named);
      TinyModel missing = whole, stray = modern_bert();
      missing.tensors.erase(place + ".bias");
      CHECK_THROWS_WITH_AS(described_modern_bert(missing), doctest::Contains(named.c_str()), Error);
      stray.tensors[place + ".bias"] = {size};
      CHECK_THROWS_WITH_AS(described_modern_bert(stray), doctest::Contains(named.c_str()), Error);
    }
  }
  TinyModel head = modern_bert();
  head.tensors.erase("classifier.bias");
  CHECK_THROWS_WITH_AS(described_modern_bert(head), doctest::Contains("'classifier.bias'"), Error);
}
