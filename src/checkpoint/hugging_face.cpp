#include "checkpoint/hugging_face.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/paths.h"
#include "checkpoint/file_format.h"
#include "checkpoint/json_file.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// All that may belong to a tokenizer. The first of those called "tokenizer." is what a bundle opens.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",        "tokenizer.model",
                                           "tokenizer_config.json", "special_tokens_map.json",
                                           "chat_template.jinja",   "generation_config.json"};

std::string text_at(const Json& config, const char* key) {
  const auto at = config.find(key);
  return at != config.end() && at->is_string() ? at->get<std::string>() : "";
}

// A line "license: apache-2.0" between the two "---" lines that open a model card.
std::string card_license(const fs::path& readme) {
  std::ifstream in(readme);
  std::string line, license;
  if (!std::getline(in, line) || line.substr(0, 3) != "---") return "";
  for (int i = 0; i < 200 && std::getline(in, line) && line.substr(0, 3) != "---"; ++i) {
    constexpr std::string_view kKey = "license:";
    if (!line.starts_with(kKey)) continue;
    const size_t begin = line.find_first_not_of(" \t\"'", kKey.size()),
                 end = line.find_last_not_of(" \t\r\"'");
    if (begin != std::string::npos && begin <= end) license = line.substr(begin, end - begin + 1);
  }
  return license;
}

// In the cache of Hugging Face's tools a folder is called by its commit: …/models--owner--name/snapshots/COMMIT.
std::string folder_name(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const std::string repository = whole.parent_path().parent_path().filename().string();
  if (whole.parent_path().filename() == "snapshots" && repository.starts_with("models--"))
    return repository.substr(repository.rfind("--") + 2);
  return whole.filename().string();
}

// What config.json itself says; `facts` has the places.
CheckpointFacts with_config(CheckpointFacts facts, const Json& config) {
  if (!config.is_object()) throw Error("is not a JSON object").at(facts.metadata_file);
  if (const auto at = config.find("architectures"); at != config.end() && at->is_array() && !at->empty())
    if (at->front().is_string()) facts.architecture = at->front().get<std::string>();
  facts.model_type = text_at(config, "model_type");
  facts.name = text_at(config, "_name_or_path");
  return facts;
}

CheckpointFacts published(const fs::path& path, const fs::path& config_file, const Json& config) {
  const fs::path folder = folder_of(path);
  CheckpointFacts facts =
      with_config({.path = path, .folder = folder, .metadata_file = config_file.string()}, config);
  if (facts.name.empty()) facts.name = folder_name(folder);
  facts.license = card_license(folder / "README.md");
  return facts;
}

// Planning needs no more than the numbers. What lies beside them is left alone: there may be no folder at all.
class ConfigReader : public HuggingFaceReader {
 public:
  ConfigReader(CheckpointFacts facts, Json config)
      : HuggingFaceReader(std::move(facts), std::move(config), {}) {}
  std::string_view format_name() const override { return "config.json"; }
  std::optional<Json> companion(const std::string&) const override { return std::nullopt; }
  TokenizerSource tokenizer() const override { return {}; }
};

}  // namespace

HuggingFaceReader::HuggingFaceReader(CheckpointFacts facts, Json config, std::vector<TensorReader> tensors)
    : CheckpointReader(std::move(facts), std::move(tensors)),
      config_(std::make_shared<const Json>(std::move(config))) {}

HuggingFaceReader::HuggingFaceReader(const fs::path& path, const fs::path& config_file, Json config,
                                     std::vector<TensorReader> tensors)
    : HuggingFaceReader(published(path, config_file, config), config, std::move(tensors)) {}

std::optional<Json> HuggingFaceReader::value(std::string_view key) const {
  const auto at = config_->find(std::string(key));
  return at == config_->end() ? std::nullopt : std::optional<Json>(*at);
}

std::optional<uint64_t> HuggingFaceReader::list_size(std::string_view key) const {
  const auto at = config_->find(std::string(key));
  return at != config_->end() && at->is_array() ? std::optional<uint64_t>(at->size()) : std::nullopt;
}

std::optional<Json> HuggingFaceReader::companion(const std::string& file) const {
  const fs::path path = facts().folder / file;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  return std::optional<Json>(read_json_file(path));
}

TokenizerSource HuggingFaceReader::tokenizer() const {
  TokenizerSource source;
  for (const char* name : kTokenizerFiles) {
    const fs::path from = facts().folder / name;
    std::error_code why;
    if (!fs::exists(from, why)) continue;
    const uint64_t bytes = fs::file_size(from, why);
    source.files.push_back({.name = name, .from = from, .made = "", .bytes = why ? 0 : bytes});
    if (source.main.empty() && std::string_view(name).starts_with("tokenizer.")) {
      source.main = name;
      source.load = from;
    }
  }
  return source;
}

std::shared_ptr<const CheckpointReader> open_config_only(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / "config.json" : path;
  if (!fs::exists(file, ignored)) throw missing_path(file.string());
  const fs::path folder = folder_of(path);
  Json config = read_json_file(file);
  CheckpointFacts facts = with_config(
      {.path = path, .folder = folder, .metadata_file = file.string(), .config_only = true}, config);
  if (facts.name.empty()) facts.name = folder_name(folder);
  return std::make_shared<ConfigReader>(std::move(facts), std::move(config));
}

std::shared_ptr<const CheckpointReader> config_only(Json config, std::string name) {
  CheckpointFacts facts = with_config(
      {.path = name, .folder = folder_of(name), .metadata_file = name, .config_only = true}, config);
  facts.name = std::move(name);
  return std::make_shared<ConfigReader>(std::move(facts), std::move(config));
}

}  // namespace anemone
