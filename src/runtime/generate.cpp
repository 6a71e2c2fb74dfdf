#include "runtime/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "runtime/ngram.h"
#include "runtime/stop_text.h"

namespace anemone {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One answer in the making.
class Loop {
 public:
  Loop(const GenerateOptions& options, const std::shared_ptr<const Tokenizer>& tokenizer, Session& session,
       std::span<const int32_t> prompt)
      : options_(options),
        session_(session),
        sampler_(options.sampling),
        stop_text_(options.stops),
        ids_(prompt.begin(), prompt.end()),
        close_call_(session.bundle()->backend().close_call()) {
    if (tokenizer) stream_.emplace(tokenizer, true);
    const auto& own = session.bundle()->info().eos;
    ends_.assign(own.begin(), own.end());
    if (tokenizer)
      ends_.insert(ends_.end(), tokenizer->end_of_generation().begin(), tokenizer->end_of_generation().end());
    if (options.ignore_eos) ends_.clear();
  }

  ~Loop() { session_.watch(nullptr); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  Generation run() {
    const auto start = Clock::now();
    try {
      int32_t next = prefill();
      out_.stats.first_seconds = seconds_since(start);
      timed_ = Clock::now();
      while (emit(next) && step(next)) {
      }
    } catch (const Cancelled&) {
      out_.why = StopReason::cancelled;
    }
    if (timed_) out_.stats.decode_seconds = seconds_since(*timed_);
    finish();
    return std::move(out_);
  }

 private:
  int32_t prefill() {
    const std::span<const int32_t> prompt(ids_);
    const auto total = static_cast<int64_t>(prompt.size());
    // The last token is always fed: its logits are what the answer starts from.
    const int64_t known = std::min(session_.common_prefix(prompt), total - 1);
    session_.rewind(known);
    out_.stats.prompt_tokens = total;
    out_.stats.speculated = options_.speculate > 0;
    out_.stats.reused_tokens = known;
    session_.watch([&](int64_t done, int64_t) {
      if (options_.on_prefill) options_.on_prefill(known + done, total);
      return !options_.keep_going || options_.keep_going();
    });
    const int32_t next = pick(prompt.subspan(static_cast<size_t>(known)));
    session_.watch([&](int64_t, int64_t) { return !options_.keep_going || options_.keep_going(); });
    if (options_.on_prefill) options_.on_prefill(total, total);
    all_exact();
    return next;
  }

  // Feeds tokens as decoding without speculation does; the one that comes after them.
  int32_t pick(std::span<const int32_t> fresh) {
    if (session_.bundle()->info().argmax) return static_cast<int32_t>(session_.forward_best(fresh));
    return sampler_.pick(session_.forward_view(fresh, true), ids_);
  }

  // Takes a token into the answer; false when that ends it.
  bool emit(int32_t token) {
    if (std::find(ends_.begin(), ends_.end(), token) != ends_.end()) return ends(StopReason::end_of_text);
    if (options_.max_new <= 0) return ends(StopReason::length);
    ids_.push_back(token);
    out_.ids.push_back(token);
    if (stream_) give(stop_text_.feed(stream_->feed(token)));
    if (stop_text_.found()) return ends(StopReason::stop_text);
    if (ends_in_repeat(out_.ids, options_.stop_ngram)) return ends(StopReason::repetition);
    if (made() >= options_.max_new) return ends(StopReason::length);
    if (options_.keep_going && !options_.keep_going()) return ends(StopReason::cancelled);
    return true;
  }

  // Feeds the token, and with it a draft where there is one; `token` is then the one to take next.
  bool step(int32_t& token) {
    if (session_.position() == session_.capacity()) {
      if (!options_.slide) return ends(StopReason::context);
      const int64_t first = std::min(options_.slide_first, session_.capacity() / 2);
      session_.slide(first, (session_.capacity() - first) / 2);
      all_exact();
      ++out_.stats.slides;
    }
    ++out_.stats.calls;
    if (options_.speculate <= 0) {
      token = pick(std::span(&token, 1));
      return true;
    }
    const int64_t room = session_.capacity() - session_.position() - 1, left = options_.max_new - made() - 1;
    const std::vector<int32_t> draft =
        ngram_draft(ids_, std::min({options_.speculate, session_.bundle()->most_tokens() - 1, room, left}));
    return check_draft(token, draft);
  }

  // One call for the token and the draft. The draft is taken as far as it says what greedy would have said.
  bool check_draft(int32_t& token, const std::vector<int32_t>& draft) {
    const int64_t base = session_.position();
    std::vector<int32_t> fed = {token};
    fed.insert(fed.end(), draft.begin(), draft.end());
    const std::vector<float> logits = session_.forward(fed);  // its own: a replay makes others
    if (draft.empty() && exact_ == base) all_exact();
    out_.stats.drafted += static_cast<int64_t>(draft.size());
    const auto vocab = static_cast<size_t>(session_.bundle()->info().vocab);
    for (size_t i = 0; i < fed.size(); ++i) {
      const int64_t after = base + static_cast<int64_t>(i) + 1;
      Sampler::Best best = sampler_.best(std::span(logits).subspan(i * vocab, vocab), ids_);
      const bool close = exact_ < after && best.margin <= close_call_ * best.scale;
      if (close) best = replay(after);
      const bool as_drafted = i < draft.size() && best.id == draft[i];
      if (as_drafted) ++out_.stats.accepted;
      if (as_drafted && !close) {
        if (emit(draft[i])) continue;
        session_.rewind(after);
        return false;
      }
      token = best.id;
      if (!close) session_.rewind(after);
      return true;
    }
    return true;
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
    out_.stats.replayed += static_cast<int64_t>(tokens.size());
    return sampler_.best(logits, ids_);
  }

  int64_t made() const { return static_cast<int64_t>(out_.ids.size()); }

  bool ends(StopReason why) {
    out_.why = why;
    return false;
  }

  void give(const std::string& text) {
    if (text.empty()) return;
    out_.text += text;
    if (options_.on_text) options_.on_text(text);
  }

  void finish() {
    if (stream_) give(stop_text_.feed(stream_->finish()));
    give(stop_text_.finish());
    if (stop_text_.found()) {
      out_.why = StopReason::stop_text;
      out_.stop = *stop_text_.found();
    }
    out_.stats.new_tokens = made();
  }

  const GenerateOptions& options_;
  Session& session_;
  Sampler sampler_;
  StopText stop_text_;
  std::optional<Tokenizer::Stream> stream_;
  std::vector<int32_t> ids_;  // prompt and answer
  std::vector<int64_t> ends_;
  double close_call_;
  int64_t exact_ = 0;  // leading rows of the cache that were computed as without speculation
  std::optional<Clock::time_point> timed_;
  Generation out_;
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
    if (!s.greedy() || s.repetition_penalty != 1)
      throw errorf("the bundle gives only the best token, so nothing can be sampled or penalised")
          .at(where)
          .hint("convert without --argmax-output");
    if (options_.speculate > 0)
      throw errorf(
          "the bundle gives only the best token, so speculation could not tell a close choice from a "
          "clear one")
          .at(where)
          .hint("convert without --argmax-output");
  }
  if (options_.speculate > 0 && bundle.most_tokens() < 2)
    throw errorf("speculation needs a bundle that takes several tokens at once")
        .at(where)
        .found("1 token a call")
        .hint("convert with --tokens 1-4 or --tokens 1,4");
}

Generation Generator::run(Session& session, std::span<const int32_t> prompt) const {
  check(session, prompt);
  return Loop(options_, tokenizer_, session, prompt).run();
}

}  // namespace anemone
