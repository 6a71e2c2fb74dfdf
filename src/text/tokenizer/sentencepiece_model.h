// Reads SentencePiece's tokenizer.model (a protobuf message, ModelProto of SentencePiece 0.2).
//     TokenizerSpec spec = read_sentencepiece_model(*MappedFile::open("tokenizer.model"));
// Fields used:
//     1  pieces, each {1: text, 2: score (float), 3: type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
//        6 byte}
//     2  trainer {3: model type: 1 unigram, 2 BPE, 3 word, 4 char; 24: white space at the end; 35: byte fallback;
//        40 to 43: ids of unknown, bos, eos, pad}
//     3  normaliser {2: charsmap, 3: add a space in front, 4: squeeze white space, 5: escape white space}
// Control tokens are only found in text when parse_special says so. BOS is added in front, as llama's files do.
#pragma once

#include "base/mapped_file.h"
#include "text/tokenizer/spec.h"

namespace anemone {

TokenizerSpec read_sentencepiece_model(const MappedFile& file);

}  // namespace anemone
