// The "model" of a tokenizer.json: the vocabulary, and how a word becomes tokens. A part of tokenizer_json_writer.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer/spec.h"

namespace anemone {

// As JSON text. Error for a kind that has no form there.
std::string written_model(const TokenizerSpec& spec);
// How a token is written in that file: GGUF's WordPiece tokens as BERT's own, all others as they are.
std::string written_token(const TokenizerSpec& spec, int32_t id);

}  // namespace anemone
