// Perplexity: how well a model predicts a text. It shows what compression costs.
//     auto bundle = Bundle::open("bundle", {});
//     Perplexity p = perplexity(bundle, ids, {.context = 512, .stride = 256});
//     fmt::print("{:.3f}\n", p.value());                               // exp(p.nats)
// The text is cut into windows as transformers' page on fixed-length models does it: window k holds the
// tokens [k * stride, k * stride + context), cut at the end of the text, and is computed by itself, from an
// empty cache at position 0. A token is scored in the first window that holds it, unless it is the first
// token of that window: nothing stands before it. So with stride < context every token but the text's first
// is scored once, with at least context - stride tokens before it; with stride = context the first token of
// each window is left out. The windows end with the one that reaches the end of the text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reference/reference.h"
#include "runtime/bundle.h"

namespace anemone {

struct PerplexityOptions {
  int64_t context = 0;  // tokens of a window; 0: 512, or the bundle's capacity where that is less
  int64_t stride = 0;   // from one window to the next; 0: as long as a window
  // Called as tokens are scored, with the mean so far; false cancels (an Error).
  std::function<bool(int64_t done, int64_t total, double nats)> progress;
};

struct Perplexity {
  int64_t tokens = 0;   // of the text
  int64_t scored = 0;   // how many of them the mean is over
  int64_t windows = 0;  // how many were computed
  int64_t context = 0, stride = 0;
  double nats = 0;   // mean of -ln p(token), per scored token
  double error = 0;  // standard error of that mean
  // The first operation that left the range of fp16, in fp16 arithmetic.
  std::optional<NumericFault> fault;

  double value() const;  // exp(nats)
};

// Error when the text has fewer than two tokens, when the sizes make no sense, when a logit is not finite,
// and for a bundle that gives only the best token.
Perplexity perplexity(std::shared_ptr<const Bundle> bundle, std::span<const int32_t> ids,
                      const PerplexityOptions& options = {});
Perplexity perplexity(const Reference& reference, std::span<const int32_t> ids,
                      const PerplexityOptions& options = {});

// -ln p(id) where p is the softmax of the logits; Error when they are not finite.
double negative_log_likelihood(std::span<const float> logits, int32_t id);

}  // namespace anemone
