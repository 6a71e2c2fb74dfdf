#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "compress/recipe.h"
#include "convert/convert.h"
#include "coreml/double_fixture.h"
#include "engine/cpu_backend.h"
#include "runtime/session.h"
#include "support/data.h"

using namespace anemone;
using namespace anemone::test;

namespace {

struct Kind {
  std::string name;
  ConvertOptions options;
};

Recipe palettes() {
  Recipe recipe;
  RecipeRule rule;
  rule.form.palette = PaletteForm{.bits = 6};
  recipe.rules.push_back(rule);
  return recipe;
}

std::vector<Kind> kinds(int64_t context) {
  using lower::KvKind;
  using lower::KvWrite;
  std::vector<Kind> out = {
      {"int8", {.tokens = {{1, 1}}}},
      {"fp16, slice", {.tokens = {{1, 1}}, .kv_write = {KvWrite::slice}, .precision = Precision::fp16}},
      {"palettes", {.precision = Precision::fp16, .recipe = palettes()}},
      {"packed", {.tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed, .shard_bytes = 1}},
      {"io", {.kv = KvKind::io}},
      {"whole", {.tokens = {{1, 1}, {8, 8}}, .whole = true}},
      {"functions and contexts", {.context = {context / 2, context}, .tokens = {{1, 1}, {4, 4}}}},
  };
  for (Kind& kind : out) {
    if (kind.options.context.empty()) kind.options.context = {context};
    kind.options.overwrite = true;
    kind.options.threads = 1;
  }
  return out;
}

std::filesystem::path demo_model() { return source_dir() / "examples/demo_model/demo.gguf"; }

const std::vector<int32_t> kPrompt = {1, 17, 33, 5, 120, 8, 301, 44, 9, 12};

// What the best tokens are, one by one, and the logits of the last.
struct Text {
  std::vector<int64_t> ids;
  std::vector<float> logits;
  bool operator==(const Text&) const = default;
};

Text greedy(Session& session, int64_t tokens) {
  Text out;
  int64_t next = session.forward_best(kPrompt);
  for (int64_t i = 0; i < tokens; ++i) {
    out.ids.push_back(next);
    const auto id = static_cast<int32_t>(next);
    next = session.forward_best({&id, 1});
  }
  const int32_t last = 3;
  out.logits = session.forward({&last, 1});
  return out;
}

Text greedy(const std::filesystem::path& bundle, std::shared_ptr<const Backend> backend, int64_t tokens) {
  Session session(Bundle::open(bundle, std::move(backend)));
  return greedy(session, tokens);
}

std::shared_ptr<const Backend> cpu() { return cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1}); }

}  // namespace

TEST_CASE("seven kinds of bundles give the tokens and logits of the CPU engine, with every pitfall on") {
  const TempFolder folder;
  for (const Kind& kind : kinds(96)) {
    CAPTURE(kind.name);
    const auto path = folder.path() / "bundle";
    convert(demo_model(), path, kind.options);
    const Text expected = greedy(path, cpu(), 60);
    {
      DoubleFixture fixture;
      CHECK(greedy(path, fixture.backend(), 60) == expected);
    }
    using apple_double::Backings;
    using apple_double::UsedBackings;
    for (const auto used : {UsedBackings::accepted, UsedBackings::ignored, UsedBackings::refused}) {
      DoubleFixture fixture;
      apple_double::switches().backings = Backings::accepted;
      apple_double::switches().used_backings = used;
      CHECK(greedy(path, fixture.backend(), 20).ids ==
            std::vector<int64_t>(expected.ids.begin(), expected.ids.begin() + 20));
    }
  }
}

TEST_CASE("states that functions do not share are copied from one to the other") {
  const TempFolder folder;
  const auto path = folder.path() / "bundle";
  convert(demo_model(), path, kinds(96).back().options);
  const Text expected = greedy(path, cpu(), 60);
  using apple_double::ForeignStates;
  for (const auto foreign : {ForeignStates::refused, ForeignStates::misread, ForeignStates::shared}) {
    DoubleFixture fixture;
    apple_double::switches().foreign_states = foreign;
    const auto backend = fixture.backend();
    CHECK(greedy(path, backend, 60) == expected);
    CHECK(any_remark(*backend, "states copied between functions") == (foreign != ForeignStates::shared));
  }
}

namespace {

// Two sessions in turn, each as if it were alone.
void check_interleaved(const std::shared_ptr<const Bundle>& bundle, const Text& expected) {
  Session a(bundle), b(bundle);
  int64_t next_a = a.forward_best(kPrompt), next_b = b.forward_best(kPrompt);
  for (const int64_t id : expected.ids) {
    CHECK(next_a == id);
    CHECK(next_b == id);
    const auto token = static_cast<int32_t>(id);
    next_a = a.forward_best({&token, 1});
    next_b = b.forward_best({&token, 1});
  }
  Session c = a.fork();
  a.rewind(static_cast<int64_t>(kPrompt.size()));
  c.rewind(static_cast<int64_t>(kPrompt.size()) + 2);
  const auto first = static_cast<int32_t>(expected.ids[0]), third = static_cast<int32_t>(expected.ids[2]);
  CHECK(a.forward_best({&first, 1}) == expected.ids[1]);
  CHECK(c.forward_best({&third, 1}) == expected.ids[3]);
}

void check_threads(const std::shared_ptr<const Bundle>& bundle, const Text& expected) {
  std::vector<Text> found(3);
  std::vector<std::thread> threads;
  for (Text& text : found)
    threads.emplace_back([&] {
      Session session(bundle);
      text = greedy(session, static_cast<int64_t>(expected.ids.size()));
    });
  for (std::thread& t : threads) t.join();
  for (const Text& text : found) CHECK(text == expected);
}

}  // namespace

TEST_CASE("sessions of seven kinds of bundles: interleaved, forked, rewound, in threads") {
  const TempFolder folder;
  for (const Kind& kind : kinds(96)) {
    CAPTURE(kind.name);
    const auto path = folder.path() / "bundle";
    convert(demo_model(), path, kind.options);
    const Text expected = greedy(path, cpu(), 16);
    DoubleFixture fixture;
    const auto bundle = Bundle::open(path, fixture.backend());
    check_interleaved(bundle, expected);
    check_threads(bundle, expected);
  }
}

TEST_CASE("a session that is cancelled, also in the middle of a prediction, goes on where it was") {
  const TempFolder folder;
  const auto path = folder.path() / "bundle";
  convert(demo_model(), path, kinds(96)[3].options);
  const Text expected = greedy(path, cpu(), 4);
  DoubleFixture fixture;
  const auto bundle = Bundle::open(path, fixture.backend());
  Session session(bundle);
  session.watch([](int64_t done, int64_t) { return done < 4; });
  CHECK_THROWS_AS(session.forward_best(kPrompt), Cancelled);
  CHECK(session.position() == 4);
  session.watch(nullptr);
  CHECK(session.forward_best(std::span(kPrompt).subspan(4)) == expected.ids[0]);

  // Somebody else cancels while a prediction is under way: it ends, and no other begins.
  session.rewind(0);
  std::atomic<bool> stop{false};
  session.watch([&](int64_t, int64_t) { return !stop; });
  apple_double::switches().slow_function = "t4";
  apple_double::switches().slow_ms = 60;
  const int64_t before = apple_double::seen().predictions;
  std::thread other([&] {
    while (apple_double::seen().predictions == before) std::this_thread::yield();
    stop = true;  // the first prediction sleeps
  });
  CHECK_THROWS_AS(session.forward_best(kPrompt), Cancelled);
  other.join();
  const int64_t done = session.position();
  CHECK(done == 4);
  apple_double::switches().slow_function.clear();
  session.watch(nullptr);
  CHECK(session.forward_best(std::span(kPrompt).subspan(static_cast<size_t>(done))) == expected.ids[0]);
}

TEST_CASE("a token makes no object and no buffer where buffers are taken") {
  const TempFolder folder;
  for (const size_t kind : {size_t{0}, size_t{3}, size_t{5}}) {
    const auto path = folder.path() / "bundle";
    convert(demo_model(), path, kinds(96)[kind].options);
    DoubleFixture fixture;
    apple_double::switches().backings = apple_double::Backings::accepted;
    apple_double::switches().used_backings = apple_double::UsedBackings::accepted;
    const auto bundle = Bundle::open(path, fixture.backend());
    Session session(bundle);
    const int32_t id = 7;
    for (int i = 0; i < 2; ++i) session.forward_best({&id, 1});
    const int64_t before = objc_double::counts().made_outside;
    const uint64_t memory = session.memory().arena;
    for (int i = 0; i < 20; ++i) session.forward_best({&id, 1});
    CHECK(objc_double::counts().made_outside == before);
    CHECK(session.memory().arena == memory);
  }
}

TEST_CASE("a thousand tokens of seven kinds of bundles, with every pitfall on") {
  const TempFolder folder;
  for (const Kind& kind : kinds(1056)) {
    CAPTURE(kind.name);
    const auto path = folder.path() / "bundle";
    convert(demo_model(), path, kind.options);
    DoubleFixture fixture;
    CHECK(greedy(path, fixture.backend(), 1000) == greedy(path, cpu(), 1000));
  }
}
