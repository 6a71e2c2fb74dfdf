// A layer with two recurrent states of different lengths, made by hand:
//     y_t = x_t + x_(t-2) + 2 x_(t-3)
// Slot 0 holds the last two columns of x, slot 1 the last three of 2 x. The logits are y, so all can be worked out.
#include <doctest/doctest.h>

#include "lower/ops.h"
#include "runtime/session.h"
#include "support/hand_bundle.h"
#include "support/made_model.h"
#include "verify/stepper.h"

using namespace anemone;
using namespace anemone::test;
using lower::KvKind;

namespace {

constexpr int64_t kEight = 8;  // hidden and vocabulary alike
const std::vector<int32_t> kIds = {3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 7, 2, 2, 6};

// What the embedding holds: eighths, so that every sum below is exact in half.
float x_of(int32_t id, int64_t c) { return static_cast<float>((id * 5 + c * 3) % 17 - 8) / 8; }

std::vector<float> expected(std::span<const int32_t> ids) {
  std::vector<float> out;
  for (size_t t = 0; t < ids.size(); ++t)
    for (int64_t c = 0; c < kEight; ++c)
      out.push_back(x_of(ids[t], c) + (t >= 2 ? x_of(ids[t - 2], c) : 0) +
                    (t >= 3 ? 2 * x_of(ids[t - 3], c) : 0));
  return out;
}

// `fresh` delayed by the columns of a slot.
Value* delayed(Builder& b, HandFunction& f, size_t slot, Value* fresh) {
  const std::string at = fmt::format("slot{}_", slot);
  Value* all = f.join(b, {f.states.read(b, 0, slot), fresh}, 2, at + "columns");
  f.states.write(b, 0, slot, f.states.last_columns(b, 0, slot, all));
  return lower::slice_axis(b, all, 2, 0, f.tokens, at + "delayed");
}

std::filesystem::path write(const TempFolder& folder, KvKind kv, const std::vector<int64_t>& tokens) {
  HandBundle hand{.hidden = kEight, .tokens = tokens, .kv = kv};
  hand.slots = {{.columns = 2, .width = kEight}, {.columns = 3, .width = kEight}};
  hand.embedding = x_of;
  hand.build = [](Builder& b, HandFunction& f) {
    Value* fresh = f.turn(b, f.x, "fresh");
    Value* one = delayed(b, f, 0, fresh);
    Value* two = delayed(b, f, 1, lower::scale(b, fresh, 2, "doubled"));
    Value* past = f.turn(b, lower::add(b, one, two, "past"), "past_turned");
    return lower::add(b, f.x, past, "logits_0");
  };
  return hand.write(folder);
}

}  // namespace

TEST_CASE("two recurrent states of a layer are told apart by their slots") {
  const TempFolder folder;
  for (const KvKind kv : {KvKind::state, KvKind::io})
    for (const std::vector<int64_t>& tokens : std::vector<std::vector<int64_t>>{{1}, {4}, {1, 4}}) {
      CAPTURE(static_cast<int>(kv));
      CAPTURE(tokens.back());
      const auto path = write(folder, kv, tokens);
      const auto bundle = Bundle::open(path, cpu_backend({.threads = 1}));
      Session session(bundle);
      CHECK(session.forward(kIds) == expected(kIds));
      // Rewound, to where there is a snapshot and to where there is none.
      for (const int64_t position : {13, 8, 6, 1, 0}) {
        session.rewind(position);
        const std::vector<float> all = expected(kIds);
        CHECK(session.forward(std::span(kIds).subspan(static_cast<size_t>(position))) ==
              std::vector<float>(all.begin() + position * kEight, all.end()));
      }
      // The verifier's own way to run it.
      const Stepper stepper(Bundle::open(path, cpu_backend({.threads = 1})));
      const CallShape& shape = stepper.shapes().back();
      Caches caches = stepper.empty_caches(shape);
      std::vector<float> stepped;
      for (int64_t at = 0; at < 15; at += shape.most_tokens) {
        const int64_t count = std::min<int64_t>(shape.most_tokens, 15 - at);
        const StepResult r = stepper.step(
            shape, std::span(kIds).subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at, caches);
        stepped.insert(stepped.end(), r.logits.begin(), r.logits.end());
      }
      CHECK(stepped == expected(kIds));
      // What it remembers: the last two tokens, then the last three doubled.
      std::vector<float> memory;
      for (const size_t t : {13, 14})
        for (int64_t c = 0; c < kEight; ++c) memory.push_back(x_of(kIds[t], c));
      for (const size_t t : {12, 13, 14})
        for (int64_t c = 0; c < kEight; ++c) memory.push_back(2 * x_of(kIds[t], c));
      CHECK(caches.layers[0].recurrent == memory);
    }
}

TEST_CASE("bundle.json says which slot a state is, and for how many columns an `advance` is") {
  const TempFolder folder;
  const auto path = write(folder, KvKind::io, {4});
  const auto json = nlohmann::json::parse(slurp(path / kBundleFile));
  std::vector<std::string> seen;
  const auto& f = json["stages"][0]["functions"][0];
  for (const char* side : {"inputs", "outputs"})
    for (const auto& port : f[side])
      seen.push_back(fmt::format("{} {} {} {}", port["name"].get<std::string>(),
                                 port["role"].get<std::string>(), port.value("slot", 0),
                                 port.value("columns", 0)));
  CHECK(seen == std::vector<std::string>{"x stream 0 0", "advance advance 0 2", "state_0 recurrent 0 0",
                                         "advance_3 advance 0 3", "state_0_1 recurrent 1 0",
                                         "logits_0 logits 0 0", "state_new_0 new_recurrent 0 0",
                                         "state_new_0_1 new_recurrent 1 0"});
}

TEST_CASE("layers with kernels of different lengths: every form says what the reference says") {
  Model model = small_decoder(4, 2);
  model.layers[0].steps[0].block = small_conv("0.", 3);
  model.layers[2].steps[0].block = small_conv("2.", 5);
  MadeModel made(model);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back((i * i * 7 + 3 * i + 5) % static_cast<int32_t>(kVocab));
  const std::vector<float> reference = made.reference().logits(ids);
  for (const KvKind kv : {KvKind::state, KvKind::packed, KvKind::io})
    for (const bool shards :
         {false, true})  // both convolutions in one package, and in two that share no `advance`
      for (const std::vector<int64_t>& context : std::vector<std::vector<int64_t>>{{64}, {8, 64}}) {
        CAPTURE(static_cast<int>(kv));
        CAPTURE(shards);
        ConvertOptions options{.context = context, .tokens = {{1, 1}, {4, 4}}, .kv = kv};
        if (shards) options.shard_bytes = 1;
        Session session(made.bundle(options));
        CHECK(range_error(session.forward(ids), reference) < 1e-3);
        session.rewind(17);
        CHECK(range_error(session.forward(std::span(ids).subspan(17)),
                          std::span(reference).subspan(17 * static_cast<size_t>(kVocab))) < 1e-3);
      }
}
