// Every vector that was given: Hugging Face's for tokenizer.json, llama.cpp's for GGUF vocabularies.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/data.h"
#include "text/tokenizer.h"

namespace anemone {
namespace {

// Where the fetched tokenizers lie.
std::filesystem::path tokenizer_cache() {
  if (const char* given = std::getenv("ANEMONE_TOKENIZERS")) return given;
  return source_dir() / ".cache/tokenizers";
}

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

Json read_json(const fs::path& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids, bool skip_special) {
  Tokenizer::Stream stream(tokenizer, skip_special);
  std::string out;
  for (int32_t id : ids) out += stream.feed(id);
  return out + stream.finish();
}

void check_decoding(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids,
                    const std::string& expected) {
  CHECK(tokenizer->decode(ids) == expected);
  if (expected.find("\xef\xbf\xbd") == std::string::npos) CHECK(streamed(tokenizer, ids, false) == expected);
}

}  // namespace

TEST_CASE("tokenizer.json files give the ids and texts of Hugging Face's vectors") {
  const auto folder = data_folder("tokenizers");
  if (!folder) return;
  const auto files = files_ending(*folder, ".vectors.json");
  std::map<int, std::string> texts;
  if (!files.empty()) {
    for (const Json& t : read_json(*folder / "texts.json")) {
      texts[t["id"].get<int>()] = t["text"].get<std::string>();
    }
  }
  for (const fs::path& path : files) {
    const Json given = read_json(path);
    const std::string name = given["tokenizer"];
    const fs::path source = tokenizer_cache() / name / "tokenizer.json";
    if (!fs::exists(source)) {
      MESSAGE("skipped: " << name << " is not fetched (tools/fetch_tokenizers.sh)");
      continue;
    }
    CAPTURE(name);
    const auto tokenizer = Tokenizer::load(source);
    for (const Json& v : given["vectors"]) {
      const std::string& text = texts.at(v["id"].get<int>());
      CAPTURE(v["id"].get<int>());
      CAPTURE(text);
      const auto ids = v["ids"].get<Ids>();
      CHECK(tokenizer->encode(text) == ids);
      const auto with_special = v.contains("ids_with_special") ? v["ids_with_special"].get<Ids>() : ids;
      CHECK(tokenizer->encode(text, {.add_special = true}) == with_special);
      const std::string decoded = v["decoded"].is_null() ? text : v["decoded"].get<std::string>();
      check_decoding(tokenizer, ids, decoded);
      const std::string skipped =
          v.contains("decoded_skip_special") ? v["decoded_skip_special"].get<std::string>() : decoded;
      CHECK(tokenizer->decode(ids, true) == skipped);
    }
  }
}

TEST_CASE("vocabularies in GGUF files give the ids of llama.cpp's vectors") {
  const auto folder = data_folder("gguf_vocab");
  if (!folder) return;
  for (const fs::path& path : files_ending(*folder, ".gguf")) {
    const fs::path inputs = path.string() + ".inp", outputs = path.string() + ".out";
    if (!fs::exists(inputs) || !fs::exists(outputs)) continue;
    CAPTURE(path.filename().string());
    const auto tokenizer = Tokenizer::load(path);
    const std::string separator = "\n__ggml_vocab_test__\n";
    std::string rest = read_text(inputs);
    std::istringstream lines(read_text(outputs));
    std::string line;
    for (int n = 0; std::getline(lines, line); ++n) {
      const size_t end = rest.find(separator);
      const std::string text = rest.substr(0, end);
      rest.erase(0, end == std::string::npos ? rest.size() : end + separator.size());
      std::istringstream numbers(line);
      const Ids expected{std::istream_iterator<int32_t>(numbers), {}};
      CAPTURE(n);
      CAPTURE(text);
      CHECK(tokenizer->encode(text) == expected);
    }
  }
}

TEST_CASE("tokenizer folders beside the model fixtures give the ids of their vectors") {
  std::vector<fs::path> folders;
  for (const fs::path& models : data_folders("models"))
    for (const auto& entry : fs::directory_iterator(models)) folders.push_back(entry.path());
  for (const fs::path& folder : folders) {
    if (!fs::exists(folder / "vectors.json") || !fs::exists(folder / "tokenizer.json")) continue;
    CAPTURE(folder.filename().string());
    const auto tokenizer = Tokenizer::load(folder);
    for (const Json& v : read_json(folder / "vectors.json")) {
      const auto text = v["text"].get<std::string>();
      CAPTURE(text);
      CHECK(tokenizer->encode(text) == v["ids"].get<Ids>());
      check_decoding(tokenizer, v["ids"].get<Ids>(), v["decoded"].get<std::string>());
    }
  }
}

}  // namespace anemone
