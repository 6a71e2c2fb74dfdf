// What the files of an encoder say beside its sizes: which biases there are, how its vectors and scores are made.
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

using Json = nlohmann::ordered_json;
using Files = std::map<std::string, Json>;

// With other files beside config.json.
Model described_encoder(TinyEncoder encoder, const Files& files = {}) {
  const TempFolder folder;
  encoder.write(folder / "model");
  for (const auto& [name, json] : files) spill(folder / "model" / name, json.dump());
  return describe(Checkpoint::open(folder / "model"));
}

PooledHead sentence(const Files& files) {
  return std::get<PooledHead>(described_encoder(TinyEncoder("BertModel", "bert"), files).head);
}

void refuse_sentence(const Files& files, const std::vector<const char*>& words) {
  for (const char* word : words) {
    CAPTURE(word);
    CHECK_THROWS_WITH_AS(sentence(files), doctest::Contains(word), Error);
  }
}

Json sentence_modules(const std::vector<std::string>& kinds) {
  Json out = Json::array();
  for (const std::string& kind : kinds)
    out.push_back({{"idx", out.size()},
                   {"path", kind == "Pooling" ? "1_Pooling" : ""},
                   {"type", "sentence_transformers.models." + kind}});
  return out;
}

const Json kCls = {{"word_embedding_dimension", TinyEncoder::kHidden},
                   {"pooling_mode_cls_token", true},
                   {"pooling_mode_mean_tokens", false},
                   {"pooling_mode_max_tokens", false}};

// The pooling of a whole sentence transformer, with some keys of its configuration set.
Files pooling_files(const Json& changes = Json::object()) {
  Json pooling = kCls;
  if (!changes.is_null()) pooling.update(changes);
  return {{"modules.json", sentence_modules({"Transformer", "Pooling"})}, {"1_Pooling/config.json", pooling}};
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

TEST_CASE("a sentence transformer's modules say how a text becomes a vector") {
  CHECK(sentence({}).pooling == Pooling::mean);
  CHECK(sentence(pooling_files()).pooling == Pooling::first);
  CHECK(!sentence(pooling_files()).normalize);
  Files all = pooling_files({{"pooling_mode_cls_token", false}, {"pooling_mode_mean_tokens", true}});
  all["modules.json"] = sentence_modules({"Transformer", "Pooling", "Normalize"});
  CHECK(sentence(all).pooling == Pooling::mean);
  CHECK(sentence(all).normalize);
  CHECK(sentence({{"1_Pooling/config.json", kCls}}).pooling == Pooling::first);  // without modules.json
  CHECK(sentence(pooling_files({{"pooling_mode", "mean"}})).pooling == Pooling::mean);
}

TEST_CASE("what a bundle cannot do of a sentence transformer is refused by name") {
  Files files = pooling_files();
  for (const char* kind : {"Dense", "LayerNorm", "WeightedLayerPooling"}) {
    files["modules.json"] = sentence_modules({"Transformer", "Pooling", kind});
    refuse_sentence(files, {"modules.json", "module 2", kind});
  }
  files["modules.json"] = sentence_modules({"Transformer", "Normalize", "Pooling"});
  refuse_sentence(files, {"in this order", "Transformer, Normalize, Pooling"});
  files["modules.json"] = sentence_modules({"Transformer"});
  refuse_sentence(files, {"modules.json", "found Transformer"});
  files["modules.json"] = {{"type", 5}};
  refuse_sentence(files, {"modules.json", "a list of modules"});
  files["modules.json"] = {{{"type", 5}}};
  refuse_sentence(files, {"module 0", "5"});
  refuse_sentence({{"modules.json", sentence_modules({"Transformer", "Pooling"})}},
                  {"1_Pooling/config.json", "missing", "modules.json"});
  refuse_sentence(pooling_files({{"word_embedding_dimension", 17}}),
                  {"1_Pooling/config.json", "'word_embedding_dimension'", "found 17", "expected 16"});
  refuse_sentence(pooling_files({{"include_prompt", false}}), {"'include_prompt'", "found false"});
  refuse_sentence(pooling_files({{"pooling_mode_mean_tokens", true}}),
                  {"pooling_mode_mean_tokens and pooling_mode_cls_token", "alone"});
  refuse_sentence(pooling_files({{"pooling_mode_cls_token", false}, {"pooling_mode_max_tokens", true}}),
                  {"found pooling_mode_max_tokens"});
  refuse_sentence(pooling_files({{"pooling_mode_cls_token", false}}), {"found none"});
  refuse_sentence(pooling_files({{"pooling_mode", "lasttoken"}}), {"lasttoken", "mean or cls"});
  refuse_sentence(pooling_files({{"pooling_mode_max_tokens", 1}}), {"'pooling_mode_max_tokens'"});
}

TEST_CASE("a sentence transformer that changes its texts first is refused, unless the change is none") {
  const char* prompts = "config_sentence_transformers.json";
  refuse_sentence({{prompts, {{"prompts", {{"q", "query: "}}}, {"default_prompt_name", "q"}}}},
                  {prompts, "'default_prompt_name' q", "query: ", "--prefix"});
  CHECK_NOTHROW(sentence({{prompts, {{"prompts", {{"q", ""}}}, {"default_prompt_name", "q"}}}}));
  CHECK_NOTHROW(sentence({{prompts, {{"prompts", {{"q", "query: "}}}, {"default_prompt_name", nullptr}}}}));
  Files lower = {{"sentence_bert_config.json", {{"do_lower_case", true}}}};
  refuse_sentence(lower, {"sentence_bert_config.json", "'do_lower_case'"});
  lower["tokenizer_config.json"] = {{"do_lower_case", true}};
  CHECK_NOTHROW(sentence(lower));
}

TEST_CASE("a sentence transformer's longest text is a number of tokens, or not said") {
  const auto context = [](const Json& most) {
    return described_encoder(TinyEncoder("BertModel", "bert"),
                             {{"sentence_bert_config.json", {{"max_seq_length", most}}}})
        .context;
  };
  CHECK(context(12) == 12);
  CHECK(context(1000) == TinyEncoder::kPositions);
  CHECK(context(nullptr) == TinyEncoder::kPositions);
  for (const Json& wrong : {Json(0), Json(-5), Json("x"), Json(7.5)}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(context(wrong), doctest::Contains("'max_seq_length'"), Error);
  }
}

TEST_CASE("what a classifier's logits become is its problem's type") {
  const auto scores = [](int64_t classes, const char* type) {
    TinyEncoder m("BertForSequenceClassification", "bert", classes);
    if (type) m.config["problem_type"] = type;
    return std::get<ClassHead>(described_encoder(m).head).scores;
  };
  CHECK(scores(3, nullptr) == ClassScores::softmax);
  CHECK(scores(1, nullptr) == ClassScores::sigmoid);
  CHECK(scores(3, "single_label_classification") == ClassScores::softmax);
  CHECK(scores(3, "multi_label_classification") == ClassScores::sigmoid);
  CHECK(scores(1, "regression") == ClassScores::plain);
  CHECK_THROWS_WITH_AS(scores(3, "ranking"), doctest::Contains("'problem_type' of config.json"), Error);
}

TEST_CASE("an encoder that looks one way, or has other positions, is refused by its key") {
  TinyEncoder m("BertModel", "bert");
  m.config["is_decoder"] = true;
  CHECK_THROWS_WITH_AS(described_encoder(m), doctest::Contains("'is_decoder' of config.json true"), Error);
  m.config["is_decoder"] = false;
  m.config["position_embedding_type"] = "rotary";
  CHECK_THROWS_WITH_AS(described_encoder(m),
                       doctest::Contains("'position_embedding_type' of config.json is not supported"), Error);
}
