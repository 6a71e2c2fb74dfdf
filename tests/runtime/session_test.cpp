// Sessions over one bundle: forked, rewound, made shorter, many at once.
#include "runtime/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "runtime/demo.h"

using namespace anemone;
using namespace anemone::test;
using lower::KvKind;
using lower::KvWrite;

namespace {

using Ids = std::vector<int32_t>;

// Ids that mean something to the model: the first prompt and its continuation.
Ids story() {
  const DemoCase c = demo_cases().at(0);
  Ids out = c.prompt_ids;
  out.insert(out.end(), c.greedy_ids.begin(), c.greedy_ids.end());
  return out;
}

std::span<const int32_t> part(const Ids& ids, size_t from, size_t to) {
  return std::span(ids).subspan(from, to - from);
}

std::vector<float> fresh(const std::shared_ptr<const Bundle>& bundle, std::span<const int32_t> ids) {
  Session session(bundle);
  return session.forward(ids, true);
}

// As a part of the range. The same sums in another order differ by about 1e-6 of it.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  const auto [low, high] = std::minmax_element(a.begin(), a.end());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  return worst / (static_cast<double>(*high) - *low);
}
constexpr double kSame = 1e-5;

struct Form {
  std::string name;
  ConvertOptions options;
};

// Every way to keep the past.
std::vector<Form> forms() {
  return {{"states", {.context = {64}}},
          {"packed", {.context = {64}, .kv = KvKind::packed}},
          {"io", {.context = {64}, .kv = KvKind::io}},
          {"slice", {.context = {64}, .kv_write = {KvWrite::slice}}},
          {"tiers", {.context = {8, 16, 64}, .tokens = {{1, 1}, {4, 4}}}},
          {"packed tiers", {.context = {8, 64}, .kv = KvKind::packed}},
          {"several shards", {.context = {64}, .tokens = {{1, 4}}, .shard_bytes = 1'000'000}}};
}

}  // namespace

TEST_CASE("a session says what PyTorch says") {
  const auto bundle = demo_bundle({.context = {64}, .tokens = {{1, 1}, {16, 16}}});
  for (const DemoCase& c : demo_cases()) {
    CAPTURE(c.prompt);
    Session session(bundle, {.positions = 64});
    int64_t next = session.forward_best(c.prompt_ids);
    for (size_t i = 0; i < c.greedy_ids.size(); ++i) {
      // Weights were rounded to int8 by rows on the way: a close choice may fall differently, a clear one not.
      if (next != c.greedy_ids[i]) CHECK(c.margins[i] < 0.5);
      if (next != c.greedy_ids[i]) break;
      next = session.forward_best(std::span(&c.greedy_ids[i], 1));
    }
  }
}

TEST_CASE("a rewound session goes on as one that never saw the rest") {
  const Ids ids = story();
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    const auto bundle = demo_bundle(form.options);
    Session session(bundle);
    session.forward(part(ids, 0, 30), true);
    // Something else was said in between, past the end of a tier.
    session.rewind(6);
    CHECK(session.position() == 6);
    CHECK(session.ids() == Ids(ids.begin(), ids.begin() + 6));
    session.forward(part(ids, 30, 45), true);
    session.rewind(6);
    Session other(bundle);
    other.forward(part(ids, 0, 6), true);
    // Its first chunks may end elsewhere, and sums then be in another order.
    CHECK(difference(session.forward(part(ids, 6, 12), true), other.forward(part(ids, 6, 12), true)) < kSame);
    session.rewind(0);
    CHECK(session.forward(part(ids, 0, 20), true) == fresh(bundle, part(ids, 0, 20)));
  }
}

TEST_CASE("forks share the past and nothing else") {
  const Ids ids = story();
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    const auto bundle = demo_bundle(form.options);
    Session session(bundle);
    session.forward(part(ids, 0, 10), true);
    Session left = session.fork(), right = session.fork();
    CHECK(left.position() == 10);
    CHECK(left.ids() == session.ids());
    Ids other(ids.rbegin(), ids.rbegin() + 15);
    const auto a = left.forward(part(ids, 10, 25), true);
    const auto b = right.forward(other, true);
    CHECK(session.position() == 10);
    CHECK(session.forward(part(ids, 10, 25), true) == a);
    session.rewind(10);
    CHECK(session.forward(other, true) == b);
    CHECK(difference(a, b) > kSame);
  }
}

TEST_CASE("the common prefix is what need not be computed again") {
  const Ids ids = story();
  Session session(demo_bundle({.context = {64}, .tokens = {{1, 1}, {4, 4}}}));
  CHECK(session.common_prefix(ids) == 0);
  session.forward(part(ids, 0, 20), true);
  CHECK(session.common_prefix(ids) == 20);
  CHECK(session.common_prefix(part(ids, 0, 5)) == 5);
  Ids other = ids;
  other[12] ^= 1;
  CHECK(session.common_prefix(other) == 12);
  CHECK(session.common_prefix({}) == 0);
  // Chunks end elsewhere than in a fresh session, so sums may be in another order.
  session.rewind(12);
  const auto kept = session.forward(part(other, 12, 30), true);
  CHECK(difference(kept, fresh(session.bundle(), part(other, 0, 30))) < kSame);
}

TEST_CASE("sliding keeps the first rows and is exact: the rest is as in a fresh session over what was kept") {
  const Ids ids = story();
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    const auto bundle = demo_bundle(form.options);
    Session session(bundle);
    session.forward(part(ids, 0, 48), true);
    session.slide(4, 20);
    Ids kept(ids.begin(), ids.begin() + 4);
    kept.insert(kept.end(), ids.begin() + 28, ids.begin() + 48);
    CHECK(session.ids() == kept);
    Session other(bundle);
    // Chunks as slide makes them: the first rows, then the rest.
    other.forward(part(kept, 0, 4), true);
    other.forward(part(kept, 4, 24), true);
    const auto next = session.forward(part(ids, 48, 49), true);
    CHECK(next == other.forward(part(ids, 48, 49), true));
    kept.push_back(ids[48]);
    CHECK(difference(next, fresh(bundle, kept)) < kSame);
  }
  Session session(demo_bundle({.context = {64}}));
  session.forward(part(ids, 0, 10), true);
  CHECK_THROWS_AS(session.slide(4, 7), Error);
  session.slide(0, 0);
  CHECK(session.position() == 0);
}

TEST_CASE("many sessions on one bundle, each in its thread, say what each says alone") {
  const auto bundle = demo_bundle({.context = {16, 64}, .tokens = {{1, 1}, {4, 4}}}, {.threads = 2});
  const auto cases = demo_cases();
  const auto answer = [&](const DemoCase& c) {
    Session session(bundle);
    std::vector<float> all = session.forward(c.prompt_ids);
    for (int i = 0; i < 12; ++i) {
      Session turn = session.fork();
      const auto next = static_cast<int32_t>(turn.forward_best(Ids{c.prompt_ids.back()}));
      const auto logits = session.forward(std::span(&next, 1));
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  std::vector<std::vector<float>> alone(cases.size()), together(cases.size() * 2);
  for (size_t i = 0; i < cases.size(); ++i) alone[i] = answer(cases[i]);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < together.size(); ++i)
    threads.emplace_back([&, i] { together[i] = answer(cases[i % cases.size()]); });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < together.size(); ++i) CHECK(together[i] == alone[i % cases.size()]);
}

TEST_CASE("a long call reports how far it is, chunk by chunk, and can be stopped between chunks") {
  const Ids ids = story();
  Session session(demo_bundle({.context = {64}, .tokens = {{1, 1}, {4, 4}}}));
  std::vector<int64_t> seen;
  session.watch([&](int64_t done, int64_t total) {
    CHECK(total == 14);
    seen.push_back(done);
    return true;
  });
  session.forward(part(ids, 0, 14), true);
  CHECK(seen == std::vector<int64_t>{0, 4, 8, 12});
  session.rewind(2);
  session.watch([](int64_t done, int64_t) { return done < 8; });
  CHECK_THROWS_AS(session.forward(part(ids, 2, 22), true), Cancelled);
  CHECK(session.position() == 10);
  CHECK(session.ids() == Ids(ids.begin(), ids.begin() + 10));
  session.watch(nullptr);
  const auto logits = session.forward(part(ids, 10, 22), true);
  CHECK(difference(logits, fresh(session.bundle(), part(ids, 0, 22))) < kSame);
}

TEST_CASE("the function is taken that is cheapest a token: a wide one is not padded for a few tokens") {
  const Ids ids = story();
  Session session(demo_bundle({.context = {64}, .tokens = {{1, 1}, {32, 32}}}));
  std::vector<int64_t> seen;
  session.watch([&](int64_t done, int64_t) {
    seen.push_back(done);
    return true;
  });
  session.forward(part(ids, 0, 3), true);
  CHECK(seen == std::vector<int64_t>{0, 1, 2});
  session.rewind(0);
  seen.clear();
  session.forward(part(ids, 0, 34), true);
  CHECK(seen == std::vector<int64_t>{0, 32, 33});
}

TEST_CASE("what cannot go well changes nothing") {
  const Ids ids = story();
  for (const ConvertOptions& options :
       {ConvertOptions{.context = {16}}, ConvertOptions{.context = {8, 16}, .tokens = {{1, 1}, {4, 4}}}}) {
    Session session(demo_bundle(options));
    CHECK(session.capacity() == 16);
    session.forward(part(ids, 0, 10), true);
    const std::string full = error_of([&] { session.forward(part(ids, 10, 17), true); });
    CHECK(full.find("the context of 16 tokens is full; found 10 tokens and 7 more") == 0);
    CHECK(session.position() == 10);
    CHECK(error_of([&] { session.forward(Ids{5, 99999}, true); }).find("99999") != std::string::npos);
    CHECK(error_of([&] { session.forward(Ids{5, -1}, true); }).find("-1") != std::string::npos);
    CHECK(session.position() == 10);
    CHECK_THROWS_AS(session.rewind(11), Error);
    CHECK_THROWS_AS(session.rewind(-1), Error);
    session.forward(part(ids, 10, 16), true);
    CHECK(session.position() == 16);
    CHECK(difference(fresh(session.bundle(), part(ids, 0, 16)), [&] {
            session.rewind(15);
            return session.forward(part(ids, 15, 16), true);
          }()) < kSame);
  }
}

TEST_CASE("memory is counted: weights once, the cache by its rows") {
  const Ids ids = story();
  const auto bundle = demo_bundle({.context = {8, 64}, .kv = KvKind::packed});
  Session session(bundle);
  CHECK(session.memory().arena == 0);
  CHECK(session.memory().cache == 0);  // nothing was asked of it yet
  session.forward(part(ids, 0, 4), true);
  // keys and values, 5 layers, 4 heads of 32, fp32, over 8 rows, then 64
  CHECK(session.memory().cache == 2 * 5 * 4 * 32 * 4 * 8);
  const uint64_t arena = session.memory().arena;
  CHECK(arena > 0);
  Session second(bundle);
  second.forward(part(ids, 0, 4), true);
  CHECK(second.memory().arena == arena);  // they take turns
  session.forward(part(ids, 4, 20), true);
  CHECK(session.memory().cache == 2 * 5 * 4 * 32 * 4 * 64);
  // 3.5 million parameters in int8 and the embedding in fp16 (2048 x 256)
  CHECK(session.memory().weights > 3'476'224u);
  CHECK(session.memory().weights < 3'476'224u + 2 * 2048 * 256 + 200'000);
}

TEST_CASE("tokens that go in turn have the bits of tokens one by one") {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast})
    for (const int threads : {1, 2}) {
      CAPTURE(static_cast<int>(arithmetic));
      const auto bundle = demo_bundle({.context = {16, 64}, .tokens = {{1, 1}, {8, 8}}},
                                      {.arithmetic = arithmetic, .threads = threads});
      Session in_turn(bundle), alone(bundle);
      CHECK(in_turn.goes_in_turn());
      const std::vector<int32_t> prompt = {1, 5, 9, 2, 7};
      in_turn.forward(prompt, true);
      alone.forward(prompt, true);
      int32_t next = 3;
      for (const size_t count : {8, 2, 5, 1, 11}) {  // over the end of a tier, and more than go at once
        std::vector<int32_t> ids(count + 2);
        for (int32_t& id : ids) id = next = (next * 37 + 11) % static_cast<int32_t>(bundle->info().vocab);
        const std::vector<float> together = in_turn.forward_in_turn(ids);
        std::vector<float> one_by_one;
        for (size_t i = 0; i < ids.size(); ++i) {
          const std::vector<float> row = alone.forward(std::span(ids).subspan(i, 1));
          one_by_one.insert(one_by_one.end(), row.begin(), row.end());
        }
        CHECK(together == one_by_one);
        // What was rejected leaves nothing behind.
        in_turn.rewind(in_turn.position() - 2);
        alone.rewind(alone.position() - 2);
      }
      CHECK(in_turn.ids() == alone.ids());
      CHECK(in_turn.forward(prompt) == alone.forward(prompt));
    }
}

TEST_CASE("a function that is damaged fails alone, by name, and leaves the bundle whole") {
  const TempFolder folder;
  const auto good = demo_bundle({.context = {64}, .tokens = {{1, 1}, {16, 16}}});
  std::filesystem::copy(good->path(), folder / "bundle", std::filesystem::copy_options::recursive);
  const auto model =
      folder / "bundle" / good->info().stages.front().package / "Data/com.apple.CoreML/model.mlmodel";
  std::string bytes = slurp(model);
  const size_t at = bytes.rfind("softmax");  // of the last function, which is decoded when it is needed
  REQUIRE(at != std::string::npos);
  bytes[at] = 'z';
  std::ofstream(model, std::ios::binary) << bytes;
  const auto bundle = Bundle::open(folder / "bundle", cpu_backend({.threads = 1}));
  const Ids ids = story();
  int failed = 0;
  for (const size_t count : {16, 1, 16, 1}) {
    Session session(bundle);
    const std::string problem = error_of([&] { session.forward(part(ids, 0, count)); });
    failed += !problem.empty();
    if (!problem.empty()) CHECK(problem.find("zoftmax") != std::string::npos);
    CHECK(session.memory().weights == good->weight_bytes());
  }
  CHECK(failed == 2);
}

TEST_CASE("a bundle that is open does not change with the files of its folder") {
  const TempFolder folder;
  const auto good = demo_bundle({.context = {64}});
  std::filesystem::copy(good->path(), folder / "bundle", std::filesystem::copy_options::recursive);
  const auto bundle = Bundle::open(folder / "bundle", cpu_backend({.threads = 1}));
  std::filesystem::rename(folder / "bundle", folder / "old");
  std::filesystem::copy(good->path(), folder / "bundle", std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "bundle"))
    if (entry.path().filename() == "weight.bin") {
      std::string bytes = slurp(entry.path());
      std::fill(bytes.begin() + static_cast<int64_t>(bytes.size() / 2), bytes.end(), '\1');
      std::ofstream(entry.path(), std::ios::binary) << bytes;
    }
  const Ids ids = story();
  CHECK(fresh(bundle, part(ids, 0, 8)) == fresh(good, part(ids, 0, 8)));
}
