// A bundle of one stage whose functions a test builds op by op: for what no described model has.
//     HandBundle hand{.hidden = 8, .context = 64, .tokens = {1, 4}};
//     hand.embedding = [](int32_t id, int64_t c) { return id == c ? 1.0f : 0.0f; };
//     hand.build = [](Builder& b, HandFunction& f) { return lower::scale(b, f.x, 2, "logits_0"); };
//     auto path = hand.write(folder);
// The vocabulary is as large as the stream, and what `build` gives are the logits.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/thread_pool.h"
#include "bundle/writer.h"
#include "lower/recurrent.h"
#include "mil/builder.h"
#include "support/temp_folder.h"

namespace anemone::test {

struct HandFunction {
  int64_t tokens = 1;
  Value* x = nullptr;              // [1, hidden, tokens, 1]
  lower::RecurrentStates& states;  // of layer 0

  // [1, C, T, 1] and [1, 1, T, C], one from the other.
  static Value* turn(Builder& b, Value* x, const std::string& name) {
    return b.op("transpose", {{"x", x}, {"perm", Constant::ints({0, 3, 2, 1})}}, name);
  }
  static Value* join(Builder& b, std::vector<Value*> values, int axis, const std::string& name) {
    return b.op("concat",
                {{"values", std::move(values)},
                 {"axis", Constant::integer(axis)},
                 {"interleave", Constant::boolean(false)}},
                name);
  }
};

struct HandBundle {
  int64_t hidden = 8, context = 64;
  std::vector<int64_t> tokens = {1};
  lower::KvKind kv = lower::KvKind::state;
  std::vector<RecurrentShape> slots;
  std::function<float(int32_t id, int64_t channel)> embedding;
  std::function<Value*(Builder& b, HandFunction& f)> build;

  std::filesystem::path write(const TempFolder& folder) const {
    const std::filesystem::path path = folder / "bundle";
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    ThreadPool pool(1);
    BundleWriter writer(path, pool);
    Artifact artifact;
    artifact.name = "layers_00";
    Stage stage;
    stage.package = writer.file_name(artifact.name);
    stage.last_layer = 1;
    for (const int64_t count : tokens) {
      stage.functions.push_back(build_function(artifact.program, count));
      artifact.interfaces[stage.functions.back().name] = stage.functions.back().interface;
    }
    writer.add(std::move(artifact));
    std::string table;
    for (int32_t id = 0; id < hidden; ++id)
      for (int64_t c = 0; c < hidden; ++c) {
        const uint16_t bits = half_from_float(embedding(id, c));
        table.append(reinterpret_cast<const char*>(&bits), sizeof bits);
      }
    spill(path / "embedding.bin", table);
    BundleInfo info;
    info.hidden = info.vocab = hidden;
    info.layers = 1;
    info.tokens = {"embedding.bin", "fp16", "", hidden};
    info.stages.push_back(std::move(stage));
    writer.finish(info);
    return path;
  }

 private:
  StageFunction build_function(Program& program, int64_t count) const {
    StageFunction out{
        .name = fmt::format("t{}", count), .least_tokens = count, .most_tokens = count, .context = context};
    Function& f = add_function(program, out.name, Opset::ios18);
    Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, hidden, count, 1}));
    out.interface.inputs.push_back({"x", {.kind = Role::Kind::stream}});
    lower::RecurrentStates states;
    states.declare(f, 0, slots, {.last = 1, .context = context, .tokens = {count, count}, .kv = kv},
                   out.interface);
    Builder b(f);
    HandFunction hand{.tokens = count, .x = x, .states = states};
    Value* logits = build(b, hand);
    b.output(logits);
    out.interface.outputs.push_back({logits->name, {.kind = Role::Kind::logits, .first = 0, .last = hidden}});
    states.end(b, out.interface);
    return out;
  }
};

}  // namespace anemone::test
