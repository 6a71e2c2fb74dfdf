#include "verify/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/session.h"

namespace anemone {
namespace {

constexpr int64_t kDefaultContext = 512;
constexpr int64_t kPiece = 64;  // tokens whose logits are held at once: a large vocabulary is a megabyte each

// Logits [tokens, vocab] of the next tokens of one window.
using Window = std::function<std::vector<float>(std::span<const int32_t> ids)>;
// Starts a window of so many tokens.
using Start = std::function<Window(int64_t tokens)>;

Perplexity checked(std::span<const int32_t> ids, const PerplexityOptions& options, int64_t most) {
  Perplexity p;
  p.tokens = static_cast<int64_t>(ids.size());
  p.context = options.context ? options.context : std::min(kDefaultContext, most);
  p.stride = options.stride ? options.stride : p.context;
  if (p.tokens < 2)
    throw errorf("the text is too short for a perplexity")
        .found(fmt::format("{} tokens", p.tokens))
        .expected("at least 2");
  if (p.context < 2 || p.context > most)
    throw errorf("a window of {} tokens does not fit", p.context).expected(fmt::format("2 to {}", most));
  if (p.stride < 1 || p.stride > p.context)
    throw errorf("the stride must be at least 1 and at most the window")
        .found(fmt::format("{}", p.stride))
        .expected(fmt::format("1 to {}", p.context));
  return p;
}

// Calls visit(begin, end, first): the tokens [first, end) of the window [begin, end) are scored.
void each_window(const Perplexity& p, const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  int64_t seen = 0;
  for (int64_t begin = 0; seen < p.tokens; begin += p.stride) {
    const int64_t end = std::min(begin + p.context, p.tokens);
    visit(begin, end, std::max(begin + 1, seen));
    seen = end;
  }
}

Perplexity measure(std::span<const int32_t> ids, const PerplexityOptions& options, int64_t most,
                   const Start& start) {
  Perplexity p = checked(ids, options, most);
  int64_t total = 0;
  each_window(p, [&](int64_t, int64_t end, int64_t first) { total += std::max<int64_t>(0, end - first); });
  double sum = 0, squares = 0;
  each_window(p, [&](int64_t begin, int64_t end, int64_t first) {
    if (first >= end) return;
    const Window window = start(end - begin);
    ++p.windows;
    // The last token is only predicted, not read.
    for (int64_t at = begin; at + 1 < end; at += kPiece) {
      const int64_t stop = std::min(at + kPiece, end - 1);
      const std::vector<float> logits =
          window(ids.subspan(static_cast<size_t>(at), static_cast<size_t>(stop - at)));
      const size_t vocab = logits.size() / static_cast<size_t>(stop - at);
      for (int64_t i = std::max(at, first - 1); i < stop; ++i) {
        const double nats =
            negative_log_likelihood(std::span(logits).subspan(static_cast<size_t>(i - at) * vocab, vocab),
                                    ids[static_cast<size_t>(i + 1)]);
        sum += nats;
        squares += nats * nats;
        ++p.scored;
      }
      if (p.scored && options.progress &&
          !options.progress(p.scored, total, sum / static_cast<double>(p.scored)))
        throw errorf("cancelled");
    }
  });
  const auto n = static_cast<double>(p.scored);
  p.nats = sum / n;
  if (p.scored > 1) p.error = std::sqrt(std::max(0.0, squares / n - p.nats * p.nats) / (n - 1));
  return p;
}

}  // namespace

double Perplexity::value() const { return std::exp(nats); }

double negative_log_likelihood(std::span<const float> logits, int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= logits.size())
    throw errorf("the token {} is not in the vocabulary", id)
        .expected(fmt::format("0 to {}", static_cast<int64_t>(logits.size()) - 1));
  double most = -INFINITY;
  for (const float v : logits) {
    if (!std::isfinite(v)) throw errorf("a logit is not finite").found(fmt::format("{}", v));
    most = std::max<double>(most, v);
  }
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - most);
  return std::log(sum) + most - static_cast<double>(logits[static_cast<size_t>(id)]);
}

Perplexity perplexity(std::shared_ptr<const Bundle> bundle, std::span<const int32_t> ids,
                      const PerplexityOptions& options) {
  expect_kind(bundle->info(), bundle->path(), {BundleKind::generate});
  if (bundle->info().argmax)
    throw errorf("the bundle gives only the best token, not logits: there is no perplexity to compute")
        .at(bundle->path().string())
        .hint("convert without --argmax-output");
  std::optional<NumericFault> fault;
  Perplexity p = measure(ids, options, bundle->tiers().back(), [&](int64_t tokens) -> Window {
    auto session = std::make_shared<Session>(bundle, SessionOptions{.positions = tokens});
    return [session, &fault](std::span<const int32_t> piece) {
      std::vector<float> logits = session->forward(piece);
      if (!fault) fault = session->fault();
      return logits;
    };
  });
  p.fault = fault;
  return p;
}

Perplexity perplexity(const Reference& reference, std::span<const int32_t> ids,
                      const PerplexityOptions& options) {
  expect_next_tokens(reference.model());
  const int64_t most = std::max<int64_t>(2, reference.model().context);
  return measure(ids, options, most, [&](int64_t tokens) -> Window {
    auto session = std::make_shared<ReferenceSession>(reference, ReferenceOptions{.positions = tokens});
    return [session](std::span<const int32_t> piece) { return session->step(piece); };
  });
}

}  // namespace anemone
