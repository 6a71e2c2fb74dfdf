#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "text/tokenizer.h"
#include "text/tokenizer/end_tokens.h"
#include "text/tokenizer/gguf_vocabulary.h"
#include "text/tokenizer/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_json.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

bool holds_gguf(const MappedFile& file) { return file.text().starts_with("GGUF"); }

// The file that a tokenizer is read from. Of a checkpoint its format says which; a folder may also hold a tokenizer
// alone, as bundles do.
fs::path file_of(const fs::path& given) {
  if (Checkpoint::recognises(given)) {
    const TokenizerSource source = Checkpoint::open(given).tokenizer();
    if (source.main.empty())
      throw errorf("the checkpoint has no tokenizer")
          .at(given.string())
          .hint("name a tokenizer.json or a tokenizer.model");
    return source.load;
  }
  if (!fs::is_directory(given)) return given;
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (fs::is_regular_file(given / name)) return given / name;
  throw errorf("no tokenizer in this folder")
      .at(given.string())
      .expected("tokenizer.json, tokenizer.model or a checkpoint that has one");
}

struct Read {
  TokenizerSpec spec;
  fs::path path;  // of the file that it was in
};

// Runs `body`; an Error gets the file's name where it does not say it.
template <class Body>
decltype(auto) within(const fs::path& path, Body&& body) {
  try {
    return body();
  } catch (Error& e) {
    if (e.where().find(path.parent_path().string()) == std::string::npos) e.within(path.string());
    throw;
  }
}

Read read(const fs::path& given) {
  // A vocabulary in a GGUF file is read where it is, without opening the rest of it as a checkpoint first.
  const bool is_vocabulary = !fs::is_directory(given) && holds_gguf(*MappedFile::open(given));
  const fs::path path = is_vocabulary ? given : file_of(given);
  const auto file = MappedFile::open(path);
  if (holds_gguf(*file)) return {read_gguf_vocabulary(GgufFile::open(path)), path};
  const size_t first = file->text().find_first_not_of(" \t\r\n");
  const bool json =
      path.extension() != ".model" && first != std::string_view::npos && file->text()[first] == '{';
  TokenizerSpec spec = json ? read_tokenizer_json(*file) : read_sentencepiece_model(*file);
  within(path, [&] {
    read_companions(path.parent_path(), spec);
    add_end_tokens(spec);
  });
  return {std::move(spec), path};
}

}  // namespace

TokenizerSpec load_tokenizer_spec(const fs::path& path) { return read(path).spec; }

std::shared_ptr<const Tokenizer> Tokenizer::load(const fs::path& given) {
  Read found = read(given);
  return within(found.path, [&] { return make(std::move(found.spec)); });
}

}  // namespace anemone
