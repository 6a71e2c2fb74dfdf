// Convert with the demo model of the repository: what it chooses, what it refuses, what it leaves behind.
#include "convert/convert.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/half.h"
#include "base/npy.h"
#include "convert/request.h"
#include "convert/target.h"
#include "engine/cpu_backend.h"
#include "families/family.h"
#include "families/tiny_model.h"
#include "package/package.h"
#include "runtime/session.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

namespace fs = std::filesystem;

fs::path demo() { return source_dir() / "examples/demo_model"; }

struct Golden {
  std::vector<std::vector<int32_t>> prompts;
  Array logits;  // after each prompt
};

Golden golden() {
  Golden out;
  const auto json = nlohmann::json::parse(slurp(demo() / "golden.json"));
  for (const auto& item : json.at("cases"))
    out.prompts.push_back(item.at("prompt_ids").get<std::vector<int32_t>>());
  out.logits = read_npy(demo() / "golden_logits.npy");
  return out;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// The demo model with a residual stream 2^power times as large: everything that writes to it is scaled (Q8_0 has a
// half in front of 32 integers), and the last norm takes it out again, since the head is the embedding.
fs::path enlarged_demo(const TempFolder& folder, int power) {
  std::string bytes = slurp(demo() / "demo.gguf");
  const Checkpoint checkpoint = Checkpoint::open(demo() / "demo.gguf");
  for (const TensorReader& tensor : checkpoint.tensors()) {
    const std::string& name = tensor.name();
    const bool writer = name.ends_with("attn_output.weight") || name.ends_with("ffn_down.weight") ||
                        name.starts_with("token_embd");
    if (!writer && name != "output_norm.weight") continue;
    REQUIRE(tensor.type_name() == (writer ? "Q8_0" : "F32"));
    const auto stored = tensor.blocks()->bytes;
    const size_t begin =
        bytes.find(std::string_view(reinterpret_cast<const char*>(stored.data()), stored.size()));
    REQUIRE(begin != std::string::npos);
    for (size_t at = begin; at < begin + stored.size(); at += writer ? 34 : 4) {
      if (writer) {
        uint16_t scale;
        std::memcpy(&scale, &bytes[at], 2);
        scale = half_from_float(std::ldexp(half_to_float(scale), power));
        std::memcpy(&bytes[at], &scale, 2);
      } else {
        float gain;
        std::memcpy(&gain, &bytes[at], 4);
        gain = std::ldexp(gain, -power);
        std::memcpy(&bytes[at], &gain, 4);
      }
    }
  }
  return folder.write("enlarged.gguf", bytes);
}

}  // namespace

TEST_CASE("a residual stream that leaves fp16's range is scaled by what was measured") {
  const TempFolder folder;
  const fs::path model = enlarged_demo(folder, 12);
  const Golden expected = golden();
  const auto vocab = static_cast<size_t>(expected.logits.shape().back());
  for (const std::optional<double> scale : {std::optional<double>(1), std::optional<double>()}) {
    const ConvertReport report = convert(model, folder / "b",
                                         {.context = {64},
                                          .tokens = {{1, 1}, {8, 8}},
                                          .precision = Precision::fp16,
                                          .residual_scale = scale,
                                          .overwrite = true});
    const auto bundle = Bundle::open(folder / "b", cpu_backend({.arithmetic = Arithmetic::fp16}));
    size_t close = 0;
    bool fault = false;
    for (size_t p = 0; p < expected.prompts.size(); ++p) {
      Session session(bundle);
      const std::vector<float> got = session.forward(expected.prompts[p], true);
      close +=
          cosine(got, expected.logits.values<float>().subspan(p * vocab, vocab)) >= 0.9995;  // not of NaN
      fault = fault || session.fault();
    }
    CAPTURE(close);
    if (scale) {
      CHECK(fault);
      CHECK(close < expected.prompts.size());
    } else {
      CHECK(!fault);
      CHECK(close == expected.prompts.size());
      CHECK(report.info.residual_scale < 0.5);
      CHECK(std::exp2(std::round(std::log2(report.info.residual_scale))) == report.info.residual_scale);
      REQUIRE(report.notes.size() == 1);
      CHECK(report.notes[0].find("the residual stream reaches") == 0);
    }
  }
}

TEST_CASE("a whole bundle is one package whose functions share weights and give the logits of a cut one") {
  const TempFolder folder;
  ConvertOptions options{
      .context = {32, 64}, .tokens = {{1, 1}, {4, 4}}, .shard_bytes = 1'000'000, .head_rows = 700};
  convert(demo() / "demo.gguf", folder / "cut", options);
  options.whole = true;
  convert(demo() / "demo.gguf", folder / "whole", options);
  const BundleInfo info = BundleInfo::read(folder / "whole");
  REQUIRE(info.stages.size() == 1);
  CHECK(info.stages[0].has_layers());
  CHECK(info.stages[0].has_head());
  REQUIRE(info.stages[0].functions.size() == 4);
  for (const StageFunction& f : info.stages[0].functions) CHECK(f.interface.outputs.size() == 3);
  CHECK(BundleInfo::read(folder / "cut").stages.size() > 4);
  const auto ids = golden().prompts[0];
  const std::vector<float> cut = Session(Bundle::open(folder / "cut", cpu_backend({}))).forward(ids),
                           whole = Session(Bundle::open(folder / "whole", cpu_backend({}))).forward(ids);
  CHECK(cut == whole);
}

TEST_CASE("variants share one weight file, and compute the same") {
  using lower::KvWrite;
  const TempFolder folder;
  const auto ids = golden().prompts[0];
  const ConvertReport one =
      convert(demo() / "demo.gguf", folder / "one", {.context = {64}, .whole = true, .threads = 1});
  const ConvertReport all = convert(demo() / "demo.gguf", folder / "all",
                                    {.context = {64},
                                     .kv_write = {KvWrite::mask, KvWrite::slice},
                                     .whole = true,
                                     .head_apart = true,
                                     .threads = 1});
  const auto weights = [&](const char* name) {
    return fs::file_size(folder / name / "whole.mlpackage/Data/com.apple.CoreML/weights/weight.bin");
  };
  CHECK(static_cast<double>(weights("all")) < 1.01 * static_cast<double>(weights("one")));
  CHECK(all.rows.size() == one.rows.size());
  const std::vector<float> expected = Session(Bundle::open(folder / "one", cpu_backend({}))).forward(ids);
  std::vector<std::string> names;
  for (const Variant& v : all.info.variants) {
    names.push_back(v.name);
    const auto bundle = Bundle::open(folder / "all", cpu_backend({}), {}, v.name);
    CHECK(bundle->info().stages.size() == (v.name.ends_with("apart") ? 2 : 1));
    CHECK(bundle->info().kv_write == v.kv_write);
    CHECK(Session(bundle).forward(ids) == expected);
  }
  CHECK(names == std::vector<std::string>{"mask_apart", "mask_whole", "slice_apart", "slice_whole"});
}

TEST_CASE("a tied head's rows can be the embedding") {
  const TempFolder folder;
  const auto ids = golden().prompts[0];
  for (const Precision precision : {Precision::fp16, Precision::int8})
    for (const bool whole : {false, true}) {
      ConvertOptions options{
          .context = {64}, .precision = precision, .whole = whole, .head_rows = 700, .overwrite = true};
      if (precision == Precision::int8) options.shard_bytes = 200'000;
      options.embedding_int8 =
          precision == Precision::int8;  // the table that is the same but for a half scale
      convert(demo() / "demo.gguf", folder / "table", options);
      options.embedding_int8 = false;
      options.embedding_in_head = true;
      const ConvertReport report = convert(demo() / "demo.gguf", folder / "head", options);
      CHECK(!fs::exists(folder / "head" / "embedding.bin"));
      CHECK(report.info.embedding_parts.size() == 3);
      const auto a = Bundle::open(folder / "table", cpu_backend({})),
                 b = Bundle::open(folder / "head", cpu_backend({}));
      std::vector<float> x(256), y(256);
      for (const int64_t id : {0, 1, 699, 700, 1399, 1400, 2047}) {
        a->embedding().read({.id = id}, x);
        b->embedding().read({.id = id}, y);
        if (precision == Precision::fp16)
          CHECK(x == y);
        else
          CHECK(cosine(x, y) > 0.9999);
      }
      const std::vector<float> table = Session(a).forward(ids), head = Session(b).forward(ids);
      if (precision == Precision::fp16)
        CHECK(table == head);
      else
        CHECK(cosine(table, head) > 0.999);
    }
  // What changes the head's weights takes the embedding away: that is seen when the bundle is opened.
  std::string json = slurp(folder / "head" / "bundle.json");
  const size_t at = json.find("\"offset\": ") + 10;
  json.insert(at, "64");
  spill(folder / "head" / "bundle.json", json);
  CHECK(error_of([&] {
          Bundle::open(folder / "head", cpu_backend({}));
        }).find("the embedding is not where bundle.json says") != std::string::npos);
  CHECK(error_of([&] {
          convert(demo() / "demo.gguf", folder / "x",
                  {.context = {64}, .precision = Precision::int8_tensor, .embedding_in_head = true});
        }).find("--embedding head needs") == 0);
}

TEST_CASE(
    "a head that is the embedding times a factor cannot serve as the embedding, and the factor is named") {
  test::TinyModel tiny = test::TinyModel::safetensors_as("GraniteForCausalLM", "granite");
  tiny.config["tie_word_embeddings"] = true;
  tiny.config["logits_scaling"] = 8.0;
  tiny.tensors.erase("lm_head.weight");
  const TempFolder folder;
  const Model model = describe(tiny.safetensors(folder));
  const std::string error =
      error_of([&] { make_request(model, {.context = {64}, .embedding_in_head = true}); });
  CHECK(error.find("rows of the head times 0.125") != std::string::npos);
  CHECK(error.find("separate table") == std::string::npos);
}

TEST_CASE("a range of tokens with several functions is refused, with the reason") {
  const TempFolder folder;
  for (const ConvertOptions& options : {ConvertOptions{.context = {64}, .tokens = {{1, 4}, {16, 16}}},
                                        ConvertOptions{.context = {32, 64}, .tokens = {{1, 4}}}}) {
    const std::string error = error_of([&] { convert(demo() / "demo.gguf", folder / "b", options); });
    CHECK(error.find("a range of tokens cannot be combined with several functions") != std::string::npos);
    CHECK(error.find("flexible sizes") != std::string::npos);
    CHECK(!fs::exists(folder / "b"));
  }
}

TEST_CASE("what cannot be built is refused before anything is written") {
  const TempFolder folder;
  const auto refused = [&](ConvertOptions options) {
    const std::string error = error_of([&] { convert(demo() / "demo.gguf", folder / "b", options); });
    CHECK(fs::is_empty(folder.path()));
    return error;
  };
  CHECK(refused({.context = {1}}).find("the context must be 2 to 1048576") == 0);
  CHECK(refused({.context = {int64_t{1} << 62}}).find("the context must be 2 to 1048576") == 0);
  CHECK(refused({.context = {8}, .tokens = {{16, 16}}}).find("16 tokens at once do not fit a context of 8") ==
        0);
  CHECK(refused({.context = {64, 64}}).find("the context 64 is given twice") == 0);
  CHECK(refused({.context = {64}, .tokens = {{4, 4}, {4, 4}}}).find("the token count 4 is given twice") == 0);
  CHECK(refused({.tokens = {{4, 1}}}).find("a range of tokens goes from fewer to more; found 4-1") == 0);
  CHECK(refused({.head_rows = 1}).find("a head of 2048 rows in convolutions of 1 would have 2048") == 0);
  CHECK(refused({.residual_scale = 1e-30}).find("a residual scale must be") == 0);
  CHECK(refused({.tokens = {{1, 4}}, .kv_write = {lower::KvWrite::slice}}).find("--kv-write slice") == 0);
  CHECK(refused({.head_apart = true}).find("--head-apart goes with --whole") == 0);
  CHECK(refused({.first_layer = 3, .last_layer = 9}).find("the model has no layers 3 to 8") == 0);
}

TEST_CASE("a bundle that nothing is said of has 2048 rows and takes one token at a time") {
  const TempFolder folder;
  const BundleInfo info = convert(demo() / "demo.gguf", folder / "b", {}).info;
  CHECK(info.tiers() == std::vector<int64_t>{2048});
  REQUIRE(info.stages[0].functions.size() == 1);
  CHECK(info.stages[0].functions[0].least_tokens == 1);
  CHECK(info.stages[0].functions[0].most_tokens == 1);
}

TEST_CASE("a context beyond the model's own gets a note, and is refused where the rope changes there") {
  test::TinyModel model = test::TinyModel::llama_safetensors();  // made for 64 positions
  const auto notes = [&](int64_t context) {
    const TempFolder folder, output;
    const Checkpoint source = model.safetensors(folder);
    return convert(source.path(), output / "bundle", {.context = {context}}).notes;
  };
  const std::string no_tokenizer = "the checkpoint has no tokenizer: the bundle takes token ids, not text";
  CHECK(notes(64) == std::vector{no_tokenizer});
  CHECK(notes(65) ==
        std::vector<std::string>{"the model was trained for at most 64 positions, and the context is 65",
                                 no_tokenizer});
  model.config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  CHECK(notes(64) == std::vector{no_tokenizer});
  CHECK_THROWS_WITH_AS(notes(65),
                       doctest::Contains("beyond 64 positions; found a context of 65; --context 64 or less"),
                       Error);
}

TEST_CASE("a tokenizer that cannot be read, or knows more words than the model, gets a note") {
  const auto notes = [](const std::string& tokenizer) {
    const TempFolder folder, output;
    const Checkpoint source = test::TinyModel::llama_safetensors().safetensors(folder);  // 10 tokens
    folder.write("tokenizer.json", tokenizer);
    return convert(source.path(), output / "bundle", {.context = {64}}).notes;
  };
  const auto words = [](int count) {
    nlohmann::json vocab;
    for (int i = 0; i < count; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
    return nlohmann::json{{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}}
        .dump();
  };
  CHECK(notes(words(10)).empty());
  REQUIRE(notes(words(12)).size() == 1);
  CHECK(notes(words(12))[0].starts_with("the tokenizer has 12 tokens, but the model only 10"));
  const std::vector<std::string> broken = notes("{\"model\": ");
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].starts_with("the tokenizer cannot be read, so the bundle takes token ids, not text: "));
  CHECK(broken[0].find("tokenizer.json") != std::string::npos);
  CHECK(broken[0].find("partial") == std::string::npos);  // the place of the source, not of the copy
}

TEST_CASE("weights that are no numbers, or none of fp16, are refused in every precision") {
  const auto error = [](const char* tensor, float value, Precision precision) {
    const TempFolder folder, output;
    test::TinyModel model = test::TinyModel::llama_safetensors();
    model.first_values[tensor] = value;
    const Checkpoint source = model.safetensors(folder);
    return error_of([&] { convert(source.path(), output / "b", {.context = {16}, .precision = precision}); });
  };
  for (const char* tensor : {"model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight",
                             "model.layers.0.input_layernorm.weight", "model.norm.weight", "lm_head.weight",
                             "model.embed_tokens.weight"})
    for (const Precision precision : {Precision::fp16, Precision::int8, Precision::int8_tensor})
      for (const float value : {NAN, INFINITY, 65520.0f, -1e38f}) {
        CAPTURE(tensor);
        CAPTURE(value);
        CHECK(error(tensor, value, precision).find(tensor) != std::string::npos);
      }
  CHECK(error("lm_head.weight", 65504, Precision::int8).empty());
}

TEST_CASE("overwriting replaces bundles only, and never the model") {
  const TempFolder folder;
  const Checkpoint source = test::TinyModel::llama_gguf().gguf(folder);
  const auto to = [&](const fs::path& bundle) {
    convert(source.path(), bundle, {.context = {16}, .overwrite = true});
  };
  const char* kModel = "the output would overwrite the input";
  CHECK_THROWS_WITH_AS(to(source.path()), doctest::Contains(kModel), Error);
  CHECK_THROWS_WITH_AS(to(folder / "x/../tiny.gguf"), doctest::Contains(kModel), Error);
  CHECK_THROWS_WITH_AS(to(folder.path()), doctest::Contains("a folder that holds the input"),
                       Error);  // it holds the model
  CHECK_THROWS_WITH_AS(to(""), doctest::Contains("no name"), Error);
  fs::create_directory(folder.path() / "photos");
  to(folder.path() / "photos");  // nothing is lost
  to(folder.path() / "photos");
  CHECK(fs::exists(folder.path() / "photos" / "bundle.json"));
  fs::create_directory(folder.path() / "letters");
  folder.write("letters/one.txt", "dear");
  CHECK_THROWS_WITH_AS(to(folder.path() / "letters"), doctest::Contains("no bundle.json in it"), Error);
  CHECK_THROWS_WITH_AS(to(folder.path() / "letters/one.txt"), doctest::Contains("no bundle.json in it"),
                       Error);
  CHECK(slurp(folder.path() / "letters/one.txt") == "dear");
  CHECK(fs::is_regular_file(source.path()));
}

TEST_CASE("a bundle that gives only the best token says so when it is asked for logits") {
  const TempFolder folder;
  convert(demo() / "demo.gguf", folder / "b", {.context = {64}, .argmax = true});
  Session session(Bundle::open(folder / "b", cpu_backend({})));
  const auto ids = golden().prompts[0];
  const std::string error = error_of([&] { session.forward(ids); });
  CHECK(error.find("gives only the best token, not logits") != std::string::npos);
  CHECK(error.find("--argmax-output") != std::string::npos);
}

TEST_CASE("a target is a chip, a device, a system, or two of these that go together") {
  CHECK(parse_target("m4").name == "m4");
  CHECK(!parse_target("m4").phone());
  CHECK(parse_target("iPhone 15 Pro, ios18").name == "a17-pro, ios18");
  CHECK(parse_target("ios18,a17pro").name == "a17-pro, ios18");
  CHECK(parse_target("ios18").phone());
  CHECK(parse_target("m4, ipados18").phone());
  CHECK(parse_target("macos15").name == "macos15");
  CHECK(error_of([] { parse_target("macos14"); }).find("bundles need macOS 15 or newer") == 0);
  CHECK(error_of([] { parse_target("ios17"); }).find("bundles need iOS 18 or newer") == 0);
  CHECK(error_of([] { parse_target("a17-pro, macos15"); }).find("macos15 does not run on the A17 Pro") !=
        std::string::npos);
  CHECK(error_of([] { parse_target("m4, m3"); }).find("a target is a chip or a device") == 0);
  CHECK(error_of([] { parse_target("m99"); }).find("m4-max") != std::string::npos);
}

TEST_CASE("phones get packed states, and a target's limits become notes") {
  const TempFolder folder;
  CHECK(convert(demo() / "demo.gguf", folder / "phone", {.context = {64}, .target = "iphone"}).info.kv ==
        "packed");
  CHECK(convert(demo() / "demo.gguf", folder / "mac", {.context = {64}, .target = "m1"}).info.kv == "state");
  CHECK(convert(demo() / "demo.gguf", folder / "asked",
                {.context = {64}, .kv = lower::KvKind::io, .target = "ios18"})
            .info.kv == "io");
  CHECK(target_notes(parse_target("m4"), 250'000'000, 4096).empty());
  CHECK(target_notes(parse_target("m4"), 3'000'000'000, 4096).size() == 1);
  const auto notes = target_notes(parse_target("ios18"), 1'200'000'000, 20000);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].find("1200 MB") != std::string::npos);
  CHECK(notes[1].find("more than 16384 leaves the Neural Engine of the A14") != std::string::npos);
}

TEST_CASE("license, author and source of the checkpoint are in every package") {
  const TempFolder folder;
  convert(demo() / "demo.gguf", folder / "b", {.context = {64}, .tool = "anemone test"});
  const Checkpoint checkpoint = Checkpoint::open(demo() / "demo.gguf");
  CHECK(checkpoint.license() != "");
  int packages = 0;
  for (const fs::path& path : files_ending(folder / "b", ".mlpackage")) {
    const Metadata meta = read_package(path).description.metadata.value();
    CHECK(meta.license == checkpoint.license());
    CHECK(meta.author == checkpoint.author());
    CHECK(meta.user.at("anemone.source") == "demo.gguf");
    CHECK(meta.user.at("anemone.tool") == "anemone test");
    ++packages;
  }
  CHECK(packages == 2);
}

TEST_CASE("progress grows to the whole, and ending it leaves nothing") {
  const TempFolder folder;
  uint64_t last = 0, all = 0;
  ConvertOptions options{.context = {64}};
  options.progress = [&](uint64_t done, uint64_t total, const std::string&) {
    CHECK(done >= last);
    CHECK(done <= total);
    last = done;
    all = total;
    return true;
  };
  convert(demo() / "demo.gguf", folder / "b", options);
  CHECK(all > 0);
  CHECK(last == all);
  options.progress = [](uint64_t done, uint64_t, const std::string&) { return done == 0; };
  CHECK(error_of([&] { convert(demo() / "demo.gguf", folder / "c", options); }).find("cancelled") == 0);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}
