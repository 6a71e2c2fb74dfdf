// Unigram: the most likely cut of a word into tokens, each with a log-probability (Viterbi).
//     Unigram unigram(spec.model, spec.vocabulary);
//     unigram.encode("▁hello", ids);
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "text/tokenizer/spec.h"
#include "text/tokenizer/token_trie.h"

namespace anemone {

class Unigram {
 public:
  // The vocabulary must outlive this. Throws Error when there are fewer scores than tokens.
  Unigram(const TokenModelSpec& model, const Vocabulary& vocabulary);

  // Appends the word's ids. Throws Error on an unknown character when there is no unknown token.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  void emit_unknown(std::string_view text, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  TokenTrie trie_;
  std::vector<double> scores_;
  double unk_score_;
  int32_t unk_id_;
  bool byte_fallback_, single_precision_;
  std::array<int32_t, 256> fallback_ids_{};
};

}  // namespace anemone
