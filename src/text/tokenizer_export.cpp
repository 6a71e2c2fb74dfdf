#include "text/tokenizer_export.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer/tokenizer_json_writer.h"

namespace anemone {

std::vector<TokenizerFile> exported_tokenizer(const Checkpoint& checkpoint) {
  const TokenizerSource source = checkpoint.tokenizer();
  const auto has = [&](const char* name) {
    return std::any_of(source.files.begin(), source.files.end(),
                       [&](const TokenizerFile& file) { return file.name == name; });
  };
  std::vector<TokenizerFile> out;
  if (source.main.empty() || has("tokenizer.json")) return out;
  const auto add = [&](const char* name, std::string text) {
    const uint64_t bytes = text.size();
    if (!has(name)) out.push_back({.name = name, .from = {}, .made = std::move(text), .bytes = bytes});
  };
  const TokenizerSpec spec = load_tokenizer_spec(source.load);
  add("tokenizer.json", tokenizer_json(spec));
  add("tokenizer_config.json", tokenizer_config_json(spec));
  return out;
}

std::string export_tokenizer_json(const std::filesystem::path& source) {
  std::error_code ignored;
  if (source.extension() == ".json" || std::filesystem::exists(source / "tokenizer.json", ignored))
    throw errorf("has a tokenizer.json already").at(source.string()).hint("copy that file");
  try {
    return tokenizer_json(load_tokenizer_spec(source));
  } catch (Error& e) {
    if (e.where().empty()) e.at(source.string());
    throw;
  }
}

}  // namespace anemone
