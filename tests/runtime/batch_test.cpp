// Sessions that take their turns side by side: each says what it says alone, bit for bit.
#include "runtime/batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "runtime/demo.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;
using lower::KvKind;
using lower::KvWrite;

namespace {

using Ids = std::vector<int32_t>;

struct Form {
  std::string name;
  ConvertOptions options;
};

std::vector<Form> forms() {
  return {{"states", {.context = {64}, .tokens = {{1, 1}, {8, 8}}}},
          {"packed", {.context = {64}, .kv = KvKind::packed}},
          {"io", {.context = {64}, .kv = KvKind::io}},
          {"slice", {.context = {64}, .kv_write = {KvWrite::slice}}},
          {"tiers", {.context = {8, 16, 64}, .tokens = {{1, 1}, {4, 4}}}},
          {"chunks alone", {.context = {64}, .tokens = {{4, 4}}}},
          {"a range", {.context = {64}, .tokens = {{1, 4}}, .shard_bytes = 1'000'000}}};
}

// One text: its own session for comparison, and one that takes part in batches.
struct Text {
  Session alone, shared;
  Ids next;  // what comes, a turn
  std::vector<float> expected;
};

Ids some_ids(std::mt19937& random, int64_t vocab, size_t count) {
  Ids out(count);
  for (int32_t& id : out) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
  return out;
}

bool same(std::span<const float> a, std::span<const float> b) { return std::ranges::equal(a, b); }

// Random steps of random sets of sessions, which join, fork and leave on the way.
void check_steps(const std::shared_ptr<const Bundle>& bundle, uint32_t seed, size_t longest_turn) {
  std::mt19937 random(seed);
  const int64_t vocab = bundle->info().vocab;
  std::deque<Text> texts;
  for (int step = 0; step < 24; ++step) {
    if (texts.size() < 9) {  // one joins, with a prompt of its own
      Text text{Session(bundle), Session(bundle), {}, {}};
      if (!texts.empty() && step % 4 == 3)
        text = {texts.front().alone.fork(), texts.front().shared.fork(), {}, {}};
      const Ids prompt = some_ids(random, vocab, 1 + random() % 11);
      CHECK(same(text.alone.forward(prompt, true), text.shared.forward(prompt, true)));
      texts.push_back(std::move(text));
    }
    if (step % 7 == 6) texts.erase(texts.begin() + 1);
    std::vector<Batch::Turn> turns;
    for (Text& text : texts) {
      if (random() % 8 == 0) continue;  // waits
      const size_t most = std::min<size_t>(
          longest_turn, static_cast<size_t>(text.shared.capacity() - text.shared.position()));
      if (most == 0) continue;
      text.next = some_ids(random, vocab, random() % 4 ? 1 : 1 + random() % most);
      text.expected = text.alone.forward(text.next, true);
      turns.push_back({&text.shared, text.next, {}, -1});
    }
    if (step % 2) {
      Batch::forward(turns);
    } else {
      Batch::forward_best(turns);
    }
    size_t n = 0;
    for (const Text& text : texts) {
      if (n == turns.size() || turns[n].session != &text.shared) continue;
      const auto best = std::max_element(text.expected.begin(), text.expected.end()) - text.expected.begin();
      if (step % 2) {
        CHECK(same(turns[n].logits, text.expected));
      } else {
        CHECK(turns[n].best == best);
      }
      CHECK(text.shared.position() == text.alone.position());
      CHECK(text.shared.ids() == text.alone.ids());
      ++n;
    }
  }
}

}  // namespace

TEST_CASE("batch: every form of the past, sessions that join, fork and leave, threads") {
  uint32_t seed = 1;
  for (const Form& form : forms())
    for (const int threads : {1, 2}) {
      CAPTURE(form.name);
      CAPTURE(threads);
      check_steps(demo_bundle(form.options, {.threads = threads}), seed++, 6);
    }
}

TEST_CASE("batch: fast arithmetic rounds the activations of each session as if it were alone") {
  const ConvertOptions options{.context = {8, 64}, .tokens = {{1, 1}, {8, 8}}};
  for (const int threads : {1, 2})
    check_steps(demo_bundle(options, {.arithmetic = Arithmetic::fast, .threads = threads}), 4, 6);
}

TEST_CASE("batch: fp16 arithmetic rounds each session as if it were alone") {
  const ConvertOptions options{.context = {64}, .tokens = {{1, 1}, {8, 8}}};
  check_steps(demo_bundle(options, {.arithmetic = Arithmetic::fp16, .threads = 2}), 3, 6);
}

TEST_CASE("batch: fast arithmetic, also with more sessions than its kernels take at once") {
  const ConvertOptions options{.context = {64}, .tokens = {{1, 1}, {8, 8}}};
  check_steps(demo_bundle(options, {.arithmetic = Arithmetic::fast, .threads = 2}), 5, 6);
}

TEST_CASE("batch: layers that remember more than rows of a cache") {
  MadeModel made(small_decoder(4, 2));
  for (const ConvertOptions& options :
       {ConvertOptions{.context = {96}, .tokens = {{1, 1}, {4, 4}}},
        ConvertOptions{.context = {8, 24, 96}, .tokens = {{1, 1}, {4, 4}}},
        ConvertOptions{.context = {96}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::io}})
    check_steps(made.bundle(options), 11, 5);
}

TEST_CASE("batch: a rewound session goes on with the others") {
  const auto bundle = demo_bundle({.context = {64}, .tokens = {{1, 1}, {8, 8}}});
  const Ids prompt = {1, 5, 9, 2, 7};
  Session a(bundle), b(bundle), alone(bundle);
  a.forward(prompt, true);
  b.forward(prompt, true);
  std::vector<Batch::Turn> turns = {{&a, std::span(prompt).first(1), {}, -1},
                                    {&b, std::span(prompt).last(1), {}, -1}};
  Batch::forward(turns);
  a.rewind(prompt.size());
  Batch::forward(turns);
  alone.forward(prompt, true);
  CHECK(same(turns[0].logits, alone.forward(std::span(prompt).first(1), true)));
  CHECK(a.position() == 6);
  CHECK(b.position() == 7);
}

TEST_CASE("batch: bundles that give the best token alone") {
  const auto bundle = demo_bundle({.context = {32}, .argmax = true});
  Session a(bundle), b(bundle), alone_a(bundle), alone_b(bundle);
  Ids next_a = {4}, next_b = {9, 3, 2};
  for (int step = 0; step < 6; ++step) {
    std::vector<Batch::Turn> turns = {{&a, next_a, {}, -1}, {&b, next_b, {}, -1}};
    Batch::forward_best(turns);
    CHECK(turns[0].best == alone_a.forward_best(next_a));
    CHECK(turns[1].best == alone_b.forward_best(next_b));
    next_a = {static_cast<int32_t>(turns[0].best)};
    next_b = {static_cast<int32_t>(turns[1].best)};
  }
  std::vector<Batch::Turn> turns = {{&a, next_a, {}, -1}};
  CHECK_THROWS_WITH_AS(Batch::forward(turns), doctest::Contains("only the best token"), Error);
}

TEST_CASE("batch: what cannot go together is named, and nothing runs") {
  const auto bundle = demo_bundle({.context = {8}}), other = demo_bundle({.context = {64}});
  Session a(bundle), b(bundle), full(bundle), stranger(other);
  const Ids one = {3}, none, bad = {-1}, eight = {1, 2, 3, 4, 5, 6, 7, 8};
  full.forward(eight, true);
  const auto refused = [&](Session* second, const Ids& ids, const char* why) {
    std::vector<Batch::Turn> turns = {{&a, one, {}, -1}, {second, ids, {}, -1}};
    CHECK_THROWS_WITH_AS(Batch::forward(turns), doctest::Contains(why), Error);
    CHECK_THROWS_WITH_AS(Batch::forward(turns), doctest::Contains("turn 1 of a batch"), Error);
    CHECK(a.position() == 0);
  };
  refused(nullptr, one, "no session");
  refused(&b, none, "no tokens");
  refused(&a, one, "that of turn 0");
  refused(&stranger, one, "another bundle");
  refused(&b, bad, "not in the vocabulary");
  refused(&full, one, "context of 8 tokens is full");
  std::vector<Batch::Turn> nobody;
  Batch::forward(nobody);
}

TEST_CASE("batch: a session that is told to stop leaves the others usable") {
  const auto bundle = demo_bundle({.context = {64}});
  Session a(bundle), b(bundle), alone(bundle);
  b.watch([](int64_t, int64_t) { return false; });
  const Ids one = {3};
  std::vector<Batch::Turn> turns = {{&a, one, {}, -1}, {&b, one, {}, -1}};
  CHECK_THROWS_AS(Batch::forward(turns), Cancelled);
  CHECK(a.position() == 0);
  b.watch({});
  Batch::forward(turns);
  CHECK(same(turns[1].logits, alone.forward(one, true)));
}
