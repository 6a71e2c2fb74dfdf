// PreTokenizer: cuts normalised text into the words that the model sees one by one.
//     PreTokenizer cutter(spec.pre_tokenizer, /*raw_bytes=*/true);
//     cutter.run("Hello world", true, [&](std::string_view word) { … });
// Steps run depth first: a word is handed on as soon as it is known, and no list of pieces is built.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer/scanner.h"
#include "text/tokenizer/spec.h"

namespace anemone {

class PreTokenizer {
 public:
  // raw_bytes: the token model reads bytes itself, so a last byte_level step only cuts. Throws Error on a bad regex.
  PreTokenizer(std::vector<PreTokenizerStep> steps, bool raw_bytes);

  // True when the steps allow a token model to read raw bytes: byte_level comes once, as the last step.
  static bool ends_in_bytes(const std::vector<PreTokenizerStep>& steps);

  // Calls word(piece) for every piece in order. at_start: the text starts where the whole input does.
  template <class F>
  void run(std::string_view text, bool at_start, const F& word) const {
    cut(0, text, at_start,
        Sink{&word, [](const void* f, std::string_view w) { (*static_cast<const F*>(f))(w); }});
  }

 private:
  struct Step {
    PreTokenizerStep what;
    std::optional<Scanner> scanner;
    std::optional<Regex> regex;
  };
  struct Sink {
    const void* function;
    void (*call)(const void*, std::string_view);
  };
  struct Part {
    size_t begin, end;
    bool match;
  };

  void cut(size_t step, std::string_view text, bool at_start, const Sink& sink) const;
  void cut_isolated(size_t step, const Scanner& scanner, std::string_view text, bool at_start,
                    const Sink& sink) const;
  void cut_parts(size_t step, std::string_view text, bool at_start, std::vector<Part> parts,
                 PreTokenizerStep::Behavior behavior, const Sink& sink) const;
  void cut_split(size_t step, std::string_view text, bool at_start, const Sink& sink) const;
  void cut_runs(size_t step, std::string_view text, bool at_start, const Sink& sink) const;
  void cut_lengths(size_t step, std::string_view text, bool at_start, const Sink& sink) const;
  void byte_level(size_t step, std::string_view text, bool at_start, const Sink& sink) const;
  void metaspace(size_t step, std::string_view text, bool at_start, const Sink& sink) const;
  void bert_words(size_t step, std::string_view text, const Sink& sink) const;
  void hand_on(size_t step, std::string_view piece, bool at_start, const Sink& sink) const {
    if (!piece.empty()) cut(step + 1, piece, at_start, sink);
  }

  std::vector<Step> steps_;
  bool raw_bytes_;
};

}  // namespace anemone
