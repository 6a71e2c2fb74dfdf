// Normalizer: runs the normalisation steps of a tokenizer on a piece of text.
//     Normalizer normalizer(spec.normalizer);
//     std::string clean = normalizer.run("Ｈello");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/spec.h"
#include "text/tokenizer/token_trie.h"

namespace anemone {

class Normalizer {
 public:
  // user_defined: tokens that the sentencepiece step leaves as they are.
  explicit Normalizer(std::vector<NormalizerStep> steps, std::vector<std::string> user_defined = {});

  bool empty() const { return steps_.empty(); }
  // `text` is valid UTF-8; so is the answer.
  std::string run(std::string_view text) const;
  // True when the result of run() still starts where the text does, as Hugging Face counts. Its Metaspace with
  // "first" prepends only there. Looks at the steps that can drop the beginning or replace it.
  bool keeps_start(std::string_view text) const;

 private:
  struct Step {
    NormalizerStep what;
    Charsmap charsmap;
    std::vector<Regex> regex;  // replace: at most one
  };
  void apply(const Step& step, std::string& text) const;
  bool drops_start(const Step& step, std::string_view text) const;
  std::string sentencepiece(const Step& step, std::string_view text) const;

  std::vector<Step> steps_;
  bool may_drop_start_ = false;
  std::vector<std::string> user_defined_;
  TokenTrie user_trie_;
};

}  // namespace anemone
