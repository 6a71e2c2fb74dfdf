// GGUF: one file, or one in several parts, with all in it: keys, vocabulary, tensors.
#include "checkpoint/gguf.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/file_format.h"

namespace anemone::formats {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Longer lists are no hyperparameters: as JSON an element takes 16 bytes, in the file perhaps one.
constexpr uint64_t kMostListed = uint64_t{1} << 22;

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  out.append(text);
}

// The vocabulary as a GGUF file without tensors.
std::string vocabulary_file(const GgufFile& gguf) {
  std::string values;
  uint64_t count = 0;
  for (const GgufValue& v : gguf.values()) {
    if (!v.key.starts_with("tokenizer.") && v.key != "general.architecture" && v.key != "general.name")
      continue;
    append_string(values, v.key);
    if (v.is_array) {
      append(values, static_cast<uint32_t>(GgufType::array));
      append(values, static_cast<uint32_t>(v.type));
      append(values, v.count);
    } else {
      append(values, static_cast<uint32_t>(v.type));
    }
    values.append(reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size());
    ++count;
  }
  std::string out = "GGUF";
  append(out, uint32_t{3});
  append(out, uint64_t{0});
  append(out, count);
  out += values;
  out.resize((out.size() + 31) / 32 * 32, '\0');
  return out;
}

template <class Element>
Json list_of(const std::vector<Element>& elements) {
  Json list = Json::array();
  for (const Element element : elements) {
    if constexpr (std::is_same_v<Element, std::string_view>)
      list.push_back(std::string(element));
    else
      list.push_back(element);
  }
  return list;
}

Json to_json(const GgufFile& file, const GgufValue& v) {
  const std::string_view key = v.key;
  switch (v.type) {
    case GgufType::boolean: return v.is_array ? list_of(file.booleans(key)) : Json(*file.boolean(key));
    case GgufType::string:
      return v.is_array ? list_of(file.strings(key)) : Json(std::string(*file.string(key)));
    case GgufType::f32:
    case GgufType::f64: return v.is_array ? list_of(file.numbers(key)) : Json(*file.number(key));
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::u16:
    case GgufType::i16:
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::u64:
    case GgufType::i64: return v.is_array ? list_of(file.integers(key)) : Json(*file.integer(key));
    case GgufType::array: break;  // of arrays: the file was refused
  }
  return {};
}

CheckpointFacts facts_of(const GgufFile& file, const fs::path& path) {
  const auto first_of = [&](std::initializer_list<std::string_view> keys) -> std::string {
    for (const std::string_view key : keys)  // only for show: a value of another type is passed over
      if (const GgufValue* v = file.find(key); v && v->type == GgufType::string && !v->is_array)
        return std::string(*file.string(key));
    return "";
  };
  return {.path = path,
          .folder = folder_of(path),
          .metadata_file = path.string(),
          .architecture = std::string(file.string("general.architecture").value_or("")),
          .model_type = "",
          .name = first_of({"general.name", "general.basename"}),
          .author = first_of({"general.author", "general.organization"}),
          .license = first_of({"general.license", "general.license.name"})};
}

class GgufReader : public CheckpointReader {
 public:
  GgufReader(GgufFile file, const fs::path& path)
      : CheckpointReader(facts_of(file, path), tensor_readers(file)), file_(std::move(file)) {}

  std::string_view format_name() const override { return "GGUF"; }
  std::optional<Naming> naming() const override { return Naming::gguf; }

  std::optional<Json> value(std::string_view key) const override {
    const GgufValue* value = file_.find(key);
    if (!value) return std::nullopt;
    if (value->count > kMostListed)
      throw errorf("the list '{}' is too long", printable(key))
          .at(facts().metadata_file)
          .found(fmt::format("{} elements", value->count))
          .expected(fmt::format("at most {}", kMostListed));
    try {
      return std::optional<Json>(to_json(file_, *value));
    } catch (Error& e) {
      if (!e.where().starts_with(facts().metadata_file)) e.within(facts().metadata_file);
      throw;
    }
  }

  std::optional<uint64_t> list_size(std::string_view key) const override {
    const GgufValue* value = file_.find(key);
    return value && value->is_array ? std::optional(value->count) : std::nullopt;
  }

  // All that belongs to the model is in the file: a config.json beside it may be of another one.
  std::optional<Json> companion(const std::string&) const override { return std::nullopt; }

  TokenizerSource tokenizer() const override {
    TokenizerSource source{.load = facts().path, .main = "", .files = {}};
    if (!file_.find("tokenizer.ggml.model")) return source;
    source.main = "tokenizer.gguf";
    std::string made = vocabulary_file(file_);
    const uint64_t bytes = made.size();
    source.files.push_back({.name = source.main, .from = {}, .made = std::move(made), .bytes = bytes});
    return source;
  }

 private:
  GgufFile file_;
};

bool begins_as_gguf(const fs::path& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, 4);
  const std::string_view text(magic, 4);
  return text == "GGUF" || text == "FUGG";  // the second is big-endian, which is refused by name
}

Claim claim(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return files_with(path, ".gguf").empty() ? Claim::none : Claim::holds_one;
  return path.extension() == ".gguf" || begins_as_gguf(path) ? Claim::whole : Claim::none;
}

// The one GGUF checkpoint of a folder: its only file, or the first part of its only split one.
fs::path only_one(const fs::path& folder) {
  std::vector<fs::path> found = files_with(folder, ".gguf");
  std::erase_if(found, [](const fs::path& path) {  // later parts of split files: name-00002-of-00005.gguf
    const std::string name = path.stem().string();
    const size_t at = name.size() > 15 ? name.size() - 15 : std::string::npos;
    return at != std::string::npos && name[at] == '-' && name.substr(at + 6, 4) == "-of-" &&
           name.substr(at + 1, 5) != "00001";
  });
  if (found.size() == 1) return found.front();
  throw Error("the folder does not hold exactly one GGUF checkpoint")
      .at(folder.string())
      .found(found.empty() ? "later parts of a split file only" : fmt::format("{} GGUF files", found.size()))
      .expected("one GGUF file, or all parts of one")
      .hint(found.empty() ? "download all parts" : "name one of the files");
}

std::shared_ptr<const CheckpointReader> open(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? only_one(path) : path;
  return std::make_shared<GgufReader>(GgufFile::open(file), file);
}

}  // namespace

extern const FileFormat gguf{
    .name = "GGUF", .accepts = "a GGUF file, or a folder with one", .claim = claim, .open = open};

}  // namespace anemone::formats
