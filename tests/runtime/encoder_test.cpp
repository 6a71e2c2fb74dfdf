// Texts through bundles that see them whole, held against the reference.
#include "runtime/encoder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "families/family.h"
#include "reference/head.h"
#include "reference/reference.h"
#include "runtime/demo.h"
#include "runtime/session.h"
#include "support/made_model.h"
#include "support/temp_folder.h"
#include "support/tiny_encoder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

using Ids = std::vector<int32_t>;

// Sums in another order.
constexpr double kSame = 1e-5;

Ids text(int64_t tokens, int32_t step = 7) {
  Ids out;
  for (int64_t i = 0; i < tokens; ++i)
    out.push_back(static_cast<int32_t>((3 + i * step) % TinyEncoder::kVocab));
  return out;
}

struct Made {
  TempFolder folder;
  TinyEncoder model;
  std::shared_ptr<const Checkpoint> checkpoint;

  explicit Made(TinyEncoder m) : model(std::move(m)) {
    model.write(folder / "model");
    checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder / "model"));
  }

  std::shared_ptr<const Bundle> bundle(ConvertOptions options = {},
                                       const PredictOptions& run = {.threads = 1}) const {
    options.precision = Precision::fp16;
    options.overwrite = true;
    if (options.tokens.empty()) options.tokens = {{8, 8}, {16, 16}, {32, 32}};
    convert(folder / "model", folder / "bundle", options);
    return Bundle::open(folder / "bundle", cpu_backend(run));
  }

  // The stream at the end and what the head gives of it.
  std::pair<std::vector<float>, std::vector<float>> expected(const Ids& ids, const Ids& types = {}) const {
    const Reference reference(checkpoint, describe(*checkpoint), 1);
    std::vector<float> hidden;
    ReferenceOptions options;
    options.types = types;
    options.tap = [&](std::string_view name, int64_t, std::span<const float> values) {
      if (name == "final_norm") hidden.assign(values.begin(), values.end());
    };
    std::vector<float> head = ReferenceSession(reference, options).step(ids);
    return {hidden, head};
  }
};

}  // namespace

TEST_CASE("a text takes the shortest length that it fits, and its padding changes nothing") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const auto bundle = made.bundle();
  const Encoder encoder(bundle);
  CHECK(encoder.longest() == 32);
  for (const auto& [tokens, width] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 8}, {7, 8}, {8, 8}, {9, 16}, {32, 32}}) {
    CAPTURE(tokens);
    const EncodedText e = encoder.encode({.ids = text(tokens)});
    CHECK(e.tokens == tokens);
    CHECK(e.width == width);
    CHECK(e.cut == 0);
    const auto hidden = made.expected(text(tokens)).first;
    CHECK(range_error(e.hidden, hidden) < kSame);
    CHECK(range_error(e.pooled, pooled(hidden, TinyEncoder::kHidden, Pooling::mean)) < kSame);
    CHECK(e.classes.empty());
  }
}

TEST_CASE("a text of several shards, of a scaled stream and of an int8 table is the same text") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const auto hidden = made.expected(text(11)).first;
  for (const ConvertOptions& options : {ConvertOptions{.shard_bytes = 1}, ConvertOptions{.whole = true},
                                        ConvertOptions{.residual_scale = 0.25}}) {
    const EncodedText e = Encoder(made.bundle(options)).encode({.ids = text(11)});
    CHECK(range_error(e.hidden, hidden) < kSame);
    CHECK(range_error(e.pooled, pooled(hidden, TinyEncoder::kHidden, Pooling::mean)) < kSame);
  }
  // A row of 16 numbers in 127 steps either way.
  CHECK(range_error(Encoder(made.bundle({.embedding_int8 = true})).encode({.ids = text(11)}).hidden, hidden) <
        0.03);
}

TEST_CASE("pooling is the bundle's own, or what is asked for") {
  TinyEncoder model("BertModel", "bert");
  Made made(model);
  const auto hidden = made.expected(text(5)).first;
  const std::vector<float> first(hidden.begin(), hidden.begin() + TinyEncoder::kHidden);
  const EncodedText cls = Encoder(made.bundle(), {.pooling = Pooling::first}).encode({.ids = text(5)});
  CHECK(range_error(cls.pooled, first) < kSame);
  spill(made.folder / "model/modules.json",
        R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
            {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
            {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}])");
  spill(made.folder / "model/1_Pooling/config.json",
        R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  const auto bundle = made.bundle();
  CHECK(bundle->info().normalize);
  EncodedText own = Encoder(bundle).encode({.ids = text(5)});
  CHECK(range_error(own.pooled, first) < kSame);
  normalize(own.pooled);
  double squares = 0;
  for (const float v : own.pooled) squares += static_cast<double>(v) * static_cast<double>(v);
  CHECK(squares == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("classes of each token, and of a text") {
  const Made tokens(TinyEncoder("BertForTokenClassification", "bert", 3));
  const EncodedText each = Encoder(tokens.bundle()).encode({.ids = text(10)});
  REQUIRE(each.classes.size() == 30);
  CHECK(range_error(each.classes, tokens.expected(text(10)).second) < kSame);
  for (const char* type : {"bert", "roberta"}) {
    CAPTURE(type);
    const std::string architecture = std::string(type == std::string("bert") ? "Bert" : "Roberta");
    const Made whole(TinyEncoder(architecture + "ForSequenceClassification", type, 4));
    const auto bundle = whole.bundle();
    CHECK(bundle->info().labels == std::vector<std::string>{"class0", "class1", "class2", "class3"});
    // Whatever vector is asked for, the classifier pools as it was trained to.
    for (const auto pooling : {std::optional<Pooling>(), std::optional(Pooling::mean)}) {
      const EncodedText one = Encoder(bundle, {.pooling = pooling}).encode({.ids = text(10)});
      REQUIRE(one.classes.size() == 4);
      CHECK(range_error(one.classes, whole.expected(text(10)).second) < kSame);
    }
  }
}

TEST_CASE("token types are added, and one that the model does not have is refused") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const auto bundle = made.bundle();
  const Encoder encoder(bundle);
  const Ids types = {0, 0, 0, 1, 1, 1};
  const EncodedText e = encoder.encode({.ids = text(6), .types = types});
  CHECK(range_error(e.hidden, made.expected(text(6), types).first) < kSame);
  CHECK(range_error(e.hidden, made.expected(text(6)).first) > 1e-2);
  const Ids wrong = {0, 0, 2, 0, 0, 0}, few = {0, 0};
  CHECK(error_of([&] { encoder.encode({.ids = text(6), .types = wrong}); }).find("token type 2") !=
        std::string::npos);
  CHECK(error_of([&] {
          encoder.encode({.ids = text(6), .types = few});
        }).find("6 tokens and 2 token types") != std::string::npos);
}

TEST_CASE("RoBERTa counts positions from its padding token on: the first token has row 2 of the table") {
  Made made(TinyEncoder("RobertaModel", "roberta"));
  const Model model = describe(*made.checkpoint);
  CHECK(model.embedding.first_position == 2);
  CHECK(model.context == 32);
  const auto bundle = made.bundle();
  const Ids ids = {5, 9, 33};
  std::vector<float> row(TinyEncoder::kHidden);
  const auto table = [&](const char* name) -> const std::vector<float>& {
    return made.model.values.at(std::string("embeddings.") + name + ".weight");
  };
  for (int64_t t = 0; t < 3; ++t) {
    bundle->embedding().read({.id = ids[static_cast<size_t>(t)], .position = t}, row);
    for (int64_t c = 0; c < TinyEncoder::kHidden; ++c) {
      const auto at = [&](const char* name, int64_t r) {
        return table(name)[static_cast<size_t>(r * TinyEncoder::kHidden + c)];
      };
      CHECK(row[static_cast<size_t>(c)] ==
            doctest::Approx(at("word_embeddings", ids[static_cast<size_t>(t)]) +
                            at("position_embeddings", t + 2) + at("token_type_embeddings", 0)));
    }
  }
  CHECK(range_error(Encoder(bundle).encode({.ids = text(32)}).hidden, made.expected(text(32)).first) < kSame);
  CHECK(error_of([&] { made.bundle({.tokens = {{33, 33}}}); }).find("at most 32 tokens") !=
        std::string::npos);
}

TEST_CASE("a text that is too long is an error, or cut, its last tokens kept") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const auto bundle = made.bundle();
  const std::string problem = error_of([&] { Encoder(bundle).encode({.ids = text(33)}); });
  CHECK(problem.find("too long") != std::string::npos);
  CHECK(problem.find("33 tokens") != std::string::npos);
  CHECK(problem.find("at most 32") != std::string::npos);
  const EncodedText cut = Encoder(bundle, {.truncate = true, .keep_last = 1}).encode({.ids = text(40)});
  CHECK(cut.tokens == 32);
  CHECK(cut.cut == 8);
  Ids kept = text(31);
  kept.push_back(text(40).back());
  CHECK(cut.hidden == Encoder(bundle).encode({.ids = kept}).hidden);
  CHECK_THROWS_AS(Encoder(bundle).encode({}), Error);
  CHECK(error_of([&] { Encoder(bundle).encode({.ids = Ids{TinyEncoder::kVocab}}); }).find("vocabulary") !=
        std::string::npos);
}

TEST_CASE("many texts at once are the same texts, and what is wrong with one is told") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const auto bundle = made.bundle();
  const Encoder encoder(bundle);
  std::vector<Ids> all;
  std::vector<EncoderText> texts;
  for (int i = 0; i < 20; ++i) all.push_back(text(1 + i * 3 % 32, 1 + i));
  for (const Ids& ids : all) texts.push_back({.ids = ids});
  std::set<size_t> seen;
  encoder.each(texts, 4, [&](size_t i, const EncodedText& e) {
    seen.insert(i);
    CHECK(e.hidden == encoder.encode(texts[i]).hidden);
  });
  CHECK(seen.size() == texts.size());
  const Ids wrong = {1, -5};
  texts[11].ids = wrong;
  CHECK(error_of([&] { encoder.each(texts, 3, [](size_t, const EncodedText&) {}); }).find("-5") !=
        std::string::npos);
}

TEST_CASE("a bundle of another kind is refused, and told who takes it") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const auto bundle = made.bundle();
  CHECK(error_of([&] { const Session session(bundle); }).find("anemone embed") != std::string::npos);
  CHECK(error_of([&] { const Encoder encoder(demo_bundle({.context = {16}})); }).find("anemone run") !=
        std::string::npos);
}

TEST_CASE("choices that have no meaning for a text that is seen whole are refused by name") {
  const Made made(TinyEncoder("BertModel", "bert"));
  const auto refused = [&](const ConvertOptions& options) { return error_of([&] { made.bundle(options); }); };
  CHECK(refused({.context = {64}}).find("--context") != std::string::npos);
  CHECK(refused({.kv = lower::KvKind::io}).find("--kv") != std::string::npos);
  CHECK(refused({.argmax = true}).find("--argmax-output") != std::string::npos);
  CHECK(refused({.embedding_in_head = true}).find("--embedding head") != std::string::npos);
  CHECK(refused({.tokens = {{1, 16}}}).find("fixed lengths") != std::string::npos);
}

TEST_CASE("an embedding or classifying bundle without what it is for is refused, in one sentence") {
  using Json = nlohmann::ordered_json;
  const auto drop = [](Json& j, const char* role) {
    for (Json& f : j["stages"].back()["functions"]) {
      Json kept = Json::array();
      for (const Json& port : f["outputs"])
        if (port["role"] != role) kept.push_back(port);
      f["outputs"] = kept;
    }
  };
  struct Fault {
    std::string name, architecture;
    std::function<void(Json&)> change;
    std::string said;
  };
  const std::string tokens = "BertForTokenClassification", text_classes = "BertForSequenceClassification";
  const std::vector<Fault> faults = {
      {"no vector", "BertModel", [&](Json& j) { drop(j, "pooled"); }, "has the role 'pooled'"},
      {"no stream", "BertModel", [&](Json& j) { drop(j, "stream"); }, "has the role 'stream'"},
      {"another kind", "BertModel", [](Json& j) { j["kind"] = "classify"; }, "classes have no labels"},
      {"no classes", tokens, [&](Json& j) { drop(j, "classes"); }, "has the role 'classes'"},
      {"no labels", tokens, [](Json& j) { j["result"].erase("labels"); }, "classes have no labels"},
      {"empty labels", tokens, [](Json& j) { j["result"]["labels"] = Json::array(); }, "have no labels"},
      {"a label less", tokens, [](Json& j) { j["result"]["labels"].erase(0); },
       "'classes' has another shape than bundle.json says; found [1, 3, 8, 1], expected [1, 2, 8, "
       "1]"},
      {"one column said, many given", tokens, [](Json& j) { j["result"]["pooling"] = "mean"; },
       "found [1, 3, 8, 1], expected [1, 3, 1, 1]"},
      {"many columns said, one given", text_classes, [](Json& j) { j["result"].erase("pooling"); },
       "found [1, 3, 1, 1], expected [1, 3, 8, 1]"}};
  std::map<std::string, std::unique_ptr<Made>> models;
  for (const Fault& fault : faults) {
    CAPTURE(fault.name);
    auto& made = models[fault.architecture];
    if (!made) {
      made = std::make_unique<Made>(TinyEncoder(fault.architecture, "bert", 3));
      made->bundle();
      spill(made->folder / "good.json", slurp(made->folder / "bundle/bundle.json"));
    }
    Json j = Json::parse(slurp(made->folder / "good.json"));
    fault.change(j);
    spill(made->folder / "bundle/bundle.json", j.dump());
    const std::string error = error_of([&] {
      Encoder(Bundle::open(made->folder / "bundle", cpu_backend({.threads = 1}))).encode({.ids = text(5)});
    });
    INFO(error);
    CHECK(error.find(fault.said) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
}
