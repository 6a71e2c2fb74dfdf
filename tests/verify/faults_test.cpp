// Faults that once passed, or were given a wrong name: each must fail, at the right rung, with the right words.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/gguf_text.h"
#include "support/golden_models.h"
#include "verify/broken.h"
#include "verify/judged.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// What a bundle of the demo model is called while it is changed.
class Demo : public BundleEditor {
 public:
  explicit Demo(ConvertOptions options = {.context = {80},
                                          .tokens = {{1, 1}, {4, 4}},
                                          .precision = Precision::fp16})
      : Demo(std::make_unique<TempFolder>(), std::move(options)) {}

  void fails(int rung, const std::vector<std::string>& words) const {
    check_broken(verify(path(), quick(demo_model(), kDemoPrompt)), rung, words);
  }
  // An error, which has these words and no text of a library.
  void refused(const std::vector<std::string>& words) const {
    const std::string said = error_of([&] { verify(path(), quick(demo_model(), kDemoPrompt)); });
    for (const std::string& word : words) CHECK_MESSAGE(said.find(word) != std::string::npos, said);
    for (const char* foreign : {"std::", "vector", "_M_", "json.exception", "array index", "type must be"})
      CHECK_MESSAGE(said.find(foreign) == std::string::npos, said);
  }

 private:
  Demo(std::unique_ptr<TempFolder> folder, ConvertOptions options)
      : BundleEditor(demo_model(), *folder / "b", std::move(options)), folder_(std::move(folder)) {}

  std::unique_ptr<TempFolder> folder_;
};

constexpr const char* kHeadBytes = "head_00.mlpackage/Data/com.apple.CoreML/weights/weight.bin";

// Where the numbers of an int8 head begin: behind the blob's header, the largest part of the file.
size_t head_begin(const std::string& bytes, const BundleInfo& info) {
  return bytes.size() - static_cast<size_t>(info.vocab * info.hidden) - static_cast<size_t>(info.vocab) * 4;
}

// Insists on changing something.
void edit_layers(BundleEditor& bundle, const std::function<bool(Function&)>& change) {
  int changed = 0;
  bundle.edit([&](Function& f) { changed += change(f) ? 1 : 0; });
  CHECK(changed > 0);
}

}  // namespace

TEST_CASE("verify: single weights that a mean over the tensor hides are found") {
  Demo bundle({.context = {80}});
  const auto row = static_cast<size_t>(bundle.info().hidden);
  SUBCASE("64 KB of zeros in an int8 head") {
    bundle.edit_file(kHeadBytes, [&](std::string& bytes) {
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(head_begin(bytes, bundle.info()) + 300 * row), 65536,
                  '\0');
    });
    bundle.fails(1, {"head_0_weight", "int8"});
  }
  SUBCASE("one row of it negated") {
    bundle.edit_file(kHeadBytes, [&](std::string& bytes) {
      const size_t begin = head_begin(bytes, bundle.info()) + 777 * row;
      for (size_t i = begin; i < begin + row; ++i) bytes[i] = static_cast<char>(-bytes[i]);
    });
    bundle.fails(1, {"head_0_weight", "int8 does not explain"});
  }
  SUBCASE("two rows of the embedding in each other's place, which the prompt does not have") {
    bundle.edit_file(bundle.info().tokens.file, [&](std::string& bytes) {
      const auto at = [&](size_t id) { return bytes.begin() + static_cast<ptrdiff_t>(id * row * 2); };
      std::swap_ranges(at(1500), at(1501), at(1501));
    });
    bundle.fails(1, {"embedding", "token_embd.weight", "row 1500"});
  }
}

TEST_CASE("verify: what happens far from the start, or in one tier alone, is found") {
  SUBCASE("positions from 64 on cannot be seen") {
    Demo bundle;
    bundle.edit([](Function& f) { hide_positions(f, -1, 64, 80); });
    bundle.fails(4, {"drifts first", "attn_out", "mask", "position"});
  }
  SUBCASE("the same in the second tier") {
    Demo bundle({.context = {32, 80}, .precision = Precision::fp16});
    std::string far;
    for (const StageFunction& f : bundle.info().stages[0].functions)
      if (f.context == 80) far = f.name;
    bundle.edit([](Function& f) { hide_positions(f, -1, 40, 80); }, far);
    bundle.fails(4, {"drifts first", "attn_out", "'" + far + "'"});
  }
  SUBCASE("a norm without its floor, which only zeros in padding show") {
    Demo bundle;
    edit_layers(bundle, [](Function& f) {
      use_instead(f, "l0_attn_norm_floor", "l0_attn_norm_max");
      return find_op(f, "l0_attn_norm_max") != nullptr;
    });
    bundle.fails(4, {"layer 0", "not finite", "'t4'"});
  }
}

TEST_CASE("verify: logits of the right direction and the wrong size are found") {
  SUBCASE("ten times too large") {
    Demo bundle;
    bundle.edit([](Function& f) { multiply(f, find_input(f, "y"), 10); });
    bundle.fails(3, {"the head does not", "error", "bar"});
  }
  SUBCASE("one of three pieces 1.3 times too large") {
    Demo bundle({.context = {80}, .precision = Precision::fp16, .head_rows = 700});
    edit_layers(bundle, [](Function& f) {
      Operation *piece = find_op(f, "logits_1"), *other = find_op(f, "logits_2");
      if (!piece) return false;
      multiply(f, find_input(f, "y"), 1.3f);
      const Value* scaled = piece->value("x");
      for (Operation* op : {find_op(f, "logits_0"), other})
        for (Binding& b : op->input("x")->bindings)
          if (b.value == scaled) b.value = find_input(f, "y");
      return true;
    });
    bundle.fails(3, {"the head does not", "bar"});
  }
  SUBCASE("a soft-cap left out") {
    for (const GoldenModel& model : golden_models()) {
      if (model.name() != "models/gemma2-tiny") continue;
      const TempFolder folder;
      BundleEditor bundle(model.checkpoint, folder / "b", {.context = {80}, .precision = Precision::fp16});
      edit_layers(bundle, [](Function& f) {
        use_instead(f, "logits_0_tanh", "logits_0_small");
        return find_op(f, "logits_0_small") != nullptr;
      });
      check_broken(verify(bundle.path(), quick(model.checkpoint)), 3, {"the head does not"});
    }
  }
}

TEST_CASE("verify: small faults of the graph are found, whatever the weights' bits") {
  const ConvertOptions int8{.context = {80}, .tokens = {{1, 1}, {4, 4}}};
  Demo bundle(int8);
  SUBCASE("epsilon 100 times too large") {
    bundle.edit([](Function& f) { scale_weight(f, "l1_attn_norm_root_eps_x", 10); });
    bundle.fails(1, {"l1_attn_norm_root_eps_x", "and should be"});
  }
  SUBCASE("the query's scale 1.05 times too large") {
    bundle.edit([](Function& f) { multiply(f, find_value(f, "l2_q_scaled"), 1.05f); });
    bundle.fails(3, {"layer 2 drifts first", "attn_out", "scores"});
  }
  SUBCASE("no mask in the last layer") {
    bundle.edit([](Function& f) { use_instead(f, "l4_scores_masked", "l4_scores_heads"); });
    bundle.fails(3, {"layer 4 drifts first", "attn_out", "mask"});
  }
  SUBCASE("a stale cache in the last layer") {
    bundle.edit([](Function& f) { use_instead(f, "v_4_full", "v_4_old"); });
    bundle.fails(4, {"layer 4"});
  }
  SUBCASE("gelu for silu") {
    edit_layers(bundle, [](Function& f) {
      Value *gate = find_value(f, "gate_3"), *act = find_value(f, "l3_gate_act");
      if (!gate) return false;
      replace_by(f, act, [&](Builder& b, Value*) {
        return b.op("gelu", {{"x", gate}, {"mode", Constant::text("EXACT")}}, "l3_gate_gelu");
      });
      return true;
    });
    bundle.fails(3, {"layer 3 drifts first", "gated", "activation"});
  }
  SUBCASE("every MLP 0.9 times as large") {
    bundle.edit([](Function& f) {
      for (int i = 0; i < 5; ++i) multiply(f, find_value(f, "mlp_out_" + std::to_string(i)), 0.9f);
    });
    bundle.fails(3, {"layer 0 drifts first", "layer_out", "the sum"});
  }
  SUBCASE("a residual that is added twice") {
    edit_layers(bundle, [](Function& f) {
      Value *residual = find_value(f, "attn_residual_1"), *block = find_value(f, "mlp_out_1");
      if (!residual) return false;
      replace_by(f, block, [&](Builder& b, Value* old) {
        return b.op("add", {{"x", old}, {"y", residual}}, "mlp_out_1_and_residual");
      });
      return true;
    });
    bundle.fails(3, {"layer 1 drifts first", "layer_out", "the sum"});
  }
  SUBCASE("layer 2 left out") {
    bundle.edit([](Function& f) { use_instead(f, "layer_out_2", "layer_out_1"); });
    bundle.fails(3, {"layer 2: nothing uses its layer_out"});
  }
  SUBCASE("the last layer left out") {
    bundle.edit([](Function& f) { use_instead(f, "layer_out_4", "layer_out_3"); });
    bundle.fails(3, {"layer 4: nothing uses its layer_out", "final norm"});
    CHECK(summary(verify(bundle.path(), quick(demo_model(), kDemoPrompt))).find("the layers agree") ==
          std::string::npos);
  }
}

TEST_CASE("verify: a wrong row of the choice is found, though no text takes it") {
  Demo bundle({.context = {80}, .argmax = true, .head_rows = 700});
  SUBCASE("a table of its graph") {
    edit_layers(bundle, [](Function& f) {
      Operation* table = find_op(f, "row_low_1");
      if (!table) return false;
      std::vector<float> rows = decode_floats(*stored_constant(table->attributes.at("val")));
      rows[345] += 1;
      table->attributes.at("val") = Constant::numbers(rows, DType::fp16, table->outputs[0]->type.shape);
      return true;
    });
    bundle.fails(1, {"row_low_1", "in place 345"});
  }
  SUBCASE("what is made of the table") {
    edit_layers(bundle, [](Function& f) {
      Value* table = find_value(f, "row_low_1");
      if (!table) return false;
      replace_by(f, table, [](Builder& b, Value* old) {
        std::vector<float> more(700);
        more[345] = 1;
        return b.op("add", {{"x", old}, {"y", Constant::numbers(more, DType::fp16, {1, 700, 1, 1})}},
                    "row_low_wrong");
      });
      return true;
    });
    bundle.fails(4, {"where token 1045 is the first of the best", "picks 1046"});
  }
}

TEST_CASE("verify: the text side of a bundle is held against its source") {
  SUBCASE("a vocabulary shifted by one") {
    Demo bundle;
    bundle.edit_file(bundle.info().tokenizer, [](std::string& bytes) {
      REQUIRE(edit_gguf_strings(bytes, "tokenizer.ggml.tokens",
                                [](auto& all) { std::rotate(all.begin(), all.begin() + 1, all.end()); }));
    });
    bundle.fails(6, {"tokenizer.gguf is not the source's"});
  }
  SUBCASE("another token that ends a text") {
    Demo bundle;
    bundle.edit_info([](BundleInfo& info) { info.eos = {7}; });
    bundle.fails(1, {"bundle.json", "tokens.eos", "[7]"});
  }
  SUBCASE("another chat template") {
    for (const GoldenModel& model : golden_models()) {
      if (model.name() != "models/llama-tiny") continue;
      const TempFolder folder;
      BundleEditor bundle(model.checkpoint, folder / "b", {.context = {48}, .precision = Precision::fp16});
      bundle.edit_file("tokenizer_config.json", [](std::string& bytes) {
        auto config = nlohmann::ordered_json::parse(bytes);
        REQUIRE(config.contains("chat_template"));
        config["chat_template"] = config["chat_template"].get<std::string>() + "\n";
        bytes = config.dump();
      });
      check_broken(verify(bundle.path(), quick(model.checkpoint)), 6,
                   {"the chat template", "is not the source's"});
    }
  }
  SUBCASE("longrope's table of the other range") {
    for (const GoldenModel& model : golden_models()) {
      if (model.name() != "models/phi3-tiny") continue;
      const TempFolder folder;
      BundleEditor bundle(model.checkpoint, folder / "b", {.context = {80}, .precision = Precision::fp16});
      bundle.edit_info([](BundleInfo& info) {
        REQUIRE(!info.ropes[0].long_frequencies.empty());
        std::swap(info.ropes[0].frequencies, info.ropes[0].long_frequencies);
      });
      check_broken(verify(bundle.path(), quick(model.checkpoint)), 1,
                   {"bundle.json", "ropes[0].frequencies"});
    }
  }
}

TEST_CASE("verify: a damaged file is named, unless hashes are left out") {
  Demo bundle;
  // Space between two blobs: no number changes.
  bundle.edit_file(
      kHeadBytes, [](std::string& bytes) { bytes[40] = static_cast<char>(bytes[40] ^ 1); }, false);
  bundle.fails(1, {kHeadBytes, "is damaged", "--no-hash"});
  VerifyOptions blind = quick(demo_model(), kDemoPrompt);
  blind.hashes = false;
  check_green(verify(bundle.path(), blind));
}

TEST_CASE("verify: a bundle.json that cannot be is refused in words of its own") {
  SUBCASE("stages in another order") {
    Demo bundle;
    bundle.edit_info([](BundleInfo& info) { std::swap(info.stages[0], info.stages[1]); });
    bundle.refused({"bundle.json", "stands behind 'head_00.mlpackage'", "order"});
  }
  SUBCASE("shards in another order") {
    Demo bundle({.context = {80}, .shard_bytes = 1'500'000});
    REQUIRE(bundle.info().stages.size() > 2);
    bundle.edit_info([](BundleInfo& info) { std::swap(info.stages[0], info.stages[1]); });
    bundle.refused({"bundle.json", "layers"});
  }
  SUBCASE("layers that cannot be") {
    for (const auto& [first, last] : {std::pair{3, 1}, {-2, 3}, {0, 500}, {200, 205}}) {
      Demo bundle;
      bundle.edit_info([&](BundleInfo& info) {
        info.stages[0].first_layer = first;
        info.stages[0].last_layer = last;
      });
      bundle.refused({"layers"});
    }
  }
  SUBCASE("a choice that the packages contradict") {
    Demo bundle;
    bundle.edit_info([](BundleInfo& info) { info.argmax = true; });
    bundle.refused({"choices.argmax"});
  }
  SUBCASE("a list that is too short, and a value of another kind") {
    const auto with = [](const std::function<void(nlohmann::ordered_json&)>& change) {
      Demo bundle;
      auto json = nlohmann::ordered_json::parse(slurp(bundle.path() / kBundleFile));
      change(json);
      spill(bundle.path() / kBundleFile, json.dump());
      return bundle;
    };
    with([](auto& j) {
      j["stages"][0]["functions"][1]["tokens"] = {4};
    }).refused({"stages[0].functions[1].tokens"});
    with([](auto& j) { j["stages"][0]["layers"] = {0}; }).refused({"stages[0].layers"});
    with([](auto& j) {
      j["stages"][1]["functions"][0]["outputs"][0]["rows"] = {0};
    }).refused({"stages[1].functions[0].outputs[0].rows"});
    with([](auto& j) { j["model"]["hidden"] = "many"; }).refused({"model.hidden", "\"many\""});
    with([](auto& j) { j["ropes"][0]["frequencies"] = 3; }).refused({"ropes[0].frequencies"});
    with([](auto& j) { j["choices"].erase("kv"); }).refused({"choices.kv"});
    with([](auto& j) { j["stages"] = 3; }).refused({"stages"});
  }
}
