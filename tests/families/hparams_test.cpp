// Hyperparameters: one value, lists per layer and dictionaries, under the keys of either naming.
#include "families/hparams.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/gguf_builder.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

constexpr Key kTypes{"layer_types", ""};
constexpr Key kNoRope{"no_rope_layers", ""};
constexpr Key kPattern{"", "attention.sliding_window_pattern"};
constexpr Key kScales{"scales", "scales"};

Checkpoint from_config(nlohmann::ordered_json config) {
  config["num_hidden_layers"] = 3;
  return Checkpoint::from_config(std::move(config), "tiny");
}

// A GGUF file of three layers with more values.
Checkpoint from_gguf(const TempFolder& folder, const std::function<void(test::GgufBuilder&)>& add) {
  test::GgufBuilder b;
  b.value("general.architecture", "lfm2").number<uint32_t>("lfm2.block_count", 4, 3);
  add(b);
  return Checkpoint::open(folder.write("tiny.gguf", b.bytes()));
}

template <class Read>
std::string failure(const Checkpoint& c, Read read) {
  return error_of([&] { read(Hparams(c)); });
}

void check_names(const std::string& message, std::initializer_list<const char*> parts) {
  INFO(message);
  for (const char* part : parts) CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("lists per layer are read from config.json") {
  const Checkpoint c = from_config({{"layer_types", {"conv", "full_attention", "conv"}},
                                    {"no_rope_layers", {1, 0, 1}},
                                    {"flags", {true, false, true}},
                                    {"scales", {1, 0.5, 2.0}},
                                    {"num_key_value_heads", 4},
                                    {"full_attn_idxs", {1}},
                                    {"nothing", nullptr}});
  const Hparams hp(c);
  CHECK(hp.find_layer_texts(kTypes, 3) == std::vector<std::string>{"conv", "full_attention", "conv"});
  CHECK(hp.find_layer_flags(kNoRope, 3) == std::vector<bool>{true, false, true});
  CHECK(hp.find_layer_flags({"flags", ""}, 3) == std::vector<bool>{true, false, true});
  CHECK(hp.find_layer_integers(kNoRope, 3) == std::vector<int64_t>{1, 0, 1});
  CHECK(hp.find_layer_integers(keys::kKvHeads, 3) == std::vector<int64_t>{4, 4, 4});
  CHECK(hp.find_integers({"full_attn_idxs", ""}, 0, 2) == std::vector<int64_t>{1});
  for (const char* absent : {"none", "nothing"}) {
    CHECK(!hp.find_layer_texts({absent, ""}, 3));
    CHECK(!hp.find_integers({absent, ""}));
    CHECK(!hp.find_object({absent, ""}));
    CHECK(!hp.is_list({absent, ""}));
  }
  CHECK(hp.says({"nothing", ""}));
  CHECK(!hp.says({"none", ""}));
  CHECK(hp.is_list(kTypes));
  CHECK(!hp.is_list(keys::kKvHeads));
}

TEST_CASE("lists per layer are read from GGUF metadata") {
  TempFolder folder;
  const Checkpoint c = from_gguf(folder, [](test::GgufBuilder& b) {
    b.array<int32_t>("lfm2.attention.head_count_kv", 5, {0, 8, 0});
    b.array<uint8_t>("lfm2.attention.sliding_window_pattern", 7, {1, 0, 1});
    b.array<float>("lfm2.scales", 6, {0.5f, 1, 2});
    b.number<uint32_t>("lfm2.feed_forward_length", 4, 48);
  });
  const Hparams hp(c);
  CHECK(hp.find_layer_integers(keys::kKvHeads, 3) == std::vector<int64_t>{0, 8, 0});
  CHECK(hp.find_layer_flags(kPattern, 3) == std::vector<bool>{true, false, true});
  CHECK(hp.find_layer_integers(keys::kIntermediate, 3) == std::vector<int64_t>{48, 48, 48});
  CHECK(hp.is_list(kPattern));
  CHECK(hp.says(keys::kLayers));
  CHECK(!hp.says(keys::kHeads));
  CHECK(!hp.find_layer_texts(kTypes, 3));  // a key that GGUF does not have
  CHECK(!hp.says(kTypes));
  CHECK(!hp.find_object({"rope_parameters", ""}));
  check_names(failure(c, [](const Hparams& h) { h.find_integer(keys::kKvHeads, 0); }),
              {"'lfm2.attention.head_count_kv'", "0 in layer 0, 8 in layer 1", "tiny.gguf"});
}

TEST_CASE("a list of another length or kind is an error that names key and file") {
  TempFolder folder;
  const Checkpoint gguf = from_gguf(folder, [](test::GgufBuilder& b) {
    b.array<int32_t>("lfm2.attention.head_count_kv", 5, {0, 8});
    b.strings("lfm2.scales", {"a", "b", "c"});
    b.number<uint32_t>("lfm2.attention.sliding_window_pattern", 4, 6);
    b.array<uint32_t>("lfm2.feed_forward_length", 4, {});
    b.number<float>("lfm2.embedding_length", 6, 64);
    b.number<float>("lfm2.rope.freq_base", 6, INFINITY);
    b.number<uint64_t>("lfm2.context_length", 10, UINT64_MAX);
  });
  check_names(failure(gguf, [](const Hparams& h) { h.find_layer_integers(keys::kKvHeads, 3); }),
              {"tiny.gguf: 'lfm2.attention.head_count_kv' has another number of layers", "found 2",
               "expected 3 ('lfm2.block_count')"});
  check_names(failure(gguf, [](const Hparams& h) { h.find_layer_integers(kScales, 3); }),
              {"'lfm2.scales' has a value of the wrong kind", "\"a\" in place 0", "whole numbers"});
  check_names(failure(gguf, [](const Hparams& h) { h.find_layer_flags(kPattern, 3); }),
              {"found 6", "a list of true and false"});
  check_names(failure(gguf, [](const Hparams& h) { h.find_integer(keys::kIntermediate); }),
              {"'lfm2.feed_forward_length'", "an empty list"});
  check_names(failure(gguf, [](const Hparams& h) { h.find_integer(keys::kHidden); }),
              {"'lfm2.embedding_length'", "found 64.0", "a whole number"});
  check_names(failure(gguf, [](const Hparams& h) { h.number({"", "rope.freq_base"}); }),
              {"'lfm2.rope.freq_base'", "found inf", "a finite number"});
  check_names(failure(gguf, [](const Hparams& h) { h.find_integer(keys::kContext); }),
              {"tiny.gguf", "'lfm2.context_length'", "18446744073709551615"});
  check_names(failure(gguf, [](const Hparams& h) { h.number({"", "none"}); }), {"'lfm2.none' is missing"});

  const Checkpoint config = from_config({{"layer_types", {"conv", 3, "conv"}},
                                         {"no_rope_layers", {1, 2, 0}},
                                         {"full_attn_idxs", {1, 5}},
                                         {"scales", "all"},
                                         {"rope_parameters", {1, 2}}});
  check_names(failure(config, [](const Hparams& h) { h.find_layer_texts(kTypes, 3); }),
              {"'layer_types' of config.json", "3 in place 1", "a list of texts"});
  check_names(failure(config, [](const Hparams& h) { h.find_layer_flags(kNoRope, 3); }), {"2 in place 1"});
  check_names(failure(config, [](const Hparams& h) { h.find_layer_texts(kTypes, 4); }),
              {"found 3", "expected 4 ('num_hidden_layers' of config.json)"});
  check_names(failure(config, [](const Hparams& h) { h.find_integers({"full_attn_idxs", ""}, 0, 2); }),
              {"'full_attn_idxs' of config.json is out of range", "found 5", "0 to 2"});
  check_names(failure(config, [](const Hparams& h) { h.find_layer_integers(kScales, 3); }), {"\"all\""});
  check_names(failure(config, [](const Hparams& h) { h.find_integers(keys::kLayers); }),
              {"found 3", "a list of whole numbers"});
  check_names(failure(config, [](const Hparams& h) { h.find_object({"rope_parameters", ""}); }),
              {"'rope_parameters' of config.json", "[1,2]", "an object"});
}

TEST_CASE("a model with other parts is read from its text part, token ids from beside it too") {
  const Checkpoint c = from_config({{"hidden_size", 1},
                                    {"eos_token_id", {1, 5}},
                                    {"text_config",
                                     {{"hidden_size", 64},
                                      {"layer_types", {"a", "b"}},
                                      {"rope_parameters", {{"rope_theta", 5.0}}},
                                      {"bos_token_id", 2},
                                      {"sliding_window", nullptr}}}});
  const Hparams hp(c);
  CHECK(hp.has_text_part());
  CHECK(hp.integer(keys::kHidden) == 64);
  CHECK(hp.is_list(kTypes));
  CHECK(hp.find_layer_texts(kTypes, 2) == std::vector<std::string>{"a", "b"});
  CHECK(hp.find_object({"rope_parameters", ""})->at("rope_theta") == 5.0);
  CHECK(!hp.find_integer(keys::kLayers));  // that is of the whole
  CHECK(hp.says(keys::kWindow));
  CHECK(!hp.find_integer(keys::kWindow));
  CHECK(hp.find_token_ids({"bos_token_id", ""}, 10) == std::vector<int64_t>{2});
  CHECK(hp.find_token_ids({"eos_token_id", ""}, 10) == std::vector<int64_t>{1, 5});
  CHECK_THROWS_WITH_AS(
      hp.find_token_ids({"eos_token_id", ""}, 5),
      doctest::Contains("'eos_token_id' of config.json is not a token of the vocabulary; found 5"), Error);
}

TEST_CASE("a key that is left out means a default in config.json alone") {
  const Checkpoint config = from_config({{"max_position_embeddings", nullptr}});
  const Hparams hp(config);
  CHECK(hp.has_defaults());
  CHECK(hp.integer_or(keys::kContext, 2048) == 2048);
  CHECK(hp.number_or(keys::kNormEps, 1e-6) == 1e-6);
  check_names(failure(config, [](const Hparams& h) { h.integer_or(keys::kHeads, 0); }),
              {"'num_attention_heads' of config.json is missing"});

  const TempFolder folder;
  const Checkpoint gguf = from_gguf(folder, [](test::GgufBuilder& b) {
    b.number<uint32_t>("lfm2.context_length", 4, 64);
    b.number<uint32_t>("tokenizer.ggml.bos_token_id", 4, 3);
  });
  CHECK(!Hparams(gguf).has_defaults());
  CHECK(Hparams(gguf).integer_or(keys::kContext, 2048) == 64);
  check_names(failure(gguf, [](const Hparams& h) { h.integer_or(keys::kHeads, 8); }),
              {"'lfm2.attention.head_count' is missing"});
  check_names(failure(gguf, [](const Hparams& h) { h.number_or(keys::kNormEps, 1e-6); }), {"is missing"});
  // Keys of the tokenizer have no architecture in front.
  const Key bos{"bos_token_id", "tokenizer.ggml.bos_token_id"};
  CHECK(Hparams(gguf).named(bos) == "'tokenizer.ggml.bos_token_id'");
  CHECK(Hparams(gguf).find_token_ids(bos, 10) == std::vector<int64_t>{3});
  CHECK(Hparams(gguf).spells(bos));
  CHECK(!Hparams(gguf).spells(keys::kTypes));
  CHECK(hp.spells(keys::kTypes));
}

TEST_CASE("a table has an entry for each naming, and names of another kind are an error") {
  constexpr ByNaming<const char*> head{"lm_head", "output"};
  CHECK(std::string(head[Naming::hugging_face]) == "lm_head");
  CHECK(std::string(head[Naming::gguf]) == "output");
  static_assert(!std::is_default_constructible_v<ByNaming<int>>);
  static_assert(!std::is_constructible_v<ByNaming<int>, int>);  // one entry does not stand for all
  CHECK_THROWS_WITH_AS(head[static_cast<Naming>(7)], doctest::Contains("not known"), Error);
}
