// Answer: an answer in the making. It picks tokens from logits, turns them into text and says when it is over; where
// the logits come from is not its business. Generator and the server both use it.
//     Answer answer(options, tokenizer, end_tokens(*bundle, tokenizer.get()), prompt, seed);
//     while (answer.take(session.forward_view(fed, true))) fed = {&answer.last(), 1};
//     Generation g = answer.finish();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "grammar/token_masks.h"
#include "runtime/generate.h"
#include "runtime/stop_text.h"

namespace anemone {

// The ids that end an answer: the bundle's and the tokenizer's (may be null).
std::vector<int32_t> end_tokens(const Bundle& bundle, const Tokenizer* tokenizer);

class Answer {
 public:
  // Options and tokenizer must outlive it; the tokenizer may be null.
  Answer(const GenerateOptions& options, const std::shared_ptr<const Tokenizer>& tokenizer,
         std::vector<int32_t> ends, std::span<const int32_t> prompt, uint64_t seed);

  // Picks a token and takes it into the answer; false when the answer is over.
  bool take(std::span<const float> logits) { return emit(pick(logits)); }
  int32_t pick(std::span<const float> logits);
  // The best token, for greedy choices that look ahead.
  Sampler::Best best(std::span<const float> logits) const {
    return sampler_.best(logits, ids_, out_.ids, grammar());
  }
  // Takes a token that was chosen elsewhere; false when that ends the answer.
  bool emit(int32_t token);
  // Ends it from outside; gives false.
  bool end(StopReason why);

  const std::vector<int32_t>& ids() const { return ids_; }  // prompt and answer
  const int32_t& last() const { return ids_.back(); }
  int64_t made() const { return static_cast<int64_t>(out_.ids.size()); }
  GenerateStats& stats() { return out_.stats; }
  const Generation& so_far() const { return out_; }
  // Gives out what was held back. Once.
  Generation finish();

 private:
  GrammarMatcher* grammar() const { return grammar_ ? &*grammar_ : nullptr; }
  void note_chances(std::span<const float> logits, int32_t chosen);
  void give(const std::string& text);

  const GenerateOptions& options_;
  Sampler sampler_;
  StopText stop_text_;
  std::optional<Tokenizer::Stream> stream_;
  mutable std::optional<GrammarMatcher> grammar_;
  std::vector<int32_t> ids_, ends_;
  std::optional<TokenChance> chance_;  // of the token that was picked and not taken yet
  Generation out_;
};

}  // namespace anemone
