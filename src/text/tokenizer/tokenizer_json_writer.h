// Writes a tokenizer as tokenizer.json and tokenizer_config.json, which Hugging Face's and Swift's tokenizers read.
//     write_text("tokenizer.json", tokenizer_json(read_gguf_vocabulary(file)));
// It is for what comes from GGUF and SentencePiece files. Two of their parts have no form of their own in a
// tokenizer.json and are written in the usual other one:
//   - SentencePiece's BPE joins by scores. Here every way to make a piece of two others is a merge, the best score
//     first.
//   - GGUF's WordPiece marks the start of a word with U+2581. Here what goes on in a word begins with "##", as in BERT.
// One thing differs: where SentencePiece puts a space in front of texts, Hugging Face looks for a user-defined token
// together with such a space, and finds it nowhere else. Where added tokens overlap in a text, llama.cpp takes the
// longest one and Hugging Face the first one.
#pragma once

#include <string>

#include "text/tokenizer/spec.h"

namespace anemone {

// Error, with what it is, for a tokenizer that has no such form (RWKV's).
std::string tokenizer_json(const TokenizerSpec& spec);

// The names of its special tokens, and the chat template.
std::string tokenizer_config_json(const TokenizerSpec& spec);

}  // namespace anemone
