// Nothing is copied on the way from stage to stage: inputs are filled where the backend reads them, the stream goes
// from output to input in place, and what the host keeps is lent.
#include <doctest/doctest.h>

#include "runtime/session.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;
using lower::KvKind;
using lower::KvWrite;

namespace {

const std::vector<int32_t> kIds = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};

struct Seen {
  uint64_t copied = 0;
  int calls = 0, passes = 0;
  BundleWatch watch() {
    return {.taps = {}, .seen = [this](size_t stage, const std::string&, const Call& call, int64_t) {
              copied += call.copied_bytes();
              ++calls;
              passes += stage == 0;
            }};
  }
};

// What must go from the calls' memory into the session's: logits, new rows of a cache that the host keeps, and of each
// convolution (two columns) what the host keeps, and a snapshot.
uint64_t needed_bytes(const ConvertOptions& options, uint64_t layers, uint64_t convs, uint64_t passes) {
  const uint64_t tokens = kIds.size(), number = sizeof(float);
  uint64_t bytes = options.argmax ? 0 : tokens * kVocab * number;
  const uint64_t kv_heads = 2, head_dim = 8, sides = 2, state = 2 * kHidden * number;
  if (options.kv == KvKind::io) bytes += (layers - convs) * sides * tokens * kv_heads * head_dim * number;
  if (options.kv == KvKind::io || options.kv == KvKind::packed) bytes += convs * passes * state;
  return bytes + convs * passes * state;
}

}  // namespace

TEST_CASE("stages chain without copies: decode, prefill, whole, the host's cache, recurrent states") {
  struct Form {
    std::string name;
    ConvertOptions options;
  };
  const std::vector<Form> forms = {
      {"decode, several shards", {.context = {16}, .shard_bytes = 1, .head_rows = 20}},
      {"chunks, several shards",
       {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .shard_bytes = 1, .head_rows = 20}},
      {"a range of tokens", {.context = {16}, .tokens = {{1, 4}}, .shard_bytes = 1}},
      {"slices",
       {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .kv_write = {KvWrite::slice}, .shard_bytes = 1}},
      {"packed", {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed, .shard_bytes = 1}},
      {"io", {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::io, .shard_bytes = 1}},
      {"io, whole", {.context = {16}, .tokens = {{4, 4}}, .kv = KvKind::io, .whole = true}},
      {"whole", {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .whole = true}},
      {"tiers", {.context = {8, 16}, .tokens = {{1, 1}, {4, 4}}, .shard_bytes = 1}},
      {"argmax", {.context = {16}, .argmax = true, .shard_bytes = 1}},
  };
  for (const size_t convs : {0, 1})
    for (const Form& form : forms) {
      if (convs && form.name == "a range of tokens") continue;  // refused for layers that remember
      CAPTURE(convs);
      CAPTURE(form.name);
      MadeModel made(small_decoder(3, convs));
      Seen seen;
      const auto bundle = made.bundle(form.options, seen.watch());
      Session session(bundle);
      if (form.options.argmax)
        session.forward_best(kIds);
      else
        session.forward(kIds);
      CHECK(seen.calls >= 3);
      CHECK(seen.copied == 0);
      CHECK(session.copied_bytes() ==
            needed_bytes(form.options, 3, convs, static_cast<uint64_t>(seen.passes)));
      Session other(bundle);
      other.forward_best(std::span(kIds).first(1));
      CHECK(seen.copied == 0);
      // Of the last of several tokens the heads see one column, which does not lie in one piece: that is all.
      other.forward_best(std::span(kIds).first(4));
      uint64_t heads = 0;
      for (const Stage& stage : bundle->info().stages) heads += stage.has_head() && !stage.has_layers();
      CHECK(seen.copied <= heads * kHidden * sizeof(float));
    }
}

TEST_CASE("a pass counts what its calls had to copy") {
  MadeModel made(small_decoder(2));
  const auto bundle = made.bundle({.context = {16}, .shard_bytes = 1});
  const std::vector<int32_t> ids = {7};
  StageCalls calls;
  StagePass pass(*bundle, calls, {.ids = ids, .position = 0, .width = 1});
  CHECK_THROWS_WITH_AS(pass.stream(), doctest::Contains("no stage gave a stream"), Error);
  std::vector<std::unique_ptr<State>> states;
  const auto& stages = bundle->info().stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageFunction& f = stages[s].functions.front();
    states.push_back(f.interface.states.empty() ? nullptr : bundle->predictor(s, f.name).make_state());
    CHECK(pass.ran(s) == nullptr);
    Call& call = pass.stage(s, f, states.back().get());
    CHECK(pass.ran(s) == &call);
    CHECK(&calls.get(*bundle, s, f, 1) == &call);  // the next pass takes the same
  }
  CHECK(pass.stream().shape == std::vector<int64_t>{1, kHidden, 1, 1});
  CHECK(pass.copied_bytes() == 0);
}
