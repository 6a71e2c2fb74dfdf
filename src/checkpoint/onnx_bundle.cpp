#include "checkpoint/onnx_bundle.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/file_format.h"
#include "checkpoint/json_file.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kGenai = "genai_config.json";

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}
bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// "model.decoder.filename"; model.onnx where it is not said.
std::string decoder_file(const fs::path& config) {
  const Json json = read_json_file(config);
  const Json* at = &json;
  for (const char* key : {"model", "decoder", "filename"}) {
    if (!at->is_object() || !at->contains(key)) return "model.onnx";
    at = &(*at)[key];
  }
  if (!at->is_string()) return "model.onnx";
  const fs::path name = at->get<std::string>();
  if (name.is_absolute() || name.has_parent_path())
    throw Error("the decoder's file name leaves the folder").at(config.string()).found(name.string());
  return name.string();
}

// The numbers of a name such as "1.12.0" or "v2"; nothing for other names.
std::optional<std::vector<int64_t>> version_of(std::string name) {
  if (!name.empty() && (name[0] == 'v' || name[0] == 'V')) name.erase(0, 1);
  std::vector<int64_t> out;
  size_t digits = 0;
  for (const char ch : name) {
    if (ch >= '0' && ch <= '9') {
      if (digits == 0) out.push_back(0);
      if (++digits > 15) return std::nullopt;
      out.back() = out.back() * 10 + (ch - '0');
    } else if ((ch == '.' || ch == '_' || ch == '-') && digits > 0) {
      digits = 0;
    } else {
      return std::nullopt;
    }
  }
  return digits > 0 ? std::optional(out) : std::nullopt;
}

// "q4f16" of model_q4f16.onnx, "" of model.onnx.
std::string variant_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  const size_t at = stem.rfind('_');
  return at == std::string::npos || stem.ends_with("_merged") ? "" : stem.substr(at + 1);
}

fs::path choose_variant(const fs::path& folder, const std::vector<fs::path>& files,
                        const std::string& wanted) {
  std::vector<std::string> variants;
  const fs::path* plain = nullptr;
  for (const fs::path& file : files) {
    const std::string variant = variant_of(file);
    if (!wanted.empty() && (variant == wanted || file.filename() == wanted)) return file;
    if (variant.empty() && (!plain || file.stem() == "model")) plain = &file;
    variants.push_back(variant.empty() ? file.filename().string() : variant);
  }
  if (!wanted.empty())
    throw Error("there is no such variant of the model")
        .at(folder.string())
        .found(fmt::format("{}", fmt::join(variants, ", ")))
        .expected(wanted);
  if (plain) return *plain;
  if (files.size() == 1) return files.front();
  throw Error("the folder holds several ONNX models")
      .at(folder.string())
      .found(fmt::format("{}", fmt::join(variants, ", ")))
      .hint("choose one with --variant, or name the file");
}

// One folder alone: no versions below it.
std::optional<OnnxPlace> in_folder(const fs::path& folder, const OnnxBundleChoice& choice) {
  const std::vector<fs::path> here = files_with(folder, ".onnx"),
                              inside = files_with(folder / "onnx", ".onnx");
  if (there(folder / kGenai) && choice.variant.empty())
    return OnnxPlace{folder / decoder_file(folder / kGenai), folder, ""};
  if (!here.empty()) {
    const bool beside =
        there(folder / "config.json") || there(folder / kGenai) || folder.filename() != "onnx";
    return OnnxPlace{choose_variant(folder, here, choice.variant), beside ? folder : folder.parent_path(),
                     ""};
  }
  if (inside.empty()) return std::nullopt;
  OnnxPlace place{choose_variant(folder / "onnx", inside, choice.variant), folder, ""};
  if (inside.size() > 1)
    place.note = fmt::format("{} of {} variants in onnx/; --variant chooses another",
                             place.model.filename().string(), inside.size());
  return place;
}

bool complete(const OnnxPlace& place) {
  return there(place.model) && (there(place.folder / kGenai) || there(place.folder / "config.json"));
}

std::optional<OnnxPlace> in_versions(const fs::path& folder, const OnnxBundleChoice& choice) {
  struct Version {
    std::vector<int64_t> numbers;
    fs::path path;
  };
  std::vector<Version> versions;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_directory(ignored))
      if (auto numbers = version_of(entry.path().filename().string()))
        versions.push_back({*numbers, entry.path()});
  std::sort(versions.begin(), versions.end(), [](const Version& a, const Version& b) {
    return std::tie(b.numbers, b.path) < std::tie(a.numbers, a.path);
  });
  std::optional<OnnxPlace> incomplete;
  size_t passed = 0;
  for (const Version& version : versions) {
    if (!choice.version.empty() && version.path.filename() != choice.version) continue;
    std::optional<OnnxPlace> place = in_folder(version.path, choice);
    if (!place) continue;
    if (!choice.version.empty()) return place;
    if (!complete(*place)) {
      if (!incomplete) incomplete = std::move(place);
      ++passed;
      continue;
    }
    if (versions.size() > 1)
      place->note = fmt::format("version {}: the newest{} of {} in {}; --bundle-version chooses another",
                                version.path.filename().string(), passed ? " complete one" : "",
                                versions.size(), folder.string());
    return place;
  }
  if (choice.version.empty()) return incomplete;
  std::vector<std::string> names;
  for (const Version& version : versions) names.push_back(version.path.filename().string());
  throw Error("there is no such version of the bundle")
      .at(folder.string())
      .found(names.empty() ? "no versioned folders" : fmt::format("{}", fmt::join(names, ", ")))
      .expected(choice.version);
}

OnnxModel open_model(const OnnxPlace& place) {
  const bool configured = there(place.folder / kGenai) || there(place.folder / "config.json");
  if (configured && there(place.model)) return OnnxModel::open(place.model);
  constexpr const char* kConfig = "genai_config.json or config.json";
  if (there(place.model)) {
    try {
      OnnxModel::open(place.model);
    } catch (Error& e) {  // its data may be missing too: all is said at once
      throw e.hint(
          fmt::format("{}{}{} is missing in {} too; a network without one goes op by op: -o NAME.mlpackage",
                      e.hint(), e.hint().empty() ? "" : "; ", kConfig, place.folder.string()));
    }
  }
  std::vector<std::string> missing;
  if (!there(place.model)) missing.push_back(place.model.filename().string());
  if (!configured) missing.emplace_back(kConfig);
  throw errorf("the bundle is not complete: {} {} missing", fmt::join(missing, "; and "),
               missing.size() == 1 ? "is" : "are")
      .at(place.folder.string())
      .hint("download all files of the model; a network without a config goes op by op: -o NAME.mlpackage");
}

std::optional<Json> json_at(const fs::path& path) {
  if (!there(path)) return std::nullopt;
  Json json = read_json_file(path);
  if (!json.is_object()) throw Error("is not a JSON object").at(path.string());
  return std::optional<Json>(std::move(json));
}

}  // namespace

std::optional<OnnxPlace> find_onnx(const fs::path& path, const OnnxBundleChoice& choice) {
  if (!is_folder(path)) {
    if (path.extension() != ".onnx" || !there(path)) return std::nullopt;
    const fs::path folder = folder_of(path);
    const bool beside = there(folder / kGenai) || there(folder / "config.json");
    const fs::path above = fs::absolute(folder).lexically_normal().parent_path();
    return OnnxPlace{path, beside || !there(above / "config.json") ? folder : above, ""};
  }
  if (choice.version.empty())
    if (auto place = in_folder(path, choice)) return place;
  return in_versions(path, choice);
}

OnnxBundle::OnnxBundle(OnnxModel of, Json says)
    : model(std::move(of)), weights(model), genai(std::move(says)) {}

OnnxBundle::OnnxBundle(OnnxPlace at)
    : place(std::move(at)),
      model(open_model(place)),
      weights(model),
      genai(json_at(place.folder / kGenai)),
      config(json_at(place.folder / "config.json")) {}

}  // namespace anemone
