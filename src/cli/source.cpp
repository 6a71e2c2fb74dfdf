#include "cli/source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/paths.h"
#include "bundle/bundle_info.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/file_format.h"
#include "cli/format.h"
#include "hub/cache.h"
#include "hub/name.h"

namespace anemone::cli {
namespace {

namespace fs = std::filesystem;

// One of the kinds above or 0, in words, and for what we do not read what can be done.
struct Found {
  unsigned kind = 0;
  std::string words;  // "a GGUF checkpoint"
  std::string way_out;
};

constexpr const char* kReads = "anemone reads GGUF files, folders with safetensors, and ONNX bundles";

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
  if (extension == ".onnx") return {kNetwork, "an ONNX model", ""};
  if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt")
    return {0, "a PyTorch file, or other bytes",
            "save it as safetensors first: model.save_pretrained(folder, safe_serialization=True)"};
  if (extension == ".h5" || extension == ".keras" || extension == ".tflite")
    return {0, "a TensorFlow model", kReads};
  if (extension == ".zip" || extension == ".gz" || extension == ".tar" || extension == ".xz")
    return {0, "an archive", "unpack it"};
  return {0, "not a model file", ""};
}

// A file that is called like a GGUF file and is none: an empty one, or a page that says why a download failed.
bool is_false_gguf(const fs::path& path) {
  std::error_code ignored;
  if (path.extension() != ".gguf" || !fs::is_regular_file(path, ignored)) return false;
  char start[4] = {};
  std::ifstream(path, std::ios::binary).read(start, sizeof start);
  const std::string_view text(start, sizeof start);
  return text != "GGUF" && text != "FUGG";
}

Found look(const fs::path& given) {
  const fs::path path = given.has_filename() ? given : given.parent_path();  // "demo/" is "demo"
  std::error_code ignored;
  if (is_bundle(path)) return {kBundle, "a bundle", ""};
  if (is_package(path)) return {kPackage, "a Core ML package", ""};
  if (is_false_gguf(path))
    return {0,
            fs::file_size(path, ignored) == 0 ? "an empty file"
                                              : "not a GGUF file: it does not begin with \"GGUF\"",
            "download it again"};
  if (const std::string format = format_name(path); !format.empty())
    return {kCheckpoint, format == "ONNX" ? "an ONNX model" : fmt::format("a {} checkpoint", format), ""};
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
  add(kNetwork, "an ONNX model");
  std::string out;
  for (size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return out;
}

// Where a checkpoint was given and a bundle is needed: the one that is there already, or how to make it.
std::string bundle_of_checkpoint(std::string_view verb, const std::string& path) {
  if (const std::string name = bundle_name(path); is_bundle(name))
    return fmt::format("there is a bundle of that name: anemone {} {}", verb, shell_word(name));
  return fmt::format("convert it first: anemone convert {} -o {}", shell_word(path),
                     shell_word(free_bundle_name(path)));
}

// The bundle that a path lies in; empty where there is none.
std::string bundle_around(const std::string& path) {
  const fs::path given(path),
      folder = given.has_filename() ? given.parent_path() : given.parent_path().parent_path();
  const fs::path named = folder.empty() ? fs::path(".") : folder;
  return is_bundle(named) ? named.string() : "";
}

// The command to use instead.
std::string way_out(std::string_view verb, const std::string& path, const Found& found, unsigned kinds) {
  if (!found.way_out.empty()) return found.way_out;
  if (const std::string bundle = bundle_around(path); (kinds & kBundle) && !bundle.empty())
    return "its bundle is " + bundle;
  switch (found.kind) {
    case kCheckpoint:
      if (kinds & kBundle) return bundle_of_checkpoint(verb, path);
      return fmt::format("anemone plan {} shows its sizes", shell_word(path));
    case kConfig:
      return fmt::format("download the weights too; anemone plan {} shows their sizes", shell_word(path));
    case kNetwork:
      return fmt::format("anemone convert {} -o {}.mlpackage makes a package of it", shell_word(path),
                         shell_word(fs::path(path).stem().string()));
    case kTokenizer: return fmt::format("anemone tokenize {} TEXT reads a tokenizer", shell_word(path));
    case kPackage:
      if (verb == "convert")
        return fmt::format("it is Core ML already: anemone compress {} makes it smaller", shell_word(path));
      return fmt::format("anemone inspect, check, predict and compress take it: anemone inspect {}",
                         shell_word(path));
    case kBundle:
      if (kinds & kPackage) {
        std::string names;
        for (const std::string& name : BundleInfo::read(path).packages())
          names += (names.empty() ? "" : ", ") + (fs::path(path) / name).string();
        return "name one of its packages: " + names;
      }
      if (verb == "verify" || verb == "golden") return "give the checkpoint that it was made from";
      if (verb == "plan") return fmt::format("anemone check {} looks at a bundle", shell_word(path));
      return fmt::format("it is converted already: anemone compress {} makes it smaller", shell_word(path));
  }
  if ((kinds & kBundle) && !(kinds & (kPackage | kCheckpoint))) return "convert writes bundles";
  return "";
}

// Whether a text can only be a path, and no name that a verb knows: it has a folder or the ending of a file.
bool is_path(const std::string& text) {
  constexpr std::string_view kEndings[] = {".gguf", ".safetensors", ".json", ".model",   ".onnx",
                                           ".bin",  ".pt",          ".pth",  ".mlmodel", ".mlpackage"};
  return text.find('/') != text.npos ||
         std::any_of(std::begin(kEndings), std::end(kEndings), [&](auto end) { return text.ends_with(end); });
}

}  // namespace

std::string bundle_name(const std::string& model) {
  std::string shown = hub::shown_name(model);  // OWNER/REPO for what lies in the cache of the hub
  while (shown.size() > 1 && shown.ends_with('/')) shown.pop_back();
  const fs::path whole =
      shown == "." || shown == ".." ? fs::absolute(shown).lexically_normal() : fs::path(shown);
  fs::path name = (whole.has_filename() ? whole : whole.parent_path()).filename();
  if (name.string().starts_with("hf:")) name = name.string().substr(3);
  if (const std::string text = name.string(); !fs::exists(model) || shown != model)
    if (const size_t at = text.find('@'); at != text.npos) name = text.substr(0, at);
  if (name.extension() == ".onnx") {  // called "model" like all others: its folder has the name
    const fs::path folder = fs::absolute(whole).lexically_normal().parent_path();
    name = folder.filename() == "onnx" ? folder.parent_path().filename() : folder.filename();
  }
  return name.extension() == ".gguf" || name.extension() == ".safetensors" ? name.stem().string()
                                                                           : name.string() + "-bundle";
}

std::string free_bundle_name(const std::string& model) {
  std::error_code ignored;
  const std::string name = bundle_name(model);
  std::string out = name;
  for (int n = 2; fs::exists(fs::symlink_status(out, ignored)); ++n) out = fmt::format("{}-{}", name, n);
  return out;
}

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
    if (const auto hidden = hub::hidden_by_folder(path))
      error.hint(fmt::format("a folder '{}' exists here; for the hub write {}",
                             path.substr(0, path.find('/')), *hidden));
    else if (!meant.empty())
      error.hint(fmt::format("did you mean '{}'?", (given.parent_path() / meant).string()));
    throw error;
  }
  if (why) throw errorf("cannot be opened: {}", why.message()).at(path);
}

void expect_source(std::string_view verb, const std::string& path, unsigned kinds) {
  std::error_code ignored;
  if ((kinds & kName) && !fs::exists(path, ignored) && !is_path(path)) return;
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
