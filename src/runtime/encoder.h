// Encoder: texts through a bundle that sees each of them whole: hidden states, a vector for the text, classes.
//     Encoder encoder(bundle);
//     EncodedText e = encoder.encode({.ids = ids});                    // e.hidden, e.pooled, e.classes
//     encoder.each(texts, 4, [&](size_t i, EncodedText e) { … });      // four at a time
// A text goes to the shortest function that it fits; the rest of the function's columns is padding, which nothing sees.
// An Encoder keeps nothing of a text, only the memory of its calls: any number of threads may share one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/bundle.h"
#include "runtime/stage_calls.h"

namespace anemone {

struct EncoderText {
  std::span<const int32_t> ids;
  std::span<const int32_t> types = {};  // of the tokens; empty: all 0
  std::string place = {};               // where it was found, for messages
};

struct EncoderOptions {
  std::optional<Pooling> pooling;  // of `pooled`; empty: as the bundle says, the mean where it says nothing
  bool truncate = false;           // cut texts that are too long; else they are an Error
  size_t keep_last = 0;            // how many tokens at the end a cut leaves there, such as [SEP]
  bool classes_only = false;       // `hidden` and `pooled` stay empty
};

struct EncodedText {
  int64_t tokens = 0;         // that were computed
  int64_t cut = 0;            // that were left out
  int64_t width = 0;          // tokens of the function that took it
  std::vector<float> hidden;  // [tokens, hidden]
  std::vector<float> pooled;  // [hidden], not brought to length 1
  std::vector<float>
      classes;  // logits: [tokens, classes], or [classes] for the text; empty without such a head
  std::optional<NumericFault> fault;
};

class Encoder {
 public:
  // Error for a bundle that is neither of kind embed nor classify.
  explicit Encoder(std::shared_ptr<const Bundle> bundle, EncoderOptions options = {});

  const Bundle& bundle() const { return *bundle_; }
  // Most tokens of a text.
  int64_t longest() const { return bundle_->tiers().back(); }
  // Error for no tokens, for a token or type that the model does not have, and for too long a text.
  EncodedText encode(const EncoderText& text) const;
  // Every text, `workers` of them at a time; `take` is called once for each, one call at a time, in any order. `go_on`
  // is asked before every text, from any thread: after a no, no text begins, and Cancelled is thrown when those under
  // way have ended. So it is with what a text or `take` throws.
  void each(std::span<const EncoderText> texts, int workers,
            const std::function<void(size_t index, EncodedText encoded)>& take,
            const std::function<bool()>& go_on = {}) const;

 private:
  // Lends each text the calls of one that is done. No more are kept than are good to have under way at once: a moment
  // of many texts leaves no memory behind.
  class CallsPool {
   public:
    explicit CallsPool(int most) : most_(static_cast<size_t>(most)) {}
    std::unique_ptr<StageCalls> take();
    void give(std::unique_ptr<StageCalls> calls);

   private:
    const size_t most_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<StageCalls>> free_;
  };

  EncodedText encode_here(const EncoderText& text) const;
  EncodedText encode_with(const EncoderText& text, StageCalls& calls) const;
  const StageFunction& function_for(int64_t tokens) const;
  std::vector<int32_t> fitting(std::span<const int32_t> values) const;

  std::shared_ptr<const Bundle> bundle_;
  EncoderOptions options_;
  std::shared_ptr<CallsPool> calls_;  // of calls into the bundle: goes before it
};

// Brings a vector to length 1.
void normalize(std::span<float> vector);

}  // namespace anemone
