// A layer with two recurrent states of different lengths, made by hand:
//     y_t = x_t + x_(t-2) + 2 x_(t-3)
// Slot 0 holds the last two columns of x, slot 1 the last three of 2 x. The logits are y, so all can be worked out.
#include <doctest/doctest.h>

#include "lower/ops.h"
#include "lower/recurrent.h"
#include "runtime/session.h"
#include "support/made_model.h"
#include "verify/stepper.h"

using namespace anemone;
using namespace anemone::test;
using lower::KvKind;

namespace {

constexpr int64_t kWide = 8, kContext = 64;  // kWide: hidden and vocabulary alike
const std::vector<int32_t> kIds = {3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 7, 2, 2, 6};

// What the embedding holds: eighths, so that every sum below is exact in half.
float x_of(int32_t id, int64_t c) { return static_cast<float>((id * 5 + c * 3) % 17 - 8) / 8; }

std::vector<float> expected(std::span<const int32_t> ids) {
  std::vector<float> out;
  for (size_t t = 0; t < ids.size(); ++t)
    for (int64_t c = 0; c < kWide; ++c)
      out.push_back(x_of(ids[t], c) + (t >= 2 ? x_of(ids[t - 2], c) : 0) +
                    (t >= 3 ? 2 * x_of(ids[t - 3], c) : 0));
  return out;
}

Value* turned(Builder& b, Value* x, const char* name) {
  return b.op("transpose", {{"x", x}, {"perm", Constant::ints({0, 3, 2, 1})}}, name);
}

// `fresh` delayed by the columns of a slot.
Value* delayed(Builder& b, lower::RecurrentStates& states, size_t slot, Value* fresh, int64_t tokens) {
  const std::string at = fmt::format("slot{}_", slot);
  Value* all = b.op("concat",
                    {{"values", std::vector<Value*>{states.read(b, 0, slot), fresh}},
                     {"axis", Constant::integer(2)},
                     {"interleave", Constant::boolean(false)}},
                    at + "columns");
  states.write(b, 0, slot, states.last_columns(b, 0, slot, all));
  return lower::slice_axis(b, all, 2, 0, tokens, at + "delayed");
}

StageFunction build(Program& program, int64_t tokens, KvKind kv) {
  StageFunction out{.name = fmt::format("t{}", tokens),
                    .least_tokens = tokens,
                    .most_tokens = tokens,
                    .context = kContext};
  Function& f = add_function(program, out.name, Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, kWide, tokens, 1}));
  out.interface.inputs.push_back({"x", {.kind = Role::Kind::stream}});
  lower::RecurrentStates states;
  const std::vector<RecurrentShape> slots = {{.columns = 2, .width = kWide}, {.columns = 3, .width = kWide}};
  states.declare(f, 0, slots, {.last = 1, .context = kContext, .tokens = {tokens, tokens}, .kv = kv},
                 out.interface);
  Builder b(f);
  Value* fresh = turned(b, x, "fresh");
  Value* one = delayed(b, states, 0, fresh, tokens);
  Value* two = delayed(b, states, 1, lower::scale(b, fresh, 2, "doubled"), tokens);
  Value* past = turned(b, lower::add(b, one, two, "past"), "past_turned");
  b.output(lower::add(b, x, past, "logits_0"));
  out.interface.outputs.push_back({"logits_0", {.kind = Role::Kind::logits, .first = 0, .last = kWide}});
  states.end(b, out.interface);
  return out;
}

std::filesystem::path write(const TempFolder& folder, KvKind kv, const std::vector<int64_t>& tokens) {
  const std::filesystem::path path = folder / "bundle";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  ThreadPool pool(1);
  BundleWriter writer(path, pool);
  Artifact artifact{.name = "layers_00"};
  artifact.stage.last_layer = 1;
  for (const int64_t count : tokens) artifact.stage.functions.push_back(build(artifact.program, count, kv));
  writer.add(artifact);
  std::string table;
  for (int32_t id = 0; id < kWide; ++id)
    for (int64_t c = 0; c < kWide; ++c) {
      const uint16_t bits = half_from_float(x_of(id, c));
      table.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    }
  spill(path / "embedding.bin", table);
  BundleInfo info;
  info.hidden = info.vocab = kWide;
  info.layers = 1;
  info.tokens = {"embedding.bin", "fp16", "", kWide};
  info.stages.push_back(std::move(artifact.stage));
  writer.finish(info);
  return path;
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
              std::vector<float>(all.begin() + position * kWide, all.end()));
      }
      // The verifier's own way to run it.
      Stepper stepper(path, {.threads = 1, .backend = cpu_backend});
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
        for (int64_t c = 0; c < kWide; ++c) memory.push_back(x_of(kIds[t], c));
      for (const size_t t : {12, 13, 14})
        for (int64_t c = 0; c < kWide; ++c) memory.push_back(2 * x_of(kIds[t], c));
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
    for (const bool shards : {false, true})  // both convolutions in one package, and in two that share no `advance`
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
