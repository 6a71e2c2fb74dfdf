// TokenizerSpec: what a tokenizer does, as plain data. Every file format is read into it, and Tokenizer runs it:
//     normalise → cut at added tokens → pre-tokenise → token model → post-process; and back: detokenize.
//     TokenizerSpec spec = read_tokenizer_json(file);
//     auto tokenizer = Tokenizer::make(std::move(spec));
// The parts are those of Hugging Face's tokenizer.json, plus the few that only GGUF and SentencePiece need.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace anemone {

struct NormalizerStep {
  enum class Kind {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    strip,
    strip_accents,
    replace,
    prepend,
    bert,
    precompiled,
    nmt,
    byte_level,
    sentencepiece,  // charsmap (if any), white space squeezed, escaped and added as the flags say
  };
  Kind kind;
  std::string pattern;  // replace: a literal, or a regex when is_regex
  std::string content;  // replace, prepend; precompiled, sentencepiece: the charsmap's bytes
  bool is_regex = false;
  bool strip_left = false, strip_right = false;                              // strip
  bool clean_text = false, chinese = false, lower = false, accents = false;  // bert
  // sentencepiece: a space is added in front (at the end with suffix; before_word: not to white space alone),
  // runs of spaces become one, spaces are written as U+2581.
  bool add_prefix = false, suffix = false, before_word = false, squeeze = false, escape = false;
};

struct PreTokenizerStep {
  enum class Kind {
    byte_level,
    split,
    whitespace,
    whitespace_split,
    metaspace,
    punctuation,
    digits,
    bert,
    delimiter,
    unicode_scripts,
    fixed_length,
    bert_words,  // GGUF's BERT: clean, lower and cut in one go
  };
  enum class Behavior { isolated, removed, contiguous, merged_with_previous, merged_with_next };
  enum class Prepend { always, first, never };
  Kind kind;
  std::string pattern;  // split: a literal, or a regex when is_regex
  bool is_regex = false;
  bool invert = false;
  Behavior behavior = Behavior::isolated;
  bool add_prefix_space = false, use_regex = false;  // byte_level
  char32_t character = 0;                            // metaspace's replacement, delimiter
  Prepend prepend = Prepend::never;                  // metaspace
  bool cut = true;                                   // metaspace: split at the replacement
  bool individual_digits = false;
  size_t length = 0;                    // fixed_length
  bool lower = false, accents = false;  // bert_words
};

// The "model" of tokenizer.json: how a word becomes tokens. (The language model is another thing.)
struct TokenModelSpec {
  enum class Kind {
    bpe,        // merges in rank order
    score_bpe,  // SentencePiece BPE: any two pieces whose text is a token merge, best score first
    unigram,
    word_piece,
    word_level,
    longest,  // RWKV: the longest token at each place
  };
  // The ids of a pair and of what it becomes.
  struct Merge {
    int32_t left, right, result;
  };
  Kind kind = Kind::bpe;
  std::vector<Merge> merges;
  std::vector<double> scores;  // score_bpe and unigram: one per id
  std::vector<bool> hidden;  // score_bpe, unigram: ids that text never becomes (control tokens); may be empty
  std::string unk_token;
  int32_t unk_id = kNoToken;
  std::string continuing_prefix, word_suffix;  // BPE's and WordPiece's "##" and "</w>"
  std::string word_prefix;                     // word_piece of GGUF: U+2581 before each word
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
  bool unknown_as_bytes = false;  // BPE: a character without a token gives its bytes' tokens, if any (GGUF)
  double unk_score = 0;           // unigram
  bool single_precision = false;  // unigram: sums are rounded to float, as SentencePiece itself does
  size_t max_word_chars = 100;    // word_piece
};

struct AddedToken {
  std::string content;
  // What is looked for in normalised text, where that is not the content's own normal form.
  std::string normal_form;
  int32_t id = kNoToken;
  bool single_word = false, left_strip = false, right_strip = false, normalized = false, special = false;
};

// A part of tokenizer.json's "decoder".
struct DetokenizerStep {
  enum class Kind { byte_level, replace, word_piece, byte_fallback, fuse, strip, metaspace, bpe, ctc };
  Kind kind;
  std::string pattern, content;  // replace; word_piece: prefix; bpe: suffix; ctc: pad and delimiter
  bool is_regex = false;
  char32_t character = 0;  // strip, metaspace
  size_t start = 0, stop = 0;
  bool strip_first = false;  // metaspace
  bool cleanup = false;      // word_piece, ctc
};

struct TokenizerSpec {
  static constexpr int32_t kSequence = -1;  // in `post`: where the text's ids go

  Vocabulary vocabulary;
  std::vector<AddedToken> added;
  bool longest_first = false;  // cut at the longest added token first (llama.cpp), not at the leftmost (HF)
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  TokenModelSpec model;
  std::vector<int32_t> post = {kSequence};
  bool post_in_parts = false;  // a template made it: a further post-processor would see several texts
  std::vector<DetokenizerStep> detokenizer;
  bool join_with_spaces = false;  // the file gives no decoder: HF joins tokens with spaces

  // Ids that the file names; kNoToken where it does not.
  int32_t bos = kNoToken, eos = kNoToken, unk = kNoToken, pad = kNoToken, sep = kNoToken, mask = kNoToken;
  std::vector<int32_t> end_of_generation;  // eos, end of turn and the like
  std::string chat_template;               // as the file has it; empty when it has none
};

}  // namespace anemone
