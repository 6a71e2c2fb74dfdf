// Answers side by side: each as if it were alone, whatever the others do.
#include "serve/scheduler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "base/error.h"
#include "runtime/demo.h"
#include "runtime/prompt.h"

using namespace anemone;
using namespace anemone::test;
using namespace anemone::serve;

namespace {

struct DemoText {
  std::shared_ptr<const Bundle> bundle =
      demo_bundle({.context = {256}, .tokens = {{1, 1}, {16, 16}}}, {.threads = 1});
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(*bundle);

  std::vector<int32_t> ids(const std::string& text) const { return PromptFormat(tokenizer).plain(text); }
  std::string alone(const std::string& prompt, const GenerateOptions& options, uint64_t seed) const {
    Session session(bundle);
    return Generator(tokenizer, options).run(session, ids(prompt), seed).text;
  }
};

// Keeps what it hears; hangs up after so many tokens.
class Listener : public AnswerSink {
 public:
  explicit Listener(int64_t patience = 1 << 20) : patience_(patience) {}

  bool wanted() const override { return heard_ < patience_; }
  void token(const Generation&, std::string_view fresh) override {
    ++heard_;
    streamed += fresh;
  }
  void done(Generation g, std::string_view fresh) override {
    streamed += fresh;
    answer_.set_value(std::move(g));
  }
  void failed(const std::exception& problem) override {
    answer_.set_exception(std::make_exception_ptr(errorf("{}", problem.what())));
  }
  Generation wait() { return answer_.get_future().get(); }

  std::string streamed;

 private:
  int64_t patience_;
  std::atomic<int64_t> heard_ = 0;
  std::promise<Generation> answer_;
};

const std::vector<std::string> kPrompts = {"One morning Mara went to the tide pool with",
                                           "Once upon a time",
                                           "The crab said",
                                           "One morning Mara went to the tide pool and saw a small crab that",
                                           "It was a cold day",
                                           "The little fish",
                                           "In the water there was a",
                                           "Mara looked at the sea"};

}  // namespace

TEST_CASE("eight answers on three slots are those of each alone, greedy and sampled") {
  const DemoText demo;
  Scheduler scheduler(demo.bundle, demo.tokenizer, {.slots = 3, .queue = 64});
  for (const double temperature : {0.0, 0.9}) {
    GenerateOptions options{.max_new = 24};
    options.sampling.temperature = temperature;
    std::vector<std::shared_ptr<Listener>> heard;
    for (size_t i = 0; i < kPrompts.size(); ++i) {
      heard.push_back(std::make_shared<Listener>());
      // Between them one that hangs up after three tokens.
      REQUIRE(scheduler.submit(
          {{.prompt = demo.ids(kPrompts[i]), .options = options, .seed = i, .sink = heard[i]},
           {.prompt = demo.ids("Gone"),
            .options = options,
            .seed = 1,
            .sink = std::make_shared<Listener>(3)}}));
    }
    for (size_t i = 0; i < kPrompts.size(); ++i) {
      CAPTURE(kPrompts[i]);
      const Generation g = heard[i]->wait();
      CHECK(g.text == demo.alone(kPrompts[i], options, i));
      CHECK(heard[i]->streamed == g.text);
      CHECK(g.stats.new_tokens == static_cast<int64_t>(g.ids.size()));
    }
  }
}

TEST_CASE("a prompt goes on from what an earlier one left, and a conversation from its own") {
  const DemoText demo;
  Scheduler scheduler(demo.bundle, demo.tokenizer, {.slots = 2});
  const GenerateOptions options{.max_new = 8};
  const auto ask = [&](const std::string& prompt, bool reuse = true) {
    auto heard = std::make_shared<Listener>();
    REQUIRE(
        scheduler.submit({{.prompt = demo.ids(prompt), .options = options, .reuse = reuse, .sink = heard}}));
    return heard->wait();
  };
  std::string story;
  for (int i = 0; i < 6; ++i) story += "Mara went to the sea. ";
  const Generation first = ask(story);
  CHECK(first.stats.reused_tokens == 0);
  const Generation again = ask(story);
  CHECK(again.stats.reused_tokens == again.stats.prompt_tokens - 1);
  CHECK(again.text == first.text);
  const Generation on = ask(story + first.text + " Then");
  CHECK(on.stats.reused_tokens >= first.stats.prompt_tokens - 2);
  const Generation other = ask(story + "But");  // shares the start of what is kept
  CHECK(other.stats.reused_tokens > 16);
  CHECK(other.text == demo.alone(story + "But", options, 1));
  CHECK(ask(story, false).stats.reused_tokens == 0);
  const SchedulerCounts counts = scheduler.counts();
  CHECK(counts.cached_sessions >= 2);
  CHECK(counts.cache_bytes > 0);
}

TEST_CASE("a seed gives the same answer whether the prompt is known or not, also in fast arithmetic") {
  const auto bundle = demo_bundle({.context = {256}, .tokens = {{1, 1}, {16, 16}}},
                                  {.arithmetic = Arithmetic::fast, .threads = 1});
  const auto tokenizer = load_tokenizer(*bundle);
  Scheduler scheduler(bundle, tokenizer, {.slots = 2});
  GenerateOptions options{.max_new = 8, .ignore_eos = true};
  options.sampling.temperature = 1.2;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    std::vector<std::string> texts;
    std::vector<int64_t> known;
    for (const bool reuse : {false, true}) {
      const auto heard = std::make_shared<Listener>();
      REQUIRE(scheduler.submit({{.prompt = PromptFormat(tokenizer).plain(kPrompts[3]),
                                 .options = options,
                                 .seed = seed,
                                 .reuse = reuse,
                                 .sink = heard}}));
      const Generation g = heard->wait();
      texts.push_back(g.text);
      known.push_back(g.stats.prompt_tokens - g.stats.reused_tokens);
    }
    CAPTURE(seed);
    CHECK(texts[0] == texts[1]);
    CHECK(known[0] > 8);
    CHECK(known[1] == 1);
  }
}

TEST_CASE("more than the queue takes is refused, and what waits hears when the server stops") {
  const DemoText demo;
  std::vector<std::shared_ptr<Listener>> heard;
  {
    Scheduler scheduler(demo.bundle, demo.tokenizer, {.slots = 1, .queue = 2});
    bool refused = false;
    for (int i = 0; i < 12; ++i) {
      auto one = std::make_shared<Listener>();
      const bool taken = scheduler.submit(
          {{.prompt = demo.ids("Once"), .options = {.max_new = 200, .ignore_eos = true}, .sink = one}});
      if (taken) heard.push_back(one);
      refused |= !taken;
    }
    CHECK(refused);
    CHECK(heard.size() >= 3);
  }
  for (const auto& one : heard) {
    try {
      const Generation g = one->wait();
      CHECK((g.why == StopReason::cancelled || g.why == StopReason::length));
    } catch (const Error& e) {
      CHECK(std::string(e.what()).find("stops") != std::string::npos);
    }
  }
}

TEST_CASE(
    "a client that hangs up frees its slot before the next token, and before the next piece of its prompt") {
  const DemoText demo;
  Scheduler scheduler(demo.bundle, demo.tokenizer, {.slots = 1});
  const GenerateOptions options{.max_new = 200, .ignore_eos = true};
  const auto talker = std::make_shared<Listener>(3);
  REQUIRE(scheduler.submit({{.prompt = demo.ids("Once"), .options = options, .sink = talker}}));
  const Generation g = talker->wait();
  CHECK(g.why == StopReason::cancelled);
  CHECK(g.ids.size() == 3);

  // Gone after the first of fifteen pieces.
  struct Reader : Listener {
    bool wanted() const override { return pieces < 1; }
    void prompt_progress(int64_t done, int64_t, int64_t reused) override { pieces += done > reused; }
    std::atomic<int> pieces = 0;
  };
  const auto reader = std::make_shared<Reader>();
  const uint64_t before = scheduler.counts().prompt_tokens;
  REQUIRE(scheduler.submit({{.prompt = std::vector<int32_t>(241, 7), .options = options, .sink = reader}}));
  CHECK(reader->wait().ids.empty());
  CHECK(scheduler.counts().prompt_tokens - before == 16);
  CHECK(scheduler.counts().cancelled == 2);
}

TEST_CASE("an answer ends when its time is over, with what it has") {
  const DemoText demo;
  Scheduler scheduler(demo.bundle, demo.tokenizer, {.slots = 1, .answer_seconds = 0.1});
  struct Slow : Listener {
    void token(const Generation& g, std::string_view fresh) override {
      Listener::token(g, fresh);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  const auto slow = std::make_shared<Slow>();
  REQUIRE(scheduler.submit(
      {{.prompt = demo.ids("Once"), .options = {.max_new = 200, .ignore_eos = true}, .sink = slow}}));
  const Generation g = slow->wait();
  CHECK(g.why == StopReason::length);
  CHECK(!g.ids.empty());
  CHECK(g.ids.size() < 30);
  CHECK(slow->streamed == g.text);
}

TEST_CASE(
    "between two tokens of an answer at most one piece of others' prompts is read, and these take turns") {
  const DemoText demo;
  Scheduler scheduler(demo.bundle, demo.tokenizer, {.slots = 3});
  // All sinks hear from one thread: what they note is in order.
  static std::string events;
  events.clear();
  struct Noter : Listener {
    explicit Noter(char sign) : sign_(sign) {}
    void prompt_progress(int64_t done, int64_t, int64_t reused) override {
      if (done > reused) events += sign_;
    }
    void token(const Generation& g, std::string_view fresh) override {
      Listener::token(g, fresh);
      if (sign_ == 't') events += 't';
    }
    char sign_;
  };
  const auto talker = std::make_shared<Noter>('t'), one = std::make_shared<Noter>('1'),
             two = std::make_shared<Noter>('2');
  const GenerateOptions brief{.max_new = 1};
  REQUIRE(scheduler.submit(
      {{.prompt = demo.ids("Once"), .options = {.max_new = 60, .ignore_eos = true}, .sink = talker},
       {.prompt = std::vector<int32_t>(161, 7), .options = brief, .sink = one},
       {.prompt = std::vector<int32_t>(161, 9), .options = brief, .sink = two}}));
  talker->wait();
  one->wait();
  two->wait();
  CAPTURE(events);
  // Ten pieces of 16, and the last token beside those of the answer.
  CHECK(std::count(events.begin(), events.end(), '1') == 11);
  CHECK(std::count(events.begin(), events.end(), '2') == 11);
  const std::string rest = events.substr(events.find('1'));
  for (size_t i = 0; i < 36; i += 4) CHECK(rest.substr(i, 4) == "1t2t");
}

TEST_CASE("the cache of prompts stays within its memory") {
  const DemoText demo;
  Session probe(demo.bundle);
  probe.forward(demo.ids("Once"), true);
  const uint64_t one = probe.memory().cache;
  PrefixCache cache(2 * one + one / 2);
  for (const std::string& prompt : kPrompts) {
    auto session = std::make_unique<Session>(demo.bundle);
    session->forward(demo.ids(prompt), true);
    cache.keep(std::move(session), 0);
    CHECK(cache.bytes() <= 2 * one + one / 2);
  }
  CHECK(cache.sessions() == 2);
  CHECK(cache.take(demo.ids(kPrompts.front()), {}, 0) == nullptr);  // the oldest went first
  const auto found = cache.take(demo.ids(kPrompts.back() + " again"), {}, 0);
  REQUIRE(found);
  CHECK(found->position() >= 3);
  CHECK(cache.take(demo.ids(kPrompts[6] + " again"), {}, 1) == nullptr);  // another key
}
