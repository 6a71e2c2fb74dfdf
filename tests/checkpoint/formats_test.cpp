// Which format a path is of, and that each gives the same kinds of answers.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/file_format.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_builder.h"
#include "support/temp_folder.h"

using namespace anemone;
using Json = nlohmann::ordered_json;
using test::GgufBuilder;

namespace {

Claim claim_none(const std::filesystem::path&) { return Claim::none; }
Claim claim_inside(const std::filesystem::path&) { return Claim::holds_one; }
Claim claim_whole(const std::filesystem::path&) { return Claim::whole; }

constexpr FileFormat kOther{"other", "nothing", claim_none, nullptr};
constexpr FileFormat kLoose{"loose", "a folder with an .a", claim_inside, nullptr};
constexpr FileFormat kFirst{"first", "an .a file", claim_whole, nullptr};
constexpr FileFormat kSecond{"second", "a .b file", claim_whole, nullptr};

// A format of its own: values and a tensor that lie in memory.
class MemoryReader : public CheckpointReader {
 public:
  MemoryReader() : CheckpointReader(facts_of(), tensors_of()) {}
  std::string_view format_name() const override { return "memory"; }
  std::optional<Naming> naming() const override { return Naming::hugging_face; }
  std::optional<Json> value(std::string_view key) const override {
    return key == "num_hidden_layers" ? std::optional<Json>(2) : std::nullopt;
  }
  std::optional<uint64_t> list_size(std::string_view) const override { return std::nullopt; }
  std::optional<Json> companion(const std::string&) const override { return std::nullopt; }
  TokenizerSource tokenizer() const override { return {.load = "words", .main = "", .files = {}}; }

 private:
  static CheckpointFacts facts_of() {
    return {.path = "here", .architecture = "LlamaForCausalLM", .author = "We"};
  }
  static std::vector<TensorReader> tensors_of() {
    std::string bytes;
    for (const float x : {1.0f, 2.0f, 3.0f}) test::put(bytes, x);
    const auto file = MappedFile::from_bytes("memory", bytes);
    return {{file, "b", BlockType::f32, {2}, 4}, {file, "a", BlockType::f32, {1}, 0}};
  }
};

// Small integers with a scale for every two of them, as formats keep them that split a weight in two.
class ScaledSource : public ElementSource {
 public:
  const std::string& file() const override { return file_; }
  std::string_view type_name() const override { return "int8 with scales"; }
  bool decodes() const override { return true; }
  uint64_t stored_bytes() const override { return integers_.size() + scales_.size() * 4; }
  void read(int64_t begin, int64_t count, float* out) const override {
    for (int64_t i = begin; i < begin + count; ++i)
      *out++ = static_cast<float>(integers_[static_cast<size_t>(i)]) * scales_[static_cast<size_t>(i / 2)];
  }

 private:
  std::string file_ = "two.bin";
  std::vector<int8_t> integers_ = {1, -2, 3, 4, 5, 6};
  std::vector<float> scales_ = {0.5f, 2, -1};
};

std::string empty_safetensors() {
  std::string bytes;
  test::put_string(bytes, "{}");
  return bytes;
}

}  // namespace

TEST_CASE("the strongest claim decides the format; none or two are errors that list the formats") {
  TempFolder folder;
  const auto file = folder.write("x", "");
  using List = std::vector<const FileFormat*>;
  CHECK(&choose_format(file, List{&kOther, &kLoose}) == &kLoose);
  CHECK(&choose_format(file, List{&kFirst, &kLoose, &kOther}) == &kFirst);
  CHECK(&choose_format(file, List{&kLoose, &kFirst}) == &kFirst);
  const std::string both = error_of([&] { choose_format(file, List{&kLoose, &kFirst, &kOther, &kSecond}); });
  CHECK_MESSAGE(both.find("may be a checkpoint of more than one format; found first and second, expected one "
                          "of: loose: a folder with an .a; first: an .a file; other: nothing; second: a .b "
                          "file") != std::string::npos,
                both);
  CHECK_THROWS_WITH_AS(choose_format(file, List{&kOther}),
                       doctest::Contains("is not a checkpoint that can be read; found a file of another "
                                         "format, expected other: nothing"),
                       Error);
  CHECK_THROWS_WITH_AS(choose_format(folder / "none", List{&kFirst}),
                       doctest::Contains("there is no such file or folder"), Error);
}

TEST_CASE("the formats are told apart by first bytes, names and folders") {
  TempFolder folder;
  std::vector<std::string> names;
  for (const FileFormat* format : all_file_formats()) names.emplace_back(format->name);
  CHECK(names == std::vector<std::string>{"GGUF", "ONNX", "safetensors"});

  CHECK(!Checkpoint::recognises(folder.path()));
  CHECK(!Checkpoint::recognises(folder / "none"));
  const std::string none = error_of([&] { Checkpoint::open(folder.path()); });
  CHECK_MESSAGE(
      none.find("found a folder without a checkpoint of a known format, expected GGUF: a GGUF file") !=
          std::string::npos,
      none);
  folder.write("config.json", R"({"model_type": "llama"})");
  CHECK(!Checkpoint::recognises(folder.path()));
  CHECK(!Checkpoint::recognises(folder / "config.json"));

  GgufBuilder b;
  b.value("general.architecture", "qwen3");
  const auto gguf = folder.write("model.bin", b.bytes());
  CHECK(Checkpoint::open(gguf).format_name() == "GGUF");
  CHECK(!Checkpoint::recognises(folder.path()));  // the name must say it there
  folder.write("model.gguf", b.bytes());
  CHECK(Checkpoint::recognises(folder.path()));
  CHECK(Checkpoint::open(folder.path()).naming() == Naming::gguf);
  folder.write("model.safetensors", empty_safetensors());
  CHECK(Checkpoint::open(folder.path()).naming() == Naming::hugging_face);  // as published, with extras
  CHECK(Checkpoint::open(folder / "model.gguf").naming() == Naming::gguf);

  const auto renamed = folder.write("renamed.safetensors", b.bytes());
  const std::string two = error_of([&] { Checkpoint::open(renamed); });
  CHECK_MESSAGE(two.find("found GGUF and safetensors") != std::string::npos, two);

  std::filesystem::create_directory(folder / "parts");
  folder.write("parts/m-00002-of-00002.gguf", b.bytes());
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder / "parts"),
                       doctest::Contains("found later parts of a split file only"), Error);
}

TEST_CASE("whatever reads a checkpoint can be one") {
  const Checkpoint c(std::make_shared<MemoryReader>());
  CHECK(c.format_name() == "memory");
  CHECK(c.names() == std::vector<std::string>{"LlamaForCausalLM"});
  CHECK(c.author() == "We");
  CHECK(c.value("num_hidden_layers") == Json(2));
  CHECK(c.tokenizer().load == "words");
  CHECK(c.tensors().front().name() == "b");
  CHECK(c.stored_bytes() == 12);
  float out[2];
  c.tensor("b").read_rows(0, 2, out);
  CHECK(out[1] == 3.0f);
  CHECK(c.find("c") == nullptr);
  CHECK_THROWS_WITH_AS(c.tensor("c"), doctest::Contains("here: there is no tensor 'c'; found 2 others"),
                       Error);
}

TEST_CASE("a tensor's elements may come from more than one range of blocks") {
  const TensorReader tensor("w", {2, 3}, std::make_shared<ScaledSource>());
  CHECK(tensor.file() == "two.bin");
  CHECK(tensor.type_name() == "int8 with scales");
  CHECK(tensor.stored_bytes() == 18);
  CHECK(!tensor.blocks());
  ThreadPool pool(2);
  CHECK(tensor.read_floats(pool) == std::vector<float>{0.5f, -1, 6, 8, -5, -6});
  std::vector<float> row(3), few(2);
  tensor.read_rows(1, 2, std::span(row));
  CHECK(row == std::vector<float>{8, -5, -6});
  tensor.read_elements(1, 3, few);
  CHECK(few == std::vector<float>{-1, 6});
  std::vector<uint16_t> halves(6);
  tensor.read_rows(0, 2, std::span(halves));
  CHECK(halves == std::vector<uint16_t>{0x3800, 0xbc00, 0x4600, 0x4800, 0xc500, 0xc600});
  tensor.release_rows(0, 2);
  CHECK_THROWS_WITH_AS(tensor.read_rows(1, 3, std::span(row)),
                       doctest::Contains("two.bin: tensor 'w' has no rows 1 to 3"), Error);
}

TEST_CASE("GGUF values of every type are given by key") {
  TempFolder folder;
  GgufBuilder b;
  b.number<uint8_t>("u8", 0, 200).number<int16_t>("i16", 3, -300).number<float>("f32", 6, 0.5f);
  b.number<double>("f64", 12, 0.1).number<uint8_t>("bool", 7, 1).value("text", "a \xff");
  b.number<uint64_t>("huge", 10, UINT64_MAX).strings("texts", {"x", ""});
  b.array<int32_t>("integers", 5, {3, -1}).array<float>("numbers", 6, {0.25f, -1.0f});
  b.array<uint8_t>("flags", 7, {0, 1}).array<uint32_t>("none", 4, {});
  const Checkpoint c = Checkpoint::open(folder.write("m.gguf", b.bytes()));
  CHECK(c.value("u8") == Json(200));
  CHECK(c.value("i16") == Json(-300));
  CHECK(c.value("f32") == Json(0.5));
  CHECK(c.value("f64") == Json(0.1));
  CHECK(c.value("bool") == Json(true));
  CHECK(c.value("text") == Json("a \xff"));
  CHECK(c.value("texts") == Json::array({"x", ""}));
  CHECK(c.value("integers") == Json::array({3, -1}));
  CHECK(c.value("numbers") == Json::array({0.25, -1.0}));
  CHECK(c.value("flags") == Json::array({false, true}));
  CHECK(c.value("none") == Json::array());
  CHECK(!c.value("absent"));
  CHECK(c.list_size("texts") == 2);
  CHECK(c.list_size("none") == 0);
  CHECK(!c.list_size("u8"));
  CHECK(!c.list_size("absent"));
  CHECK(!c.companion("config.json"));
  CHECK_THROWS_WITH_AS(c.value("huge"), doctest::Contains("m.gguf: metadata value 'huge' is out of range"),
                       Error);
  CHECK(c.metadata_file() == (folder / "m.gguf").string());
  CHECK(c.names().empty());
}

TEST_CASE("a list of millions of elements is no hyperparameter") {
  TempFolder folder;
  GgufBuilder b;
  b.array<uint8_t>("long", 0, std::vector<uint8_t>((size_t{1} << 22) + 1));
  const Checkpoint c = Checkpoint::open(folder.write("m.gguf", b.bytes()));
  CHECK(c.list_size("long") == (size_t{1} << 22) + 1);
  CHECK_THROWS_WITH_AS(c.value("long"), doctest::Contains("'long' is too long; found 4194305"), Error);
}

TEST_CASE("config.json's values are given by key, other files of the model by name") {
  TempFolder folder;
  folder.write("model.safetensors", empty_safetensors());
  folder.write("config.json", R"({"architectures": ["A", "B"], "model_type": "m", "n": 3, "no": null,
                                  "list": [1, "x"], "dict": {"a": {"b": 2}}})");
  folder.write("generation_config.json", R"({"eos_token_id": [3, 7]})");
  const Checkpoint c = Checkpoint::open(folder.path());
  CHECK(c.names() == std::vector<std::string>{"A", "m"});
  CHECK(c.value("n") == Json(3));
  CHECK(c.value("no")->is_null());
  CHECK(!c.value("absent"));
  CHECK(c.value("dict")->at("a").at("b") == 2);
  CHECK(c.list_size("list") == 2);
  CHECK(!c.list_size("n"));
  CHECK(c.companion("generation_config.json")->at("eos_token_id") == Json::array({3, 7}));
  CHECK(!c.companion("1_Pooling/config.json"));
  CHECK(c.metadata_file() == (folder / "config.json").string());
  folder.write("generation_config.json", "{");
  CHECK_THROWS_WITH_AS(c.companion("generation_config.json"),
                       doctest::Contains("generation_config.json: is not valid JSON"), Error);
}

TEST_CASE("a configuration alone has the keys of a Hugging Face model and nothing else") {
  TempFolder folder;
  folder.write("tokenizer.json", "{}");
  folder.write("generation_config.json", "{}");
  const auto file = folder.write("config_v5.json", R"({"architectures": ["A"], "n": 3})");
  for (const Checkpoint& c : {Checkpoint::open_config(file),
                              Checkpoint::from_config({{"architectures", {"A"}}, {"n", 3}}, "A 1B")}) {
    CHECK(c.config_only());
    CHECK(c.format_name() == "config.json");
    CHECK(c.naming() == Naming::hugging_face);
    CHECK(c.architecture() == "A");
    CHECK(c.value("n") == Json(3));
    CHECK(c.tensors().empty());
    CHECK(c.tokenizer().files.empty());
    CHECK(!c.companion("generation_config.json"));
  }
  CHECK(Checkpoint::open_config(file).metadata_file() == file.string());
  CHECK(Checkpoint::open_config(file).source_name() == folder.path().filename().string());
  CHECK(Checkpoint::from_config(Json::object(), "A 1B").source_name() == "A 1B");
  CHECK_THROWS_WITH_AS(Checkpoint::from_config(Json::array(), "A 1B"),
                       doctest::Contains("A 1B: is not a JSON object"), Error);
  CHECK_THROWS_WITH_AS(Checkpoint::open_config(folder.path()),
                       doctest::Contains("config.json: there is no such file or folder"), Error);
}

TEST_CASE("a tokenizer is the files of a folder, or made from the values of a GGUF file") {
  TempFolder folder;
  GgufBuilder b;
  b.value("general.architecture", "llama").value("general.author", "We");
  const auto wordless = folder.write("wordless.gguf", b.bytes());
  CHECK(Checkpoint::open(wordless).tokenizer().main == "");
  CHECK(Checkpoint::open(wordless).tokenizer().files.empty());
  b.value("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a", "b"});
  b.array<int32_t>("tokenizer.ggml.token_type", 5, {1, 3}).tensor("w", {4}, 0, 0).data(16);
  const auto path = folder.write("m.gguf", b.bytes());
  const TokenizerSource made = Checkpoint::open(path).tokenizer();
  CHECK(made.load == path);
  CHECK(made.main == "tokenizer.gguf");
  REQUIRE(made.files.size() == 1);
  CHECK(made.files[0].name == made.main);
  CHECK(made.files[0].from.empty());
  CHECK(made.files[0].bytes == made.files[0].made.size());
  const GgufFile vocabulary = GgufFile::from_parts({MappedFile::from_bytes("v.gguf", made.files[0].made)});
  CHECK(vocabulary.tensors().empty());
  CHECK(vocabulary.string("general.architecture") == "llama");
  CHECK(!vocabulary.find("general.author"));
  CHECK(vocabulary.strings("tokenizer.ggml.tokens") == std::vector<std::string_view>{"a", "b"});
  CHECK(vocabulary.integers("tokenizer.ggml.token_type") == std::vector<int64_t>{1, 3});

  folder.write("model.safetensors", empty_safetensors());
  folder.write("config.json", "{}");
  CHECK(Checkpoint::open(folder.path()).tokenizer().main == "");
  folder.write("tokenizer_config.json", "{}");
  folder.write("tokenizer.model", "12345");
  folder.write("vocab.txt", "a");  // not needed beside the others
  TokenizerSource copied = Checkpoint::open(folder.path()).tokenizer();
  CHECK(copied.load == folder / "tokenizer.model");
  CHECK(copied.main == "tokenizer.model");
  REQUIRE(copied.files.size() == 2);
  CHECK(copied.files[0].from == folder / "tokenizer.model");
  CHECK(copied.files[0].bytes == 5);
  CHECK(copied.files[1].name == "tokenizer_config.json");
  folder.write("tokenizer.json", "{}");
  CHECK(Checkpoint::open(folder.path()).tokenizer().main == "tokenizer.json");
}
