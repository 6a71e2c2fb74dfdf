#include "runtime/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "runtime/answer.h"
#include "runtime/ngram.h"

namespace anemone {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One answer on one session: prefill, drafts, sliding.
class Loop {
 public:
  Loop(const GenerateOptions& options, const std::shared_ptr<const Tokenizer>& tokenizer, Session& session,
       std::span<const int32_t> prompt, uint64_t seed)
      : options_(options),
        session_(session),
        answer_(options, tokenizer, end_tokens(*session.bundle(), tokenizer.get()), prompt, seed),
        close_call_(session.bundle()->backend().close_call()),
        in_turn_(session.goes_in_turn()) {}

  ~Loop() { session_.watch(nullptr); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Generation run() {
    const auto start = Clock::now();
    try {
      int32_t next = prefill();
      stats().first_seconds = seconds_since(start);
      timed_ = Clock::now();
      while (answer_.emit(next) && step(next)) {
      }
    } catch (const Cancelled&) {
      answer_.end(StopReason::cancelled);
    }
    if (timed_) stats().decode_seconds = seconds_since(*timed_);
    return answer_.finish();
  }

 private:
  int32_t prefill() {
    const std::span<const int32_t> prompt(answer_.ids());
    const auto total = static_cast<int64_t>(prompt.size());
    // The last token is always fed: its logits are what the answer starts from.
    const int64_t known = std::min(session_.common_prefix(prompt), total - 1);
    const auto go_on = [&](int64_t, int64_t) { return !options_.keep_going || options_.keep_going(); };
    session_.watch(go_on);
    session_.rewind(known);  // recurrent layers may compute some tokens again
    stats().prompt_tokens = total;
    stats().speculated = options_.speculate > 0;
    stats().reused_tokens = known;
    session_.watch([&](int64_t done, int64_t) {
      if (options_.on_prefill) options_.on_prefill(known + done, total);
      return !options_.keep_going || options_.keep_going();
    });
    const int32_t next = pick(prompt.subspan(static_cast<size_t>(known)));
    session_.watch(go_on);
    if (options_.on_prefill) options_.on_prefill(total, total);
    all_exact();
    return next;
  }

  // Feeds tokens as decoding without speculation does; the one that comes after them.
  int32_t pick(std::span<const int32_t> fresh) {
    if (session_.bundle()->info().argmax) return static_cast<int32_t>(session_.forward_best(fresh));
    return answer_.pick(session_.forward_view(fresh, true));
  }

  // Feeds the token, and with it a draft where there is one; `token` is then the one to take next.
  bool step(int32_t& token) {
    if (session_.position() == session_.capacity()) {
      if (!options_.slide) return answer_.end(StopReason::context);
      const int64_t first = std::min(options_.slide_first, session_.capacity() / 2);
      session_.slide(first, (session_.capacity() - first) / 2);
      all_exact();
      ++stats().slides;
    }
    ++stats().calls;
    if (options_.speculate <= 0) {
      token = pick(std::span(&token, 1));
      return true;
    }
    const int64_t room = session_.capacity() - session_.position() - 1,
                  left = options_.max_new - answer_.made() - 1;
    const Bundle& bundle = *session_.bundle();
    const int64_t most = in_turn_ ? bundle.backend().most_in_turn() : bundle.most_tokens();
    const std::vector<int32_t> draft =
        ngram_draft(answer_.ids(), std::min({options_.speculate, most - 1, room, left}));
    return check_draft(token, draft);
  }

  // One call for the token and the draft. The draft is taken as far as it says what greedy would have said.
  bool check_draft(int32_t& token, const std::vector<int32_t>& draft) {
    const int64_t base = session_.position();
    std::vector<int32_t> fed = {token};
    fed.insert(fed.end(), draft.begin(), draft.end());
    // Its own: a replay makes others.
    const std::vector<float> logits = in_turn_ ? session_.forward_in_turn(fed) : session_.forward(fed);
    if ((draft.empty() || in_turn_) && exact_ == base) all_exact();
    stats().drafted += static_cast<int64_t>(draft.size());
    const auto vocab = static_cast<size_t>(session_.bundle()->info().vocab);
    for (size_t i = 0; i < fed.size(); ++i) {
      const int64_t after = base + static_cast<int64_t>(i) + 1;
      Sampler::Best best = answer_.best(std::span(logits).subspan(i * vocab, vocab));
      const bool close = exact_ < after && best.margin <= close_call_ * best.scale;
      if (close) best = replay(after);
      const bool as_drafted = i < draft.size() && best.id == draft[i];
      if (as_drafted) ++stats().accepted;
      if (as_drafted && !close) {
        if (answer_.emit(draft[i])) continue;
        go_back(after);
        return false;
      }
      token = best.id;
      if (!close) go_back(after);
      return true;
    }
    return true;
  }

  void go_back(int64_t position) {
    session_.rewind(position);
    exact_ = std::min(exact_, position);
  }

  // Everything so far was computed as without speculation. Pinned, because going back to here must not compute rows
  // before it again, in calls of several tokens.
  void all_exact() {
    exact_ = session_.position();
    session_.pin();
  }

  // The cache holds rows from calls of several tokens, and the choice is close: computes those rows again one by
  // one, as decoding without speculation does. No row is computed twice this way, so it costs at most what
  // that would have cost.
  Sampler::Best replay(int64_t end) {
    const std::vector<int32_t> tokens(session_.ids().begin() + exact_, session_.ids().begin() + end);
    session_.rewind(exact_);
    std::span<const float> logits;
    for (const int32_t id : tokens) logits = session_.forward_view(std::span(&id, 1), true);
    all_exact();
    stats().replayed += static_cast<int64_t>(tokens.size());
    return answer_.best(logits);
  }

  GenerateStats& stats() { return answer_.stats(); }

  const GenerateOptions& options_;
  Session& session_;
  Answer answer_;
  double close_call_;
  bool in_turn_;       // drafts are computed token by token in one pass: all rows are exact
  int64_t exact_ = 0;  // leading rows of the cache that were computed as without speculation
  std::optional<Clock::time_point> timed_;
};

}  // namespace

std::string_view stop_reason_text(StopReason why) {
  switch (why) {
    case StopReason::length: return "length";
    case StopReason::end_of_text: return "end of text";
    case StopReason::stop_text: return "stop text";
    case StopReason::repetition: return "repetition";
    case StopReason::context: return "context full";
    case StopReason::cancelled: return "cancelled";
  }
  return "";
}

double GenerateStats::prefill_speed() const {
  return first_seconds > 0 ? static_cast<double>(prompt_tokens - reused_tokens) / first_seconds : 0;
}
double GenerateStats::decode_speed() const {
  return new_tokens > 1 && decode_seconds > 0 ? static_cast<double>(new_tokens - 1) / decode_seconds : 0;
}
double GenerateStats::acceptance() const {
  return drafted > 0 ? static_cast<double>(accepted) / static_cast<double>(drafted) : 0;
}

Generator::Generator(std::shared_ptr<const Tokenizer> tokenizer, GenerateOptions options)
    : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  options_.sampling.check();
  if (options_.max_new < 0) throw errorf("the number of new tokens is below zero");
  if (options_.stop_ngram < 0 || options_.speculate < 0 || options_.slide_first < 0)
    throw errorf("a number of tokens is below zero");
  if (!tokenizer_ && !options_.stops.empty()) throw errorf("stop strings need a tokenizer");
  if (options_.speculate > 0 && !options_.sampling.greedy())
    throw errorf("speculation is for greedy decoding: its promise is the same tokens")
        .found(fmt::format("temperature {}", options_.sampling.temperature))
        .hint("leave out --speculate or --temperature");
  if (options_.speculate > 0 && (options_.grammar || options_.chances >= 0))
    throw errorf("speculation goes neither with a grammar nor with probabilities")
        .hint("leave out --speculate");
}

void Generator::check(const Session& session, std::span<const int32_t> prompt) const {
  const Bundle& bundle = *session.bundle();
  const std::string where = bundle.path().string();
  if (prompt.empty()) throw errorf("the prompt has no tokens");
  if (static_cast<int64_t>(prompt.size()) > session.capacity())
    throw errorf("the prompt has {} tokens, and the context holds {}", prompt.size(), session.capacity())
        .at(where)
        .hint("convert with a larger --context");
  if (bundle.info().argmax) {
    const SamplerOptions& s = options_.sampling;
    if (!s.greedy() || s.changes_logits() || options_.grammar || options_.chances >= 0)
      throw errorf(
          "the bundle gives only the best token, so nothing can be sampled, penalised or held to a grammar")
          .at(where)
          .hint("convert without --argmax-output");
    if (options_.speculate > 0)
      throw errorf(
          "the bundle gives only the best token, so speculation could not tell a close choice from a "
          "clear one")
          .at(where)
          .hint("convert without --argmax-output");
  }
  if (options_.speculate > 0 && bundle.most_tokens() < 2 && !session.goes_in_turn())
    throw errorf("speculation needs a bundle that takes several tokens at once")
        .at(where)
        .found("1 token a call")
        .hint("convert with --tokens 1-4 or --tokens 1,4");
}

Generation Generator::run(Session& session, std::span<const int32_t> prompt) const {
  return run(session, prompt, options_.sampling.seed);
}

Generation Generator::run(Session& session, std::span<const int32_t> prompt, uint64_t seed) const {
  check(session, prompt);
  return Loop(options_, tokenizer_, session, prompt, seed).run();
}

}  // namespace anemone
