#include "base/error.h"
#include "checkpoint/gguf.h"
#include "text/tokenizer.h"
#include "text/tokenizer/end_tokens.h"
#include "text/tokenizer/gguf_vocabulary.h"
#include "text/tokenizer/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_json.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

// The tokenizer of a folder: tokenizer.json before tokenizer.model before the first GGUF by name.
fs::path find_in_folder(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  fs::path best;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf" && (best.empty() || entry.path() < best)) best = entry.path();
  }
  if (best.empty()) {
    throw errorf("no tokenizer in this folder")
        .at(folder.string())
        .expected("tokenizer.json, tokenizer.model or *.gguf");
  }
  return best;
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(const fs::path& given) {
  const fs::path path = fs::is_directory(given) ? find_in_folder(given) : given;
  const auto file = MappedFile::open(path);
  if (file->text().starts_with("GGUF")) return make(read_gguf_vocabulary(GgufFile::open(path)));
  const size_t first = file->text().find_first_not_of(" \t\r\n");
  const bool json =
      path.extension() != ".model" && first != std::string_view::npos && file->text()[first] == '{';
  TokenizerSpec spec = json ? read_tokenizer_json(*file) : read_sentencepiece_model(*file);
  try {
    read_companions(path.parent_path(), spec);
    add_end_tokens(spec);
    return make(std::move(spec));
  } catch (Error& e) {
    if (e.where().find(path.parent_path().string()) == std::string::npos) e.within(path.string());
    throw;
  }
}

}  // namespace anemone
