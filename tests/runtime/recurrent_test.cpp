// Sessions over layers that remember more than rows of a cache: rewound, forked, slid, moved to longer tiers, drafted.
// Whatever happened before, they go on as a fresh session over the same tokens.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/generate.h"
#include "runtime/session.h"
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
          {"slices", {.context = {96}, .tokens = {{1, 1}, {4, 4}}, .kv_write = KvWrite::slice}},
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
