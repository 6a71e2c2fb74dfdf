// Where a tokenizer is read from: its own file, what a checkpoint's format says, or a folder that holds one alone.
#include <doctest/doctest.h>

#include "anemone/error.h"
#include "checkpoint/gguf_builder.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "text/tokenizer.h"

using namespace anemone;

namespace {

std::string words() { return slurp(source_dir() / "tests/data/sentencepiece_bpe.model"); }

std::string no_tensors() {
  std::string bytes;
  test::put_string(bytes, "{}");
  return bytes;
}

int32_t size_of(const std::filesystem::path& path) { return Tokenizer::load(path)->vocabulary_size(); }

}  // namespace

TEST_CASE("a tokenizer is found through the checkpoint, by whichever of its files that is named") {
  const TempFolder folder;
  const int32_t size = size_of(folder.write("alone.model", words()));
  const auto weights = folder.write("model.safetensors", no_tensors());
  folder.write("config.json", "{}");
  const auto says = [](const std::filesystem::path& path) {
    return error_of([&] { Tokenizer::load(path); });
  };
  CHECK_MESSAGE(says(folder.path()).find("the checkpoint has no tokenizer") != std::string::npos,
                says(folder.path()));
  CHECK(says(weights).find("the checkpoint has no tokenizer") != std::string::npos);
  folder.write("tokenizer.model", words());
  CHECK(size_of(folder.path()) == size);
  CHECK(size_of(weights) == size);
  CHECK(size_of(folder / "tokenizer.model") == size);
  // A GGUF file that lies beside them is not what the folder is.
  test::GgufBuilder wordless;
  wordless.value("general.architecture", "llama");
  const auto gguf = folder.write("another.gguf", wordless.bytes());
  CHECK(size_of(folder.path()) == size);
  CHECK(says(gguf) != "");
}

TEST_CASE("a folder may hold a tokenizer alone; one without any is an error") {
  const TempFolder folder;
  CHECK_THROWS_WITH_AS(Tokenizer::load(folder.path()), doctest::Contains("no tokenizer in this folder"),
                       Error);
  folder.write("tokenizer.model", words());
  CHECK(size_of(folder.path()) > 0);
  const TempFolder gguf;
  test::GgufBuilder wordless;
  wordless.value("general.architecture", "llama");
  gguf.write("m.gguf", wordless.bytes());
  CHECK_THROWS_WITH_AS(Tokenizer::load(gguf.path()), doctest::Contains("the checkpoint has no tokenizer"),
                       Error);
  CHECK_THROWS_AS(Tokenizer::load(gguf / "none"), Error);
}
