#include "hub/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/nearest_name.h"

namespace anemone::hub {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kWeights = "model.safetensors";
constexpr int kMostParts = 1000;

// What checkpoint/, families/ and text/ look for beside the weights.
constexpr std::string_view kSmall[] = {"config.json",
                                       "generation_config.json",
                                       "tokenizer.json",
                                       "tokenizer.model",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "modules.json",
                                       "sentence_bert_config.json",
                                       "config_sentence_transformers.json",
                                       "README.md"};

std::string size_words(const std::optional<uint64_t>& bytes) {
  if (!bytes) return "";
  const auto n = static_cast<double>(*bytes);
  return n < 1e9 ? fmt::format(" ({:.0f} MB)", n / 1e6) : fmt::format(" ({:.1f} GB)", n / 1e9);
}

// The files directly in a folder, by their names without it.
std::map<std::string, const ListedFile*> files_in(const Listing& listing, const std::string& folder) {
  std::map<std::string, const ListedFile*> out;
  for (const ListedFile& f : listing.files)
    if (f.path.starts_with(folder) && f.path.find('/', folder.size()) == f.path.npos)
      out[f.path.substr(folder.size())] = &f;
  return out;
}

std::vector<std::string> small_files(const Listing& listing, const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string_view name : kSmall)
    if (const std::string path = folder + std::string(name); listing.find(path)) out.push_back(path);
  // Of a sentence transformer: the folders of its modules ("1_Pooling") have a config each.
  if (listing.find(folder + "modules.json"))
    for (const ListedFile& f : listing.files)
      if (f.path.starts_with(folder) && f.path.ends_with("/config.json") &&
          std::count(f.path.begin() + static_cast<ptrdiff_t>(folder.size()), f.path.end(), '/') == 1 &&
          f.path[folder.size()] >= '0' && f.path[folder.size()] <= '9')
        out.push_back(f.path);
  return out;
}

// GGUF files by their first parts, with the bytes of all parts. Projectors of pictures are no models.
struct GgufModel {
  std::string path;
  std::optional<uint64_t> bytes = 0;
};

std::vector<GgufModel> gguf_models(const Listing& listing, const std::string& folder, bool deep) {
  std::vector<GgufModel> out;
  for (const ListedFile& f : listing.files) {
    if (!f.path.starts_with(folder) || !f.path.ends_with(".gguf")) continue;
    if (!deep && f.path.find('/', folder.size()) != f.path.npos) continue;
    if (f.path.substr(f.path.rfind('/') + 1).starts_with("mmproj")) continue;
    const std::vector<std::string> parts = parts_of_file(f.path);
    if (parts.front() != f.path) continue;
    GgufModel model{.path = f.path};
    for (const std::string& part : parts) {
      const ListedFile* one = listing.find(part);
      if (!one || !one->bytes || !model.bytes)
        model.bytes.reset();
      else
        *model.bytes += *one->bytes;
    }
    out.push_back(std::move(model));
  }
  return out;
}

Ambiguous several(const std::vector<GgufModel>& models, const RepoName& name) {
  std::string list;
  for (size_t i = 0; i < models.size() && i < 40; ++i)
    list += fmt::format("{}{}{}", i ? ", " : "", models[i].path, size_words(models[i].bytes));
  if (models.size() > 40) list += fmt::format(" and {} more", models.size() - 40);
  const auto usual = std::find_if(models.begin(), models.end(), [](const GgufModel& m) {
    return m.path.find("Q8_0") != m.path.npos || m.path.find("q8_0") != m.path.npos;
  });
  const std::string one = (usual == models.end() ? models.front() : *usual).path;
  Ambiguous out("the repository has several GGUF files, and one must be named");
  out.at(name_text(name)).found(list).hint("name one: " + name_text({name.id, name.revision, one}));
  return out;
}

// The weights of a folder in safetensors, as the reader finds them: an index, model.safetensors, or the only file.
bool choose_safetensors(const Listing& listing, Choice& choice) {
  const auto files = files_in(listing, choice.folder);
  std::vector<std::string> found;
  for (const auto& [name, file] : files)
    if (name.ends_with(".safetensors")) found.push_back(file->path);
  if (files.contains(kIndex)) {
    choice.index = choice.instead_of_folder = choice.folder + kIndex;
    choice.small.push_back(choice.index);
    return true;
  }
  if (files.contains(kWeights)) found = {choice.folder + kWeights};
  if (found.size() != 1) return false;
  choice.weights = found;
  choice.instead_of_folder = found.front();
  return true;
}

Error no_weights(const Listing& listing, const RepoName& name) {
  std::string other;
  for (const ListedFile& f : listing.files)
    for (const std::string_view end :
         {".safetensors", ".bin", ".pt", ".pth", ".onnx", ".h5", ".msgpack", ".mlpackage"})
      if (f.path.ends_with(end) && other.size() < 300) other += (other.empty() ? "" : ", ") + f.path;
  return Error("the repository has no weights that anemone reads")
      .at(name_text(name))
      .found(other.empty() ? fmt::format("{} other files", listing.files.size()) : other)
      .expected("model.safetensors, or .gguf");
}

Choice choose_folder(const Listing& listing, const std::string& folder, Need need, const RepoName& name) {
  Choice out{.folder = folder, .small = small_files(listing, folder)};
  const auto has = [&](const char* file) { return listing.find(folder + file) != nullptr; };
  const char* enough = need == Need::config       ? "config.json"
                       : need == Need::everything ? ""
                       : has("tokenizer.json")    ? "tokenizer.json"
                                                  : "tokenizer.model";
  if (*enough && has(enough)) {
    out.instead_of_folder = folder + enough;
    return out;
  }
  if (choose_safetensors(listing, out)) return out;
  std::vector<GgufModel> models = gguf_models(listing, folder, false);
  if (models.empty()) models = gguf_models(listing, folder, true);
  if (models.size() > 1) throw several(models, name);
  if (models.empty()) throw no_weights(listing, name);
  out.small.clear();  // all is in the file
  out.weights = parts_of_file(models.front().path);
  out.file = models.front().path;
  return out;
}

}  // namespace

Choice choose_files(const Listing& listing, const std::string& path, Need need, const RepoName& name) {
  if (path.empty()) return choose_folder(listing, "", need, name);
  const ListedFile* const file = listing.find(path);
  if (!file) {
    const auto inside = [&](const ListedFile& f) { return f.path.starts_with(path + "/"); };
    if (std::any_of(listing.files.begin(), listing.files.end(), inside))
      return choose_folder(listing, path + "/", need, name);
    std::vector<std::string> names;
    for (const ListedFile& f : listing.files) names.push_back(f.path);
    const std::string meant = nearest_name(path, names);
    throw Error("the repository has no such file")
        .at(name_text(name))
        .hint(meant.empty() ? "name the repository alone to see what it has"
                            : fmt::format("did you mean '{}'?", name_text({name.id, name.revision, meant})));
  }
  Choice out{.folder = path.substr(0, path.rfind('/') + 1), .small = {}};
  out.file = path;
  out.weights = parts_of_file(path);
  // GGUF has all in it; others mean little without what lies beside them.
  if (!path.ends_with(".gguf")) out.small = small_files(listing, out.folder);
  if (path == out.folder + kIndex) out.index = path;
  std::erase_if(out.small, [&](const std::string& s) { return s == path; });
  for (const std::string& part : out.weights)
    if (!listing.find(part))
      throw Error("a part of the file is not in the repository").at(name_text(name)).found("no " + part);
  return out;
}

std::vector<std::string> indexed_files(const std::string& json, const std::string& folder,
                                       const std::string& where) {
  std::set<std::string> out;
  try {
    const nlohmann::json index = nlohmann::json::parse(json);
    for (const auto& [tensor, file] : index.at("weight_map").items()) {
      expect_inner_path(file.get<std::string>(), where);
      out.insert(folder + file.get<std::string>());
    }
  } catch (const nlohmann::json::exception& e) {
    throw Error("is no index of safetensors files").at(where).found(json_problem(e, json));
  }
  return {out.begin(), out.end()};
}

std::vector<std::string> parts_of_file(const std::string& path) {
  // name-00001-of-00003.gguf: five digits each
  const size_t end = path.rfind('.');
  if (end == path.npos || end < 15 || path.substr(end - 9, 4) != "-of-" || path[end - 15] != '-')
    return {path};
  const std::string number = path.substr(end - 14, 5), count = path.substr(end - 5, 5);
  if ((number + count).find_first_not_of("0123456789") != path.npos) return {path};
  const int parts = std::stoi(count);
  if (parts < 1 || parts > kMostParts || std::stoi(number) < 1 || std::stoi(number) > parts) return {path};
  std::vector<std::string> out;
  for (int i = 1; i <= parts; ++i)
    out.push_back(fmt::format("{}{:05}-of-{}{}", path.substr(0, end - 14), i, count, path.substr(end)));
  return out;
}

}  // namespace anemone::hub
