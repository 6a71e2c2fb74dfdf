#include "cli/source.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/paths.h"
#include "bundle/bundle_info.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/file_format.h"
#include "cli/format.h"

namespace anemone::cli {
namespace {

namespace fs = std::filesystem;

// One of the kinds above or 0, in words, and for what we do not read what can be done.
struct Found {
  unsigned kind = 0;
  std::string words;  // "a GGUF checkpoint"
  std::string way_out;
};

constexpr const char* kReads = "anemone reads GGUF files and folders with safetensors";

bool is_package(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path.extension() == ".mlmodel" || path.extension() == ".mil";
  return fs::exists(path / "Manifest.json", ignored) || fs::exists(path / "model.mil", ignored) ||
         fs::exists(path / "coremldata.bin", ignored) || path.extension() == ".mlpackage" ||
         path.extension() == ".mlmodelc";
}

std::string format_name(const fs::path& path) {
  try {
    return std::string(choose_format(path, all_file_formats()).name);
  } catch (const Error&) {
    return "";  // none, or several: opening it says which
  }
}

// Files that people try and that are something else, by their names.
Found other_file(const fs::path& path) {
  const std::string extension = path.extension().string(), name = path.filename().string();
  if (extension == ".onnx") return {0, "an ONNX model", kReads};
  if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt")
    return {0, "a PyTorch file, or other bytes",
            "save it as safetensors first: model.save_pretrained(folder, safe_serialization=True)"};
  if (extension == ".h5" || extension == ".keras" || extension == ".tflite")
    return {0, "a TensorFlow model", kReads};
  if (extension == ".zip" || extension == ".gz" || extension == ".tar" || extension == ".xz")
    return {0, "an archive", "unpack it"};
  return {0, "a file of another kind", ""};
}

Found look(const fs::path& given) {
  const fs::path path = given.has_filename() ? given : given.parent_path();  // "demo/" is "demo"
  std::error_code ignored;
  if (is_bundle(path)) return {kBundle, "a bundle", ""};
  if (is_package(path)) return {kPackage, "a Core ML package", ""};
  if (const std::string format = format_name(path); !format.empty())
    return {kCheckpoint, fmt::format("a {} checkpoint", format), ""};
  const bool folder = fs::is_directory(path, ignored);
  if (folder ? fs::exists(path / "config.json", ignored) : path.filename() == "config.json")
    return {kConfig, folder ? "a folder with config.json and no weights" : "the config.json of a model", ""};
  const bool tokenizer =
      folder ? fs::exists(path / "tokenizer.json", ignored) || fs::exists(path / "tokenizer.model", ignored)
             : path.extension() == ".json" || path.extension() == ".model";
  if (tokenizer)
    return {kTokenizer,
            folder                        ? "a folder with a tokenizer and no weights"
            : path.extension() == ".json" ? "a JSON file"
                                          : "a tokenizer",
            ""};
  if (folder) return {0, "a folder without a bundle, a package or a checkpoint in it", ""};
  return other_file(path);
}

// "a bundle, a package or a checkpoint".
std::string taken(unsigned kinds) {
  std::vector<std::string> words;
  const auto add = [&](unsigned kind, const char* text) {
    if (kinds & kind) words.emplace_back(text);
  };
  add(kBundle, "a bundle");
  add(kPackage, "a package");
  add(kCheckpoint, "a checkpoint");
  add(kConfig, "a config.json");
  add(kTokenizer, "a tokenizer");
  std::string out;
  for (size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return out;
}

// A name for what convert would write: the model's without its ending.
std::string bundle_name(const fs::path& path) {
  const fs::path name = (path.has_filename() ? path : path.parent_path()).filename();
  return name.extension() == ".gguf" || name.extension() == ".safetensors" ? name.stem().string()
                                                                           : name.string() + "-bundle";
}

// The command to use instead.
std::string way_out(std::string_view verb, const std::string& path, const Found& found, unsigned kinds) {
  if (!found.way_out.empty()) return found.way_out;
  switch (found.kind) {
    case kCheckpoint:
      if (kinds & kBundle)
        return fmt::format("convert it first: anemone convert {} -o {}", shell_word(path),
                           shell_word(bundle_name(path)));
      return fmt::format("anemone plan {} shows its sizes", shell_word(path));
    case kConfig:
      return fmt::format("download the weights too; anemone plan {} shows their sizes", shell_word(path));
    case kTokenizer: return fmt::format("anemone tokenize {} TEXT reads a tokenizer", shell_word(path));
    case kPackage: {
      const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
      if ((kinds & kBundle) && is_bundle(folder)) return fmt::format("its bundle is {}", folder.string());
      if (verb == "convert")
        return fmt::format("it is Core ML already: anemone compress {} makes it smaller", shell_word(path));
      return fmt::format("anemone inspect, check, predict and compress take it: anemone inspect {}",
                         shell_word(path));
    }
    case kBundle:
      if (kinds & kPackage) {
        std::string names;
        for (const std::string& name : BundleInfo::read(path).packages())
          names += (names.empty() ? "" : ", ") + (fs::path(path) / name).string();
        return "name one of its packages: " + names;
      }
      if (verb == "plan") return fmt::format("anemone check {} looks at a bundle", shell_word(path));
      return fmt::format("it is converted already: anemone compress {} makes it smaller", shell_word(path));
  }
  if ((kinds & kBundle) && !(kinds & (kPackage | kCheckpoint))) return "convert writes bundles";
  return "";
}

}  // namespace

void expect_path(const std::string& path) {
  std::error_code why;
  const fs::file_status status = fs::status(path, why);
  if (status.type() == fs::file_type::not_found) {
    const fs::path given = fs::path(path).lexically_normal();
    std::vector<std::string> names;
    const fs::path folder = given.has_parent_path() ? given.parent_path() : fs::path(".");
    for (const auto& entry : fs::directory_iterator(folder, why))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    const std::string meant = nearest_name(given.filename().string(), names);
    Error error = missing_path(path);
    if (!meant.empty()) error.hint(fmt::format("did you mean '{}'?", (given.parent_path() / meant).string()));
    throw error;
  }
  if (why) throw errorf("cannot be opened: {}", why.message()).at(path);
}

void expect_source(std::string_view verb, const std::string& path, unsigned kinds) {
  std::error_code ignored;
  if ((kinds & kName) && !fs::exists(path, ignored)) return;
  expect_path(path);
  const Found found = look(path);
  if (found.kind & kinds) return;
  // A checkpoint brings a tokenizer and a config; a bundle brings a tokenizer.
  if ((kinds & kTokenizer) && (found.kind & (kCheckpoint | kBundle | kConfig))) return;
  throw errorf("this is {}, and {} takes {}", found.words, verb, taken(kinds))
      .at(path)
      .hint(way_out(verb, path, found, kinds));
}

}  // namespace anemone::cli
