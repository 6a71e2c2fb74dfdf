// What other programs read of a tokenizer that comes as GGUF or as a SentencePiece model: tokenizer.json and
// tokenizer_config.json, made from it.
//     for (const TokenizerFile& file : exported_tokenizer(checkpoint)) write_text(folder / file.name, file.made);
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace anemone {

// Nothing where the checkpoint has no tokenizer or a tokenizer.json of its own. Error where the tokenizer cannot be
// read, or has no such form.
std::vector<TokenizerFile> exported_tokenizer(const Checkpoint& checkpoint);

// The tokenizer.json of whatever Tokenizer::load takes but a tokenizer.json itself.
std::string export_tokenizer_json(const std::filesystem::path& source);

}  // namespace anemone
