// Reads the tokenizer in a GGUF file's metadata (the tokenizer.ggml.* keys), as llama.cpp understands them.
//     TokenizerSpec spec = read_gguf_vocabulary(GgufFile::open("model.gguf"));
// tokenizer.ggml.model says which kind: gpt2 (byte-level BPE, cut as tokenizer.ggml.pre says), llama (SentencePiece BPE
// by scores), t5 (unigram), bert (WordPiece), rwkv (longest token), gemma4 (BPE over characters). The file gives the
// types of special tokens, but not how they strip white space. That is decided by the model's name, as llama.cpp does.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf.h"
#include "text/tokenizer/spec.h"

namespace anemone {

TokenizerSpec read_gguf_vocabulary(const GgufFile& file);

// The types of pieces; SentencePiece and GGUF number them alike.
enum class PieceType { undefined, normal, unknown, control, user_defined, unused, byte };

struct PieceEntry {
  std::string_view text;
  float score = 0;
  PieceType type = PieceType::normal;
};

// Fills vocabulary, scores, hidden and added tokens from a list of pieces in order of their ids; also the score of an
// unknown character in a unigram model.
void add_pieces(std::span<const PieceEntry> pieces, TokenizerSpec& spec);
// Makes the detokenizer: escaped spaces to spaces, byte tokens to bytes, one space off the start where one was added.
void add_piece_detokenizer(bool add_prefix, TokenizerSpec& spec);

// How a `tokenizer.ggml.pre` name cuts words.
struct GgufPreType {
  std::vector<std::string_view> regexes;  // one after the other, each refining the pieces
  bool ignore_merges = false;
  bool add_bos = false;
  bool characters = false;      // BPE over characters, spaces written as U+2581
  bool no_default_bos = false;  // no BOS unless the file names one
};

// Throws Error for a name that is not known, naming it.
GgufPreType gguf_pre_type(std::string_view name);

}  // namespace anemone
