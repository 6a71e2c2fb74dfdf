#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "check/wrap.h"
#include "checkpoint/gguf_builder.h"
#include "e2e/command.h"
#include "mil/builder.h"
#include "package/package.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

TEST_CASE("inspect shows inputs, outputs, states and weights") {
  const Outcome plain = anemone_command({"inspect", recall_package()});
  CHECK(plain.status == 0);
  CHECK(plain.err == "");
  for (const char* text : {"function main", "letter: fp16 [1, 32, 1, 1]", "k_cache: fp16 [1, 1, 32, 64]",
                           "write_state 3", "weights", "Remembers a text"})
    CHECK_MESSAGE(plain.out.find(text) != std::string::npos, text);
  const Outcome mil = anemone_command({"inspect", recall_package(), "--mil"});
  CHECK(mil.out.starts_with("program(1"));
  const Outcome weights = anemone_command({"inspect", recall_package(), "--weights", "--ops"});
  CHECK(weights.out.find("[64, 64, 1, 1]") != std::string::npos);
}

TEST_CASE("inspect keeps to 100 columns and says what an image and a classifier are") {
  const TempFolder folder;
  Package package;
  package.spec_version = 9;
  Function& f = add_function(package.program, "main", Opset::ios18);
  Value* x = add_input(f, "picture", Type::tensor(DType::fp32, {1, 2}));
  Builder b(f);
  Value* w = b.constant(Constant::from_bytes(Type::tensor(DType::fp32, {20, 2}), Constant::Bytes(160)),
                        "a_weight_with_a_name_that_is_" + std::string(60, 'x'));
  Value* y = b.op("linear", {{"x", x}, {"weight", w}}, "a_value_with_a_name_that_is_" + std::string(30, 'y'));
  Value* z = b.op("softmax", {{"x", y}, {"axis", Constant::integer(-1)}});
  b.output(z);
  package.description = description_of(package.program);
  Feature& feature = package.description.main.inputs[0];
  feature.description =
      "what the camera sees when it is dark, when it is light, when it is neither of the two, and when there "
      "is no camera at all";
  feature.type.kind = FeatureType::Kind::image;
  feature.type.image = {2, 1, 30, {}, {}};
  package.description.metadata = Metadata{std::string(300, 'd'), "", "", "", {}, ""};
  write_package(package, folder / "m.mlpackage");
  const Outcome plain = anemone_command({"inspect", folder / "m.mlpackage", "--weights", "--ops"});
  CHECK(plain.status == 0);
  CHECK(plain.out.find("picture: fp32 [1, 2]; BGR image 2x1, given as an array of its pixels") !=
        std::string::npos);
  CHECK(plain.out.find(std::string(60, 'x') + "\n") != std::string::npos);
  std::istringstream lines(plain.out.substr(plain.out.find('\n')));  // the first one is the path
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(columns(line) <= 100, line);
  const Outcome all =
      anemone_command({"inspect", folder / "m.mlpackage", "--weights", "--ops", "--mil", "--json"});
  const auto json = nlohmann::json::parse(all.out);
  CHECK(json.at("mil").get<std::string>().starts_with("program(1.3)"));
  CHECK(json.at("functions").at(0).at("inputs").at(0).at("image") == "BGR image 2x1");
  CHECK(json.at("functions").at(0).at("operations").at(1).at("types").at(0) == "tensor<fp32, [1, 20]>");
}

TEST_CASE("inspect --json is JSON and says the same") {
  const auto json = nlohmann::json::parse(anemone_command({"inspect", recall_package(), "--json"}).out);
  CHECK(json.at("specification_version") == 9);
  const auto& function = json.at("functions").at(0);
  CHECK(function.at("name") == "main");
  CHECK(function.at("inputs").size() == 3);
  CHECK(function.at("states").size() == 3);
  CHECK(function.at("ops").at("conv") == 5);
  CHECK(json.at("metadata").at("user").at("alphabet") == " abcdefghijklmnopqrstuvwxyz.,'-?");
}

TEST_CASE("what is no package is refused by name") {
  const TempFolder folder;
  check_refused(anemone_command({"inspect", folder / "absent.mlpackage"}), {"absent.mlpackage"});
  spill(folder / "note.txt", "not a model");
  check_refused(anemone_command({"inspect", folder / "note.txt"}), {"note.txt"});
  std::filesystem::create_directory(folder / "empty.mlpackage");
  check_refused(anemone_command({"inspect", folder / "empty.mlpackage"}), {"empty.mlpackage"});
  spill(folder / "bad.mlpackage/Manifest.json", "{\"fileFormatVersion\": ");
  check_refused(anemone_command({"inspect", folder / "bad.mlpackage"}), {"Manifest.json"});
  // A model cut short.
  std::filesystem::copy(recall_package(), folder / "cut.mlpackage", std::filesystem::copy_options::recursive);
  const auto model = folder / "cut.mlpackage/Data/com.apple.CoreML/model.mlmodel";
  std::filesystem::permissions(model, std::filesystem::perms::owner_all);
  std::filesystem::resize_file(model, 3000);
  check_refused(anemone_command({"inspect", folder / "cut.mlpackage"}), {"model.mlmodel"});
  // Weights cut short: found when they are looked at.
  std::filesystem::copy(recall_package(), folder / "thin.mlpackage",
                        std::filesystem::copy_options::recursive);
  const auto weights = folder / "thin.mlpackage/Data/com.apple.CoreML/weights/weight.bin";
  std::filesystem::permissions(weights, std::filesystem::perms::owner_all);
  std::filesystem::resize_file(weights, 3000);
  check_refused(anemone_command({"predict", folder / "thin.mlpackage", "--inputs", recall_steps().at(0)}),
                {"weight.bin"});
}

TEST_CASE("inspect shows a GGUF checkpoint: facts, and tensors of all layers in one line") {
  const TempFolder folder;
  test::GgufBuilder b;
  b.value("general.architecture", "nobody").value("general.name", "Tiny").value("general.license", "mit");
  b.number<uint32_t>("nobody.block_count", 4, 2).number<uint32_t>("nobody.context_length", 4, 512);
  b.number<uint32_t>("nobody.attention.head_count", 4, 4)
      .number<uint32_t>("nobody.attention.head_count_kv", 4, 2);
  // Q8_0 (type 8): 34 bytes for 32 weights. F16 (type 1).
  b.tensor("blk.0.attn_q.weight", {64, 2}, 8, 0).tensor("blk.1.attn_q.weight", {64, 2}, 8, 160);
  b.tensor("token_embd.weight", {64, 3}, 1, 320).data(320 + 384);
  spill(folder / "t.gguf", b.bytes());
  const Outcome plain = anemone_command({"inspect", folder / "t.gguf"});
  CAPTURE(plain.err);
  CHECK(plain.status == 0);
  // 448 weights in 2 * 136 + 384 bytes.
  for (const char* text :
       {"a GGUF checkpoint: Tiny, architecture nobody", "448, 656 B, 11.71 bits per weight",
        "2 layers, 4 query heads, 2 KV heads, context 512", "license     mit", "template    no",
        "tokenizer   none", "blk.*.attn_q.weight", "Q8_0, 2 of them", "8.50", "[3, 64]",
        "note: convert cannot take it"})
    CHECK_MESSAGE(plain.out.find(text) != std::string::npos, text << " in " << plain.out);
  CHECK(plain.out.find("blk.0.attn_q") == std::string::npos);
  CHECK(anemone_command({"inspect", folder / "t.gguf", "--weights"}).out.find("blk.1.attn_q.weight") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(anemone_command({"inspect", folder / "t.gguf", "--json"}).out);
  CHECK(json.at("parameters") == 448);
  CHECK(json.at("weights").size() == 3);
  CHECK(json.at("weights").at(1).at("bits_per_weight") == 8.5);
  CHECK(json.at("weights").at(2).at("shape") == nlohmann::json::array({3, 64}));
  CHECK(json.at("hidden").is_null());
  CHECK(json.at("tokenizer").is_null());
  for (const char* flag : {"--mil", "--ops"})
    check_refused(anemone_command({"inspect", folder / "t.gguf", flag}), {"t.gguf", "convert it first"});
  check_refused(anemone_command({"inspect", folder / "t.gguf", "--html", folder / "p.html"}),
                {"convert it first"});
  CHECK(!std::filesystem::exists(folder / "p.html"));
  check_refused(anemone_command({"inspect", recall_package(), "--target", "m4"}), {"--html"});
}

TEST_CASE("inspect shows a safetensors folder and the bundle made from it in the same way") {
  const auto models = data_folder("models");
  if (!models) return;
  const std::filesystem::path model = *models / "qwen3-tiny";
  const auto config = nlohmann::json::parse(slurp(model / "config.json"));
  const auto words = nlohmann::json::parse(slurp(model / "tokenizer.json"));
  const TempFolder folder;
  REQUIRE(anemone_command({"convert", model, "-o", folder / "b", "--quiet"}).status == 0);
  for (const std::string& path : {model.string(), (folder / "b").string()}) {
    CAPTURE(path);
    const auto json = nlohmann::json::parse(anemone_command({"inspect", path, "--json"}).out);
    CHECK(json.at("layers") == config.at("num_hidden_layers"));
    CHECK(json.at("heads") == config.at("num_attention_heads"));
    CHECK(json.at("kv_heads") == config.at("num_key_value_heads"));
    CHECK(json.at("hidden") == config.at("hidden_size"));
    CHECK(json.at("context") == config.at("max_position_embeddings"));
    CHECK(json.at("tokenizer").at("kind") == words.at("model").at("type"));
    CHECK(json.at("parameters") > 0);
    uint64_t bytes = 0;
    for (const auto& w : json.at("weights")) bytes += w.at("bytes").get<uint64_t>();
    CHECK(json.at("weight_bytes") == bytes);
    const Outcome plain = anemone_command({"inspect", path});
    for (const char* text :
         {"parameters", "bits per weight", "tokenizer   BPE, ", "template    ", "license     "})
      CHECK_MESSAGE(plain.out.find(text) != std::string::npos, text);
  }
}
