// WordPiece, WordLevel and the longest-token rule: they look a word up in the vocabulary, whole or in parts.
//     word_piece(spec.model, spec.vocabulary, "unaffable", ids);        // un ##aff ##able
// All append the word's ids and throw Error when a word needs the unknown token and there is none.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer/spec.h"
#include "text/tokenizer/token_trie.h"

namespace anemone {

// The longest token at each place; the whole word is unknown when one place has none.
void word_piece(const TokenModelSpec& model, const Vocabulary& vocabulary, std::string_view word,
                std::vector<int32_t>& ids);

// The word itself or the unknown token.
void word_level(const TokenModelSpec& model, const Vocabulary& vocabulary, std::string_view word,
                std::vector<int32_t>& ids);

// RWKV: the longest token at each place; bytes that start no token are left out.
void longest_tokens(const TokenTrie& trie, int32_t unk_id, std::string_view text, std::vector<int32_t>& ids);

}  // namespace anemone
