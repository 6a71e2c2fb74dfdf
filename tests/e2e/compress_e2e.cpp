// `anemone compress` as people call it: with convert and after it, what it refuses, and what it says.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "anemone/array.h"
#include "base/npy.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

namespace fs = std::filesystem;

std::string demo() { return (source_dir() / "examples/demo_model/demo.gguf").string(); }

std::string text() { return (source_dir() / "bench/texts/stories.txt").string(); }

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out[fs::relative(entry.path(), folder).string()] = slurp(entry.path());
  return out;
}

Outcome convert_demo(const fs::path& out, std::vector<std::string> more) {
  std::vector<std::string> words = {"convert",   demo(), "-o",       out.string(),
                                    "--context", "128",  "--tokens", "1,16"};
  words.insert(words.end(), more.begin(), more.end());
  return anemone_command(words);
}

}  // namespace

TEST_CASE("convert with a palette is convert and compress") {
  const TempFolder folder;
  const std::string at_once = (folder / "a").string(), plain = (folder / "b").string(),
                    after = (folder / "c").string(), again = (folder / "d").string();
  REQUIRE(convert_demo(at_once, {"--palettize", "4", "--group", "16"}).status == 0);
  REQUIRE(convert_demo(plain, {"--precision", "fp16"}).status == 0);
  const Outcome compressed =
      anemone_command({"compress", plain, "-o", after, "--palettize", "4", "--group", "16"});
  REQUIRE(compressed.status == 0);
  CHECK(compressed.err.empty());
  const auto a = contents(at_once), c = contents(after);
  REQUIRE(a.size() == c.size());
  for (const auto& [name, bytes] : a) {
    CAPTURE(name);
    REQUIRE(c.contains(name));
    CHECK((bytes == c.at(name)));
  }
  // From weights that are quantized already: done, with a note.
  const Outcome twice = anemone_command({"compress", after, "-o", again, "--quantize", "int8"});
  CHECK(twice.status == 0);
  CHECK(twice.err.starts_with("note: "));
  CHECK(twice.err.find("already quantized") != std::string::npos);
  CHECK(anemone_command({"compress", after, "-o", again, "--quantize", "int8", "--overwrite", "--quiet"})
            .err.empty());
  // Nothing but a package or a bundle is replaced, and never the input or what holds it.
  for (const std::string& place : {after, folder.path().string()})
    check_refused(anemone_command({"compress", after, "-o", place, "--quantize", "int8", "--overwrite"}),
                  {"take the place"});
  std::filesystem::create_directories(folder / "mine");
  spill(folder / "mine" / "letter.txt", "precious");
  check_refused(anemone_command({"compress", after, "-o", (folder / "mine").string(), "--quantize", "int8",
                                 "--overwrite"}),
                {"already exists", "no bundle.json or Manifest.json in it"});
  CHECK(slurp(folder / "mine" / "letter.txt") == "precious");
}

TEST_CASE("compress refuses what does not go together, and leaves nothing") {
  const TempFolder folder;
  const std::string bundle = (folder / "bundle").string(), out = (folder / "out").string();
  REQUIRE(convert_demo(bundle, {"--precision", "fp16"}).status == 0);
  const auto refused = [&](std::vector<std::string> flags, const std::vector<std::string>& must_say) {
    std::vector<std::string> words = {"compress", bundle, "-o", out};
    words.insert(words.end(), flags.begin(), flags.end());
    check_refused(anemone_command(words), must_say);
    size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++entries;
    CHECK(entries == 1);
  };
  refused({}, {"--palettize"});
  refused({"--palettize", "5"}, {"5"});
  refused({"--palettize", "4", "--group", "7"}, {"7"});
  refused({"--palettize", "4", "--quantize", "int8"}, {});
  refused({"--group", "16"}, {"--palettize"});
  refused({"--quantize", "int8", "--per-tensor", "--block", "32"}, {"--block"});
  refused({"--search"}, {"--calibrate"});
  refused({"--search", "--palettize", "4", "--calibrate", demo()}, {});
  refused({"--prune", "--sparsity", "1.5"}, {"1.5"});
  refused({"--palettize", "4", "--vector", "2", "--prune", "--sparsity", "0.4"}, {"--vector"});
  refused({"--prune", "--sparsity", "0.4", "--calibrate", text()}, {"--palettize"});
  refused({"--palettize", "4", "--vector", "2", "--calibrate", text()}, {"--vector"});
  refused({"--decompress", "--calibrate", text()}, {"--calibrate"});
  refused({"--palettize", "4", "--max-ppl-loss", "2%"}, {"--search"});
  refused({"--palettize", "4", "--calibration-tokens", "256"}, {"--calibrate"});
  refused({"--palettize", "4", "--calibrate", text(), "--calibration-tokens", "20"}, {"64"});
  refused({"--search", "--calibrate", text(), "--max-ppl-loss", "lots"}, {"lots"});
  refused({"--search", "--calibrate", text(), "--recipe", text()}, {"--recipe"});
  refused({"--search", "--calibrate", text(), "--mode", "unique"}, {"unique"});
}

TEST_CASE("weights that are pruned already take no vectors, and the error says what would work") {
  const TempFolder folder;
  const std::string bundle = (folder / "bundle").string(), pruned = (folder / "pruned").string();
  REQUIRE(convert_demo(bundle, {"--precision", "fp16"}).status == 0);
  REQUIRE(anemone_command({"compress", bundle, "-o", pruned, "--prune", "--sparsity", "0.4"}).status == 0);
  check_refused(anemone_command({"compress", pruned, "-o", (folder / "out").string(), "--palettize", "4",
                                 "--vector", "2"}),
                {"sparse", "--decompress"});
  CHECK_FALSE(fs::exists(folder / "out"));
}

TEST_CASE("searched bits: the bundle is smaller, and its perplexity within the loss") {
  const TempFolder folder;
  const std::string bundle = (folder / "bundle").string(), out = (folder / "out").string();
  REQUIRE(convert_demo(bundle, {"--precision", "fp16"}).status == 0);
  const Outcome found =
      anemone_command({"compress", bundle, "-o", out, "--search", "--max-ppl-loss", "2%", "--group", "16",
                       "--fast", "--calibrate", text(), "--calibration-tokens", "512"});
  CAPTURE(found.err);
  REQUIRE(found.status == 0);
  CHECK(found.out.find("run 1: ") != std::string::npos);
  CHECK(found.out.find("run 9: ") == std::string::npos);
  // The text's last tokens, which calibration does not see, once more by themselves.
  const Outcome tokens = anemone_command({"tokenize", bundle, "--file", text(), "--add-special", "--json"});
  REQUIRE(tokens.status == 0);
  std::vector<int32_t> ids = nlohmann::json::parse(tokens.out).at("ids");
  REQUIRE(ids.size() > 2048);
  ids.erase(ids.begin(), ids.end() - 1024);
  Array last(DType::int32, {1024});
  std::copy(ids.begin(), ids.end(), last.values<int32_t>().begin());
  write_npy(folder / "ids.npy", last);
  const auto perplexity = [&](const std::string& path) {
    const Outcome o = anemone_command({"perplexity", path, "--ids", (folder / "ids.npy").string(), "--json"});
    REQUIRE(o.status == 0);
    return nlohmann::json::parse(o.out).at("perplexity").get<double>();
  };
  CHECK(perplexity(out) <= 1.02 * perplexity(bundle));
  const auto bytes = [](const fs::path& path) {
    size_t sum = 0;
    for (const auto& [name, content] : contents(path)) sum += content.size();
    return sum;
  };
  // Half is what 8 bits would give.
  const size_t embedding = fs::file_size(fs::path(bundle) / "embedding.bin");
  CHECK(bytes(out) - embedding < (bytes(bundle) - embedding) / 2);
}
