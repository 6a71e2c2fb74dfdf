// Tokens that end a generation, known by their names, since files seldom list them all.
//     add_end_tokens(spec);      // fills spec.end_of_generation
#pragma once

#include <string_view>

#include "text/tokenizer/spec.h"

namespace anemone {

// True for the names that model families give to the end of a text, a turn or a message.
bool is_end_token_name(std::string_view name);
// True for the names of fill-in-the-middle marks.
bool is_middle_token_name(std::string_view name);

// Adds eos and every special token with such a name to end_of_generation, each once. "<|end|>" is left out where
// "<|return|>" and "<|call|>" (or "<|calls|>" and "<|flush|>") are there too: it ends a message then, not a turn.
void add_end_tokens(TokenizerSpec& spec);

}  // namespace anemone
