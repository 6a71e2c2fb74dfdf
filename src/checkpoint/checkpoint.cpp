#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/json_file.h"
#include "checkpoint/safetensors.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

bool begins_with_gguf(const fs::path& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, 4);
  const std::string_view text(magic, 4);
  return text == "GGUF" || text == "FUGG";
}

std::vector<fs::path> files_with(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> found;
  std::error_code ignored;  // an unreadable folder has no files
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// The one GGUF checkpoint of a folder: its only file, or the first part of its only split one.
fs::path only_gguf(const fs::path& folder) {
  std::vector<fs::path> found = files_with(folder, ".gguf");
  std::erase_if(found, [](const fs::path& path) {  // later parts of split files: name-00002-of-00005.gguf
    const std::string name = path.stem().string();
    const size_t at = name.size() > 15 ? name.size() - 15 : std::string::npos;
    return at != std::string::npos && name[at] == '-' && name.substr(at + 6, 4) == "-of-" &&
           name.substr(at + 1, 5) != "00001";
  });
  if (found.size() == 1) return found.front();
  throw Error("the folder holds no checkpoint that can be told")
      .at(folder.string())
      .found(found.empty() ? "neither safetensors nor GGUF files"
                           : fmt::format("{} GGUF files", found.size()))
      .expected("model.safetensors (or its index) with config.json, or one GGUF file")
      .hint(found.empty() ? "" : "name one of the files");
}

std::string text_at(const nlohmann::ordered_json& config, const char* key) {
  const auto at = config.find(key);
  return at != config.end() && at->is_string() ? at->get<std::string>() : "";
}

// A line "license: apache-2.0" between the two "---" lines that open a model card.
std::string card_licence(const fs::path& readme) {
  std::ifstream in(readme);
  std::string line, licence;
  if (!std::getline(in, line) || line.substr(0, 3) != "---") return "";
  for (int i = 0; i < 200 && std::getline(in, line) && line.substr(0, 3) != "---"; ++i) {
    constexpr std::string_view kKey = "license:";
    if (!line.starts_with(kKey)) continue;
    const size_t begin = line.find_first_not_of(" \t\"'", kKey.size()),
                 end = line.find_last_not_of(" \t\r\"'");
    if (begin != std::string::npos && begin <= end) licence = line.substr(begin, end - begin + 1);
  }
  return licence;
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path) {
  Checkpoint c;
  c.path_ = path;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw Error("does not exist").at(path.string());
  if (fs::is_directory(path, ignored)) {
    const bool has_safetensors = !files_with(path, ".safetensors").empty();
    has_safetensors ? c.open_safetensors(path) : c.open_gguf(only_gguf(path));
  } else if (begins_with_gguf(path) || path.extension() == ".gguf") {
    c.open_gguf(path);
  } else if (path.extension() == ".safetensors" ||
             path.filename().string().ends_with(".safetensors.index.json")) {
    c.open_safetensors(path);
  } else {
    throw Error("is not a checkpoint that can be read")
        .at(path.string())
        .expected("a GGUF file, a .safetensors file or index, or a folder of them");
  }
  c.index_names();
  return c;
}

void Checkpoint::open_gguf(const fs::path& path) {
  format_ = CheckpointFormat::gguf;
  path_ = path;
  gguf_ = std::make_shared<const GgufFile>(GgufFile::open(path));
  const auto first_of = [&](std::initializer_list<std::string_view> keys) -> std::string {
    for (const std::string_view key : keys)  // only for show: a value of another type is passed over
      if (const GgufValue* v = gguf_->find(key); v && v->type == GgufType::string && !v->is_array)
        return std::string(*gguf_->string(key));
    return "";
  };
  architecture_ = std::string(gguf_->string("general.architecture").value_or(""));
  source_name_ = first_of({"general.name", "general.basename"});
  author_ = first_of({"general.author", "general.organization"});
  licence_ = first_of({"general.license", "general.license.name"});
  for (const GgufTensor& t : gguf_->tensors())
    tensors_.emplace_back(gguf_->parts()[t.part], std::string(t.name), t.type, t.shape, t.offset);
}

void Checkpoint::open_safetensors(const fs::path& path) {
  format_ = CheckpointFormat::safetensors;
  const SafetensorsFile weights = SafetensorsFile::open(path);
  for (const SafeTensor& t : weights.tensors())
    tensors_.emplace_back(weights.parts()[t.part], t.name, t.type, t.shape, t.offset);
  const fs::path config = folder() / "config.json";
  std::error_code ignored;
  if (!fs::exists(config, ignored))
    throw Error("is missing, and without it the weights mean nothing")
        .at(config.string())
        .hint("download all files of the model");
  take_config(read_json_file(config));
  if (source_name_.empty()) source_name_ = fs::absolute(folder()).lexically_normal().filename().string();
  licence_ = card_licence(folder() / "README.md");
}

void Checkpoint::take_config(nlohmann::ordered_json config) {
  if (!config.is_object()) throw Error("is not a JSON object").at((folder() / "config.json").string());
  if (const auto at = config.find("architectures"); at != config.end() && at->is_array() && !at->empty())
    if (at->front().is_string()) architecture_ = at->front().get<std::string>();
  source_name_ = text_at(config, "_name_or_path");
  config_ = std::make_shared<nlohmann::ordered_json>(std::move(config));
}

Checkpoint Checkpoint::open_config(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / "config.json" : path;
  if (!fs::exists(file, ignored)) throw Error("does not exist").at(file.string());
  Checkpoint c;
  c.format_ = CheckpointFormat::safetensors;
  c.config_only_ = true;
  c.path_ = path;
  c.take_config(read_json_file(file));
  if (c.source_name_.empty())
    c.source_name_ = fs::absolute(c.folder()).lexically_normal().filename().string();
  return c;
}

Checkpoint Checkpoint::from_config(nlohmann::ordered_json config, std::string name) {
  Checkpoint c;
  c.format_ = CheckpointFormat::safetensors;
  c.config_only_ = true;
  c.path_ = name;
  c.take_config(std::move(config));
  c.source_name_ = std::move(name);
  return c;
}

fs::path Checkpoint::folder() const {
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) return path_;
  return path_.has_parent_path() ? path_.parent_path() : fs::path(".");
}

void Checkpoint::index_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return tensors_[a].name() < tensors_[b].name(); });
}

const GgufFile& Checkpoint::gguf() const {
  if (!gguf_) throw Error("has no GGUF metadata").at(path_.string()).found(std::string(format_name()));
  return *gguf_;
}

const nlohmann::ordered_json& Checkpoint::config() const {
  if (!config_) throw Error("has no config.json").at(path_.string()).found(std::string(format_name()));
  return *config_;
}

const TensorReader* Checkpoint::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](size_t i, std::string_view wanted) { return tensors_[i].name() < wanted; });
  return at != by_name_.end() && tensors_[*at].name() == name ? &tensors_[*at] : nullptr;
}

const TensorReader& Checkpoint::tensor(std::string_view name) const {
  const TensorReader* found = find(name);
  if (!found)
    throw errorf("there is no tensor '{}'", printable(name))
        .at(path_.string())
        .found(fmt::format("{} others", tensors_.size()))
        .hint("is it another kind of model than it says?");
  return *found;
}

uint64_t Checkpoint::stored_bytes() const {
  uint64_t total = 0;
  for (const TensorReader& tensor : tensors_) total += tensor.stored().size();
  return total;
}

}  // namespace anemone
