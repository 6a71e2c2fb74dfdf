#include "families/sentence.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kModules = "modules.json";
constexpr const char* kTransformer = "sentence_bert_config.json";
constexpr const char* kPrompts = "config_sentence_transformers.json";

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

// One of the files, an object, with its place for messages.
class SentenceFile {
 public:
  SentenceFile(const Hparams& hp, const std::string& name)
      : path_((hp.checkpoint().folder() / name).string()) {
    const std::optional<Json> json = hp.checkpoint().companion(name);
    exists_ = json.has_value();
    if (!exists_) return;
    if (!json->is_object()) throw Error("the file must hold an object {…}").at(path_).found(shown(*json));
    json_ = *json;
  }

  bool exists() const { return exists_; }
  const Json& json() const { return json_; }
  const std::string& path() const { return path_; }

  // The value; nothing where it is absent or null.
  const Json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  bool flag(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value && !value->is_boolean()) throw wrong(key, "true or false");
    return value ? value->get<bool>() : otherwise;
  }
  std::optional<int64_t> count(const char* key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number_integer() || *value < 1 || *value > Hparams::kMost)
      throw wrong(key, "a whole number from 1 on");
    return value->get<int64_t>();
  }
  std::string text(const char* key) const {
    const Json* value = find(key);
    if (value && !value->is_string()) throw wrong(key, "a text");
    return value ? value->get<std::string>() : "";
  }
  Error wrong(const char* key, const char* wanted) const {
    return errorf("'{}' has a value that is not supported", key)
        .at(path_)
        .found(shown(json_.at(key)))
        .expected(wanted);
  }

 private:
  std::string path_;
  bool exists_ = false;
  Json json_ = Json::object();
};

// The flags that are set. The class's defaults: the mean is taken unless the file says no.
std::vector<std::string> pooling_modes(const SentenceFile& file) {
  std::vector<std::string> out;
  if (file.flag("pooling_mode_mean_tokens", true)) out.push_back("pooling_mode_mean_tokens");
  for (const auto& [key, value] : file.json().items())
    if (key.starts_with("pooling_mode_") && key != "pooling_mode_mean_tokens" &&
        file.flag(key.c_str(), false))
      out.push_back(printable(key));
  return out;
}

Pooling pooling_of(const SentenceFile& file, int64_t hidden) {
  for (const char* key : {"word_embedding_dimension", "embedding_dimension"})
    if (const auto width = file.count(key); width && *width != hidden)
      throw errorf("'{}' contradicts the hidden size", key)
          .at(file.path())
          .found(fmt::format("{}", *width))
          .expected(fmt::format("{}", hidden));
  if (!file.flag("include_prompt", true))
    throw file.wrong("include_prompt", "true: every token of a text counts in its vector");
  // A name goes before the flags.
  if (const std::string name = file.text("pooling_mode"); !name.empty()) {
    if (name != "mean" && name != "cls") throw file.wrong("pooling_mode", "mean or cls");
    return name == "mean" ? Pooling::mean : Pooling::first;
  }
  const std::vector<std::string> modes = pooling_modes(file);
  if (modes == std::vector<std::string>{"pooling_mode_mean_tokens"}) return Pooling::mean;
  if (modes == std::vector<std::string>{"pooling_mode_cls_token"}) return Pooling::first;
  throw Error("the pooling is not supported")
      .at(file.path())
      .found(modes.empty() ? "none" : fmt::format("{}", fmt::join(modes, " and ")))
      .expected("either pooling_mode_mean_tokens or pooling_mode_cls_token, alone");
}

// A module by the last part of its type, in the order of the computation.
struct Module {
  std::string kind, path;
};

std::vector<Module> read_modules(const Json& json, const std::string& path) {
  const auto text = [](const Json& module, const char* key) {
    return module.is_object() && module.contains(key) && module.at(key).is_string()
               ? module.at(key).get<std::string>()
               : "";
  };
  std::vector<Module> out;
  if (!json.is_array()) throw Error("the file must hold a list of modules").at(path).found(shown(json));
  for (const Json& module : json) {
    const std::string type = text(module, "type"), kind = type.substr(type.rfind('.') + 1);
    if (kind != "Transformer" && kind != "Pooling" && kind != "Normalize")
      throw errorf("module {} of the sentence transformer is not supported", out.size())
          .at(path)
          .found(type.empty() ? shown(module) : printable(type))
          .expected("Transformer, Pooling or Normalize")
          .hint("without it the vectors would be different");
    out.push_back({kind, text(module, "path")});
  }
  const auto is = [&](size_t i, const char* kind) { return i >= out.size() || out[i].kind == kind; };
  if (out.size() < 2 || out.size() > 3 || !is(0, "Transformer") || !is(1, "Pooling") || !is(2, "Normalize")) {
    std::vector<std::string> kinds;
    for (const Module& module : out) kinds.push_back(module.kind);
    throw Error("the modules of the sentence transformer are not supported in this order")
        .at(path)
        .found(out.empty() ? "none" : fmt::format("{}", fmt::join(kinds, ", ")))
        .expected("Transformer, Pooling and at most one Normalize");
  }
  if (const std::string& own = out[0].path; !own.empty() && own != ".")
    throw Error("the sentence transformer has its model in a separate folder")
        .at(path)
        .found(printable(own))
        .expected("config.json and the weights beside modules.json");
  return out;
}

void expect_no_prompt(const Hparams& hp) {
  const SentenceFile file(hp, kPrompts);
  const std::string name = file.text("default_prompt_name");
  if (name.empty()) return;
  const Json* prompt = nullptr;
  if (const Json* prompts = file.find("prompts"); prompts && prompts->is_object())
    if (const auto at = prompts->find(name); at != prompts->end() && at->is_string()) prompt = &*at;
  if (prompt && prompt->get<std::string>().empty()) return;
  throw Error("a prompt before every text is not supported")
      .at(file.path())
      .found(fmt::format("'default_prompt_name' {}{}", printable(name), prompt ? ": " + shown(*prompt) : ""))
      .hint("remove that key from the file, and give the prompt to embed with --prefix");
}

// The texts of such a model are lowercased first. Its tokenizer usually does the same.
void expect_letters_as_they_are(const Hparams& hp) {
  const SentenceFile file(hp, kTransformer);
  if (!file.flag("do_lower_case", false)) return;
  if (!SentenceFile(hp, "tokenizer_config.json").flag("do_lower_case", false))
    throw file.wrong("do_lower_case", "false, or a tokenizer that does it (tokenizer_config.json)");
}

}  // namespace

PooledHead sentence_head(const Hparams& hp, int64_t hidden) {
  expect_no_prompt(hp);
  expect_letters_as_they_are(hp);
  PooledHead head;
  std::string folder = "1_Pooling";
  const auto json = hp.checkpoint().companion(kModules);
  if (json) {
    const std::vector<Module> modules = read_modules(*json, (hp.checkpoint().folder() / kModules).string());
    folder = modules[1].path;
    head.normalize = modules.size() == 3;
  }
  const SentenceFile pooling(hp, folder.empty() ? "config.json" : folder + "/config.json");
  if (json && (folder.empty() || !pooling.exists()))
    throw Error("the pooling's configuration is missing")
        .at(pooling.path())
        .expected(fmt::format("the file, since {} names it", kModules));
  if (pooling.exists()) head.pooling = pooling_of(pooling, hidden);
  return head;
}

std::optional<int64_t> sentence_limit(const Hparams& hp) {
  return SentenceFile(hp, kTransformer).count("max_seq_length");
}

}  // namespace anemone
