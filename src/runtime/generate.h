// Generator: the loop from a prompt to an answer: prefill, pick, feed back, until something ends it.
//     Generator generator(tokenizer, {.max_new = 200, .stops = {"\n\n"}, .on_text = show});
//     Generation g = generator.run(session, prompt_ids);
//     if (g.why == StopReason::context) …
// It prints nothing: text goes to on_text as soon as it is certain. What the session has seen of the prompt
// already is not computed again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sampler.h"
#include "runtime/session.h"
#include "text/tokenizer.h"

namespace anemone {

class TokenMasks;

enum class StopReason {
  length,       // max_new tokens
  end_of_text,  // the model ended it
  stop_text,    // one of `stops`
  repetition,   // stop_ngram
  context,      // the context is full, and sliding is off
  cancelled,    // keep_going said no
};
std::string_view stop_reason_text(StopReason why);  // "length", "end of text", …

struct GenerateOptions {
  int64_t max_new = 128;
  SamplerOptions sampling;
  std::vector<std::string> stops;  // texts that end the answer; they and what follows are not given out
  std::vector<int32_t> ends;       // ids that end the answer, beside the bundle's and the tokenizer's
  bool ignore_eos = false;         // neither of these three ends it
  bool show_special = false;       // the text has special tokens too, but none that ends the answer
  int64_t stop_ngram = 0;  // ends when the last that many new tokens stand earlier in the answer; 0: off

  std::shared_ptr<TokenMasks>
      grammar;  // the answer is a text of this grammar, unless something cuts it short
  int64_t chances =
      -1;  // keep the probability of each token, and of so many that were likelier; below 0: none

  // Drafts of up to this many tokens, looked up in the text so far and checked by one call of the bundle. The
  // tokens are always those of greedy decoding without it. Greedy only; the bundle must give logits and take
  // several tokens at once (fewer than this + 1: shorter drafts).
  int64_t speculate = 0;

  // At the context's end: keep the first slide_first tokens and the latest half of the rest, and go on.
  bool slide = false;
  int64_t slide_first = 4;

  std::function<void(std::string_view piece)> on_text;          // whole characters
  std::function<void(int64_t done, int64_t total)> on_prefill;  // tokens of the prompt
  std::function<bool()> keep_going;                             // asked before each chunk and token
};

struct GenerateStats {
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // of the prompt: the session knew them
  int64_t new_tokens = 0;
  double first_seconds = 0;   // until the first new token was known
  double decode_seconds = 0;  // for those after the first
  int64_t calls = 0;          // of the bundle after the prompt
  bool speculated = false;    // drafts were asked for
  int64_t drafted = 0, accepted = 0;
  int64_t replayed = 0;  // tokens computed once more, one by one, because a choice was close
  int64_t slides = 0;

  double prefill_speed() const;  // tokens a second; 0 when nothing was measured
  double decode_speed() const;
  double acceptance() const;  // of the drafted tokens, 0 to 1
};

// Logarithms of probabilities, as the model gave them.
struct TokenChance {
  int32_t id = 0;
  float log = 0;
  std::vector<std::pair<int32_t, float>> top;  // the likeliest, from the first on
};

struct Generation {
  std::string text;
  std::vector<int32_t> ids;  // new ones, an end token not included
  StopReason why = StopReason::length;
  std::string stop;                  // the stop string that was met
  std::optional<uint64_t> seed;      // of the sampling; nothing where the best token is taken always
  std::vector<TokenChance> chances;  // of ids, where they were asked for
  GenerateStats stats;
};

class Generator {
 public:
  // Without a tokenizer there are ids and no text. Error for options that contradict each other.
  Generator(std::shared_ptr<const Tokenizer> tokenizer, GenerateOptions options);

  // Afterwards the session has seen the prompt and the new tokens but the last. Error when the prompt is
  // longer than the context, or when the bundle cannot do what the options want.
  Generation run(Session& session, std::span<const int32_t> prompt) const;
  // The same with another seed than that of the options.
  Generation run(Session& session, std::span<const int32_t> prompt, uint64_t seed) const;

  const GenerateOptions& options() const { return options_; }

 private:
  void check(const Session& session, std::span<const int32_t> prompt) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  GenerateOptions options_;
};

}  // namespace anemone
