// Sessions over layers that remember more than rows of a cache: rewound, forked, slid, moved to longer tiers, drafted.
// Whatever happened before, they go on as a fresh session over the same tokens.
#include <doctest/doctest.h>

#include <algorithm>

#include "lower/ops.h"
#include "runtime/generate.h"
#include "runtime/session.h"
#include "support/hand_bundle.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;
using lower::KvKind;
using lower::KvWrite;

namespace {

using Ids = std::vector<int32_t>;

// Sums in another order differ by about 1e-6 of the range.
constexpr double kSame = 1e-5;

Ids ids_of(size_t count) {
  Ids out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>((i * i * 7 + 3 * i + 5) % kVocab));
  return out;
}

std::span<const int32_t> part(const Ids& ids, size_t from, size_t to) {
  return std::span(ids).subspan(from, to - from);
}

// Convolutions in layers 0 and 2, attention in 1 and 3.
MadeModel& model() {
  static MadeModel made(small_decoder(4, 2));
  return made;
}

struct Form {
  std::string name;
  ConvertOptions options;
};

std::vector<Form> forms() {
  return {{"states", {.context = {96}}},
          {"states, chunks", {.context = {96}, .tokens = {{1, 1}, {4, 4}}}},
          {"chunks alone", {.context = {96}, .tokens = {{8, 8}}}},
          {"packed", {.context = {96}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed}},
          {"io", {.context = {96}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::io}},
          {"slices", {.context = {96}, .tokens = {{1, 1}, {4, 4}}, .kv_write = {KvWrite::slice}}},
          {"tiers", {.context = {8, 24, 96}, .tokens = {{1, 1}, {4, 4}}}},
          {"packed tiers, shards", {.context = {16, 96}, .kv = KvKind::packed, .shard_bytes = 1}},
          {"io tiers, whole",
           {.context = {16, 96}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::io, .whole = true}}};
}

std::vector<float> fresh(const std::shared_ptr<const Bundle>& bundle, std::span<const int32_t> ids) {
  Session session(bundle);
  return session.forward(ids, true);
}

int64_t best(const std::vector<float>& logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

void check_same(const std::vector<float>& got, const std::vector<float>& expected) {
  CHECK(range_error(got, expected) < kSame);
  CHECK(best(got) == best(expected));
}

}  // namespace

TEST_CASE("recurrent: every form says what the reference says") {
  const Ids ids = ids_of(40);
  const std::vector<float> expected = model().reference().logits(ids);
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    Session session(model().bundle(form.options));
    CHECK(session.bundle()->info().recurrent());
    CHECK(range_error(session.forward(ids), expected) < 1e-3);
  }
}

TEST_CASE("recurrent: padding never moves a state on") {
  const Ids ids = ids_of(30);
  const auto eight = model().bundle({.context = {96}, .tokens = {{8, 8}}}),
             one = model().bundle({.context = {96}});
  for (size_t real = 1; real < 8; ++real) {
    CAPTURE(real);
    // So many real tokens in a call of eight, again and again: what is left over repeats in no state.
    Session padded(eight), single(one);
    for (size_t at = 0; at + real <= 22; at += real) {
      const std::vector<float> a = padded.forward(part(ids, at, at + real));
      std::vector<float> b;
      for (size_t i = at; i < at + real; ++i) {
        const std::vector<float> row = single.forward(part(ids, i, i + 1));
        b.insert(b.end(), row.begin(), row.end());
      }
      check_same(a, b);
    }
  }
}

TEST_CASE("recurrent: a session rewound to any position goes on as one that never saw the rest") {
  const Ids ids = ids_of(80), other(ids.rbegin(), ids.rend());
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    const auto bundle = model().bundle(form.options);
    Session session(bundle);
    for (size_t position = 0; position <= 40; ++position) {
      CAPTURE(position);
      session.rewind(0);
      session.forward(part(ids, 0, 40), true);
      session.rewind(static_cast<int64_t>(position));
      CHECK(session.position() == static_cast<int64_t>(position));
      CHECK(session.ids() == Ids(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(position)));
      Ids told(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(position));
      told.insert(told.end(), other.begin(), other.begin() + 6);
      check_same(session.forward(part(other, 0, 6), true), fresh(bundle, told));
    }
  }
}

TEST_CASE("recurrent: rewinding far back and again, where snapshots are thinned out") {
  const Ids ids = ids_of(300);
  MadeModel longer(small_decoder(4, 2));
  const auto bundle = longer.bundle({.context = {320}, .tokens = {{1, 1}, {4, 4}}});
  Session session(bundle);
  for (size_t at = 0; at < 300; ++at) session.forward(part(ids, at, at + 1), true);
  for (const size_t position : {299, 290, 283, 250, 191, 130, 129, 128, 127, 65, 64, 63, 3, 1}) {
    CAPTURE(position);
    session.rewind(static_cast<int64_t>(position));
    Session turn = session.fork();
    check_same(turn.forward(part(ids, position, position + 1), true),
               fresh(bundle, part(ids, 0, position + 1)));
  }
  // Snapshots are counted with the cache, and there are not as many as tokens.
  Session told(bundle);
  for (size_t at = 0; at < 300; ++at) told.forward(part(ids, at, at + 1), true);
  const uint64_t states = 2 * 2 * 2 * 320 * 32 * 4 + 2 * 2 * kHidden * 4, snapshot = 2 * 2 * kHidden * 4;
  CHECK(told.memory().cache > states);
  CHECK(told.memory().cache < states + 40 * snapshot);
}

TEST_CASE("recurrent: forks share the past and nothing else") {
  const Ids ids = ids_of(60);
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    const auto bundle = model().bundle(form.options);
    Session session(bundle);
    session.forward(part(ids, 0, 11), true);
    Session left = session.fork(), right = session.fork();
    const Ids other(ids.rbegin(), ids.rbegin() + 15);
    const auto a = left.forward(part(ids, 11, 30), true), b = right.forward(other, true);
    CHECK(session.forward(part(ids, 11, 30), true) == a);
    session.rewind(11);
    check_same(session.forward(other, true), b);
    // A fork can go further back than where it began.
    left.rewind(5);
    check_same(left.forward(part(ids, 5, 9), true), fresh(bundle, part(ids, 0, 9)));
    CHECK(right.position() == 26);
    check_same(right.forward(part(ids, 0, 1), true), [&] {
      Ids told(ids.begin(), ids.begin() + 11);
      told.insert(told.end(), other.begin(), other.end());
      told.push_back(ids[0]);
      return fresh(bundle, told);
    }());
  }
}

TEST_CASE("recurrent: sliding and prefix reuse are exact") {
  const Ids ids = ids_of(90);
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    const auto bundle = model().bundle(form.options);
    Session session(bundle);
    session.forward(part(ids, 0, 48), true);
    session.slide(4, 20);
    Ids kept(ids.begin(), ids.begin() + 4);
    kept.insert(kept.end(), ids.begin() + 28, ids.begin() + 48);
    CHECK(session.ids() == kept);
    kept.push_back(ids[50]);
    check_same(session.forward(part(ids, 50, 51), true), fresh(bundle, kept));

    // A second prompt that begins as the text so far.
    Ids prompt(kept.begin(), kept.begin() + 13);
    prompt.insert(prompt.end(), ids.begin() + 60, ids.begin() + 70);
    const int64_t common = session.common_prefix(prompt);
    CHECK(common == 13);
    session.rewind(common);
    check_same(session.forward(part(prompt, 13, prompt.size()), true), fresh(bundle, prompt));
  }
}

TEST_CASE("recurrent: speculation and sliding change no token") {
  for (const Form& form :
       std::vector<Form>{{"chunks", {.context = {64}, .tokens = {{1, 1}, {4, 4}}}},
                         {"tiers", {.context = {16, 48}, .tokens = {{1, 1}, {4, 4}}}},
                         {"packed", {.context = {64}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed}},
                         {"io", {.context = {64}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::io}}}) {
    CAPTURE(form.name);
    const auto bundle = model().bundle(form.options);
    int64_t accepted = 0;
    for (const Ids& prompt : {Ids{1, 2, 3, 1, 2, 3, 1, 2}, ids_of(12), Ids{5}}) {
      GenerateOptions options{.max_new = 90, .ignore_eos = true, .slide = true};
      Session one(bundle), two(bundle);
      const Generation plain = Generator(nullptr, options).run(one, prompt);
      options.speculate = 3;
      const Generation drafted = Generator(nullptr, options).run(two, prompt);
      CHECK(drafted.ids == plain.ids);
      CHECK(two.ids() == one.ids());
      accepted += drafted.stats.accepted;
      const Ids next = {7};
      check_same(two.forward(next, true), one.forward(next, true));
    }
    CHECK(accepted > 5);  // else this shows nothing
  }
}

TEST_CASE("recurrent: a pinned position is gone back to without computing anything again") {
  const Ids ids = ids_of(130);
  const auto bundle = model().bundle({.context = {160}, .tokens = {{1, 1}, {4, 4}}});
  const auto by_one = [&](Session& session, size_t from, size_t to) {
    std::vector<float> logits;
    for (size_t i = from; i < to; ++i) logits = session.forward(part(ids, i, i + 1), true);
    return logits;
  };
  Session plain(bundle), pinned(bundle);
  const std::vector<float> expected = by_one(plain, 0, 40);
  by_one(pinned, 0, 21);
  pinned.pin();
  for (size_t at = 21; at < 125; at += 4) pinned.forward(part(ids, at, at + 4), true);
  Session fork = pinned.fork();
  for (Session* session : {&pinned, &fork}) {
    session->rewind(21);
    CHECK(by_one(*session, 21, 40) == expected);  // bit for bit: every row was computed by itself
  }
}

// Tokens 0 to 3 follow each other in a circle: their logit is 16 + 2^-13. A state adds up an eighth a token, and the
// sum is the logit of token 4: after 128 tokens it is 16, so the circle wins by 2^-13, and after 129 it is ahead.
// Calls of four tokens are wrong on purpose, as other sums would make them: they add 2^-13 of the eighth too much.
// The six tokens of the prompt come in such calls, and that alone does not turn the balance. The next ones come one
// by one, since there is nothing to draft from before the circle closes; were they computed again in such calls, it
// would.
TEST_CASE("recurrent: a close choice far behind the last exact row is as without speculation") {
  HandBundle hand{.context = 160, .tokens = {1, 4}};
  hand.slots = {{.columns = 1, .width = 8}};
  hand.embedding = [](int32_t id, int64_t c) { return c == 5 ? 0.125f : id == c ? 1.0f : 0.0f; };
  hand.build = [](Builder& b, HandFunction& f) {
    Value* fresh = f.turn(b, f.x, "fresh");
    if (f.tokens > 1) fresh = lower::add(b, fresh, lower::scale(b, fresh, 0x1p-13, "wrong"), "fresh_wrong");
    Value* old = f.states.read(b, 0, 0);
    Value* sums = b.op("cumsum",
                       {{"x", fresh},
                        {"axis", Constant::integer(2)},
                        {"exclusive", Constant::boolean(false)},
                        {"reverse", Constant::boolean(false)}},
                       "sums");
    sums = lower::add(b, sums, old, "sums_so_far");
    f.states.write(b, 0, 0, f.states.last_columns(b, 0, 0, f.join(b, {old, sums}, 2, "columns")));
    Value* count = lower::slice_axis(b, f.turn(b, sums, "sums_turned"), 1, 5, 6, "count");
    Value* circle = lower::add(b, lower::scale(b, f.x, 16, "circle_16"),
                               lower::scale(b, f.x, 0x1p-13, "circle_more"), "circle");
    Value* first = lower::add(b, lower::slice_axis(b, circle, 1, 3, 4, "from_3"),
                              lower::slice_axis(b, circle, 1, 4, 5, "from_4"), "to_0");
    Value* others = lower::slice_axis(b, circle, 1, 0, 3, "to_1_2_3");
    Value* none = lower::scale(b, lower::slice_axis(b, f.x, 1, 5, 8, "rest"), 0.5, "to_none");
    return f.join(b, {first, others, count, none}, 1, "logits_0");
  };
  const TempFolder folder;
  for (const KvKind kv : {KvKind::state, KvKind::io}) {
    hand.kv = kv;
    const auto bundle = Bundle::open(hand.write(folder), cpu_backend({.threads = 1}));
    const Ids prompt = {5, 7, 6, 5, 7, 0};
    GenerateOptions options{.max_new = 130, .ignore_eos = true};
    Session one(bundle), two(bundle);
    const Generation plain = Generator(nullptr, options).run(one, prompt);
    options.speculate = 3;
    const Generation drafted = Generator(nullptr, options).run(two, prompt);
    // By hand: the circle from token 7 to the one behind token 128, then only 4.
    Ids expected;
    for (int32_t i = 0; i < 130; ++i) expected.push_back(i < 123 ? (i + 1) % 4 : 4);
    CHECK(plain.ids == expected);
    CHECK(drafted.ids == expected);
    CHECK(drafted.stats.accepted > 40);
    CHECK(drafted.stats.replayed > 64);
  }
}

TEST_CASE("recurrent: a call that is stopped leaves a session that goes on rightly") {
  const Ids ids = ids_of(30);
  const auto bundle = model().bundle({.context = {96}, .tokens = {{1, 1}, {4, 4}}});
  Session session(bundle);
  session.watch([](int64_t done, int64_t) { return done < 8; });
  CHECK_THROWS_AS(session.forward(part(ids, 0, 20), true), Cancelled);
  CHECK(session.position() == 8);
  session.watch(nullptr);
  check_same(session.forward(part(ids, 8, 20), true), fresh(bundle, part(ids, 0, 20)));
}
