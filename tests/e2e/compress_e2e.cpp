// `anemone compress` as people call it: with convert and after it, what it refuses, and what it says.
#include <doctest/doctest.h>

#include <map>

#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

namespace fs = std::filesystem;

std::string demo() { return (source_dir() / "examples/demo_model/demo.gguf").string(); }

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
}
