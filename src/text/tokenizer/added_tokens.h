// AddedTokens: finds the special and added tokens that a text has in it, before anything else is done to the text.
//     AddedTokens added(tokens, /*longest_first=*/false);
//     for (const auto& part : added.split(text, /*parse_special=*/true)) …
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer/spec.h"
#include "text/tokenizer/token_trie.h"

namespace anemone {

class AddedTokens {
 public:
  struct Part {
    std::string_view text;
    int32_t id;  // kNoToken: plain text
  };

  AddedTokens() = default;
  // longest_first: where two tokens overlap, the longer one wins (llama.cpp). Otherwise the leftmost one wins, and of
  // those that start at the same place the longest (Hugging Face).
  AddedTokens(std::vector<AddedToken> tokens, bool longest_first);

  // The text cut at the tokens, without the white space that they strip. Parts are never empty. Without parse_special,
  // special tokens are plain text.
  std::vector<Part> split(std::string_view text, bool parse_special) const;

 private:
  struct Match {
    size_t begin, end;
    uint32_t token;
  };
  std::vector<Match> leftmost(std::string_view text, bool parse_special) const;
  std::vector<Match> longest(std::string_view text, bool parse_special) const;

  std::vector<AddedToken> tokens_;
  TokenTrie trie_;  // its ids are places in tokens_
  bool longest_first_ = false;
};

}  // namespace anemone
