// What embed and classify share: texts from the command line, files, standard input or as token ids, and their way
// through an Encoder.
//     EncodingFlags flags;
//     flags.declare(options);
//     const EncodingInput input = flags.read(bundle);
//     encode_all(flags, input, bundle, {}, common, [&](size_t i, EncodedText e) { … });
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/backend.h"
#include "cli/command.h"
#include "runtime/encoder.h"
#include "text/tokenizer.h"

namespace anemone::cli {

struct EncodingInput {
  std::shared_ptr<const Tokenizer> tokenizer;    // nullptr: ids were given
  std::vector<std::string> texts;                // empty: ids were given
  std::vector<std::vector<int32_t>> ids, types;  // by text; types: empty, or of every text
  std::vector<int64_t> shape;                    // of the ids that were given: [tokens] or [texts, tokens]
  std::vector<std::string> places;               // by text: where it was found, for messages
  size_t keep_last = 0;                          // tokens that the tokenizer puts behind a text
};

struct EncodingFlags {
  std::vector<std::string> texts, files;
  std::string ids, types, mask, prefix;
  BackendFlags backend;
  bool lines = false, truncate = false;

  void declare(Options& o);
  // Error where there is nothing to read, or the flags contradict each other.
  EncodingInput read(const std::string& bundle, const Common& common) const;
};

// Opens the bundle and computes every text; `take` is called once for each, in any order. Notes go to stderr.
void encode_all(const EncodingFlags& flags, const EncodingInput& input, const std::string& bundle,
                EncoderOptions options, const Common& common,
                const std::function<void(size_t index, EncodedText encoded)>& take);

// A float as JSON should show it: no more digits than tell it from its neighbors.
double short_number(float value);

}  // namespace anemone::cli
