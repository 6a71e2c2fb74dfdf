// ONNX as people give it: which file is meant, what is missing or wrong, and one package in place of a bundle.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "e2e/command.h"
#include "support/data.h"
#include "support/onnx_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;
namespace fs = std::filesystem;

namespace {

void copy_model(const std::string& name, const fs::path& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(test::small_onnx_models() / name))
    if (entry.is_regular_file()) fs::copy(entry.path(), to / entry.path().filename());
}

// What `convert` says of a small bundle without some files.
void check_without(const std::vector<std::string>& files, const std::vector<std::string>& must_say) {
  const TempFolder temp;
  copy_model("genai-llama-int4", temp / "m");
  for (const std::string& file : files) fs::remove(temp / "m" / file);
  check_refused(anemone_command({"convert", (temp / "m").string(), "-o", (temp / "b").string()}), must_say);
  CHECK_FALSE(fs::exists(temp / "b"));
}

void replace_in(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = slurp(file);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  std::ofstream(file, std::ios::binary) << text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("what a bundle of ONNX lacks is named, all at once") {
  check_without({"model.onnx.data"}, {"m/model.onnx: ", "'model.onnx.data'", "put them beside the model"});
  check_without({"genai_config.json"},
                {"m: the bundle is not complete: genai_config.json or config.json is missing",
                 "download all files", "-o NAME.mlpackage"});
  check_without({"model.onnx.data", "genai_config.json"},
                {"'model.onnx.data'", "genai_config.json or config.json is missing"});
  check_without({"model.onnx"}, {"the bundle is not complete: model.onnx is missing"});
}

TEST_CASE(
    "a file of ONNX that is not what it should be is refused with place, found, expected and what to do") {
  const TempFolder temp;
  const std::string out = (temp / "b").string(), folder = (temp / "m").string();
  copy_model("genai-llama-int4", folder);
  replace_in(temp / "m/genai_config.json", "\"num_attention_heads\": 2", "\"num_attention_heads\": 4");
  check_refused(
      anemone_command({"convert", folder, "-o", out}),
      {"m/model.onnx: the config and the graph contradict each other",
       "2 query heads in the graph; 'num_attention_heads' of genai_config.json is 4", "correct the value"});
  fs::resize_file(temp / "m/model.onnx.data", 1000);
  check_refused(anemone_command({"convert", folder, "-o", out}),
                {"external data needs", "found a file of 1000 bytes", "was the download cut short?"});
  fs::resize_file(temp / "m/model.onnx", 3000);
  check_refused(anemone_command({"convert", folder, "-o", out}),
                {"m/model.onnx: ", "is the file cut short?"});
  // The data beside another file, which the graph must not reach.
  copy_model("genai-llama-int4", temp / "n");
  replace_in(temp / "n/model.onnx", "model.onnx.data", "../m/onnx.data1");
  check_refused(anemone_command({"convert", (temp / "n").string(), "-o", out}),
                {"n/model.onnx", "../m/onnx.data1"});
  // A picture network with a config is no decoder, and a decoder of fused operators is no plain network.
  fs::create_directories(temp / "vit");
  fs::copy(source_dir() / "tests/data/onnx/encoders/vit.onnx", temp / "vit/model.onnx");
  std::ofstream(temp / "vit/config.json") << "{\"model_type\": \"vit\"}";
  check_refused(anemone_command({"convert", (temp / "vit").string(), "-o", out}), {"-o NAME.mlpackage"});
  check_refused(anemone_command({"convert", (test::small_onnx_models() / "genai-llama-int4").string(), "-o",
                                 (temp / "b.mlpackage").string()}),
                {"cannot be converted: com.microsoft.GroupQueryAttention (2)", "does not end in .mlpackage"});
  CHECK_FALSE(fs::exists(temp / "b"));
  CHECK_FALSE(fs::exists(temp / "b.mlpackage"));
}

TEST_CASE("among versions and variants the choice is said, or asked for") {
  const TempFolder temp;
  const std::string out = (temp / "b").string();
  copy_model("genai-llama-int4", temp / "v/1.9");
  copy_model("genai-llama-int4", temp / "v/1.10");
  copy_model("genai-llama-int4", temp / "v/2.0");
  fs::remove(temp / "v/2.0/genai_config.json");
  const auto convert = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"convert", (temp / "v").string(), "-o", out, "--context", "64", "--overwrite"});
    return anemone_command(more);
  };
  Outcome r = convert({});
  CHECK(r.status == 0);
  CHECK(r.err.find("version 1.10: the newest complete one of 3") != std::string::npos);
  CHECK(convert({"--bundle-version", "1.9"}).status == 0);
  check_refused(convert({"--bundle-version", "2.0"}), {"genai_config.json or config.json is missing"});
  check_refused(convert({"--bundle-version", "3.0"}), {"no such version", "2.0, 1.10, 1.9", "expected 3.0"});
  copy_model("torch-llama-eager", temp / "h");
  fs::create_directories(temp / "h/onnx");
  fs::copy(temp / "h/model.onnx", temp / "h/onnx/model_q4.onnx");
  fs::rename(temp / "h/model.onnx", temp / "h/onnx/model_fp16.onnx");
  const std::string hub = (temp / "h").string();
  check_refused(anemone_command({"convert", hub, "-o", out, "--overwrite"}),
                {"several ONNX models", "fp16, q4", "--variant"});
  check_refused(anemone_command({"convert", hub, "-o", out, "--overwrite", "--variant", "q8"}),
                {"no such variant", "fp16, q4", "expected q8"});
  r = anemone_command({"convert", hub, "-o", out, "--overwrite", "--variant", "q4", "--context", "64"});
  CHECK_MESSAGE(r.status == 0, r.err);
}

TEST_CASE("a folder with an ONNX network becomes one package, and verify takes it as the source") {
  const TempFolder temp;
  fs::create_directories(temp / "net");
  fs::copy(source_dir() / "tests/data/onnx/encoders/vit.onnx", temp / "net/model.onnx");
  const std::string net = (temp / "net").string(), package = (temp / "net.mlpackage").string();
  Outcome r = anemone_command({"convert", net, "-o", package, "--precision", "fp32"});
  CHECK_MESSAGE(r.status == 0, r.err);
  r = anemone_command({"verify", package, "--source", net});
  CHECK_MESSAGE(r.status == 0, r.err);
  CHECK(r.out.find("passed") != std::string::npos);
}
