// Models with experts in all the ways that they can be computed: against goldens from elsewhere, through the ladder,
// and through a session's memory.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "compress/recipe.h"
#include "convert/convert.h"
#include "corpus/corpus.h"
#include "corpus/expert_models.h"
#include "engine/cpu_backend.h"
#include "reference/reference.h"
#include "runtime/encoder.h"
#include "runtime/session.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"
#include "verify/ladder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// The largest difference, as a part of the golden's range; what is wrong, or nothing.
std::string difference(std::span<const float> got, const Array& golden) {
  const std::vector<float> expected = golden.to_float();
  if (got.size() != expected.size())
    return fmt::format("{} numbers instead of {}", got.size(), expected.size());
  const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
    if (!(d <= most)) most = d;
  }
  most /= static_cast<double>(*high) - static_cast<double>(*low);
  return most <= 1e-3 ? "" : fmt::format("an error of {:.2e} of the range", most);
}

std::string greedy_difference(const std::shared_ptr<const Bundle>& bundle, std::span<const int32_t> ids,
                              const std::vector<int32_t>& expected) {
  Session s(bundle, {.positions = static_cast<int64_t>(ids.size() + expected.size())});
  std::vector<int32_t> got = {static_cast<int32_t>(s.forward_best(ids))};
  while (got.size() < expected.size())
    got.push_back(static_cast<int32_t>(s.forward_best(std::span(&got.back(), 1))));
  return got == expected ? "" : "other greedy tokens";
}

std::string problem(const VerifyReport& r) {
  if (r.passed() && r.rungs.size() == 6) return "";
  const Rung& last = r.rungs.back();
  return fmt::format("rung {} {}: {}", last.number, last.name, last.summary);
}

// ZAYA1's older layout, made from the newer one: attention and experts are layers of their own, experts are tensors of
// their own, and names and keys differ. "" for a tensor of another model.
std::string older_name(const std::string& name, int layers) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"self_attn.qkv_proj.q_proj.", "0.self_attn.qkv.linear_q."},
      {"self_attn.qkv_proj.k_proj.", "0.self_attn.qkv.linear_k."},
      {"self_attn.qkv_proj.v_proj_current.", "0.self_attn.qkv.val_proj1."},
      {"self_attn.qkv_proj.v_proj_delayed.", "0.self_attn.qkv.val_proj2."},
      {"self_attn.qkv_proj.conv_qk_depthwise.", "0.self_attn.qkv.conv_qk.0."},
      {"self_attn.qkv_proj.conv_qk_grouped.", "0.self_attn.qkv.conv_qk.1."},
      {"self_attn.qk_norm.temp", "0.self_attn.qkv.temp"},
      {"self_attn.o_proj.", "0.self_attn.o_proj."},
      {"input_layernorm.", "0.input_norm."},
      {"post_attention_layernorm.", "1.input_norm."},
      {"post_attention_residual_scale.", "1.res_scale."},
      {"post_mlp_residual_scale.", "2.res_scale."},
      {"mlp.gate.router_mlp.norm.", "1.zaya_block.router.rmsnorm_eda."},
      {"mlp.gate.router_mlp.fc1.", "1.zaya_block.router.router_mlp.0."},
      {"mlp.gate.router_mlp.fc2.", "1.zaya_block.router.router_mlp.2."},
      {"mlp.gate.router_mlp.out_proj.", "1.zaya_block.router.router_mlp.4."},
      {"mlp.gate.", "1.zaya_block.router."},
      {"mlp.experts.gate_up_proj", "1.zaya_block.experts.local_experts.*.linear_fc1.weight"},
      {"mlp.experts.down_proj", "1.zaya_block.experts.local_experts.*.linear_fc2.weight"}};
  if (name == "model.norm.weight") return "model.final_norm.weight";
  if (name == "model.embed_tokens.weight") return name;
  if (const std::string start = "model.input_hidden_states_"; name.starts_with(start))
    return "model.layers.0.res_scale.hidden_states_" + name.substr(start.size());
  const std::string start = "model.layers.";
  if (!name.starts_with(start)) return "";
  const size_t dot = name.find('.', start.size());
  const int layer = std::stoi(name.substr(start.size()));
  const std::string rest = name.substr(dot + 1);
  for (const auto& [newer, older] : parts)
    if (rest.starts_with(newer)) {
      const int half = 2 * layer + (older[0] - '0');
      const std::string tail = older.substr(2) + rest.substr(newer.size());
      return half == 2 * layers ? "model." + tail : fmt::format("model.layers.{}.{}", half, tail);
    }
  return "";
}

// False for a model that has no such tensors.
bool write_older(const fs::path& from, const fs::path& to) {
  nlohmann::ordered_json config = read_json(from / "config.json");
  const std::string file = slurp(from / "model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto header = nlohmann::ordered_json::parse(file.substr(sizeof length, length));
  if (!header.contains("model.layers.0.self_attn.qkv_proj.conv_qk_depthwise.weight")) return false;
  const int layers = config["num_hidden_layers"];
  nlohmann::ordered_json out;
  std::string data;
  const auto add = [&](const std::string& name, const nlohmann::ordered_json& of, std::vector<int64_t> shape,
                       std::string_view bytes) {
    out[name] = {{"dtype", of["dtype"]},
                 {"shape", shape},
                 {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  };
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry["data_offsets"][0].get<size_t>(), end = entry["data_offsets"][1].get<size_t>();
    const auto bytes = std::string_view(file).substr(sizeof length + length + begin, end - begin);
    const std::string older = older_name(name, layers);
    REQUIRE_FALSE(older.empty());
    auto shape = entry["shape"].get<std::vector<int64_t>>();
    const size_t star = older.find('*');
    if (star == std::string::npos) {
      add(older, entry, shape, bytes);
      continue;
    }
    const auto experts = static_cast<size_t>(shape[0]);
    shape.erase(shape.begin());
    for (size_t e = 0; e < experts; ++e)
      add(older.substr(0, star) + std::to_string(e) + older.substr(star + 1), entry, shape,
          bytes.substr(e * (bytes.size() / experts), bytes.size() / experts));
  }
  const std::string text = out.dump();
  length = text.size();
  fs::create_directories(to);
  spill(to / "model.safetensors",
        std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
  // As in the files of that time: lists with zeros, a number of heads that is not the one in use.
  const int heads = config["num_attention_heads"], width = config["moe_intermediate_size"],
            router = config["router_hidden_size"];
  config["cca_num_q_heads"] = config["zaya_layers"] = config["zaya_mlp_expansion"] =
      nlohmann::ordered_json::array();
  for (int i = 0; i < layers; ++i) {
    config["cca_num_q_heads"].insert(config["cca_num_q_heads"].end(), {heads, 0});
    config["zaya_mlp_expansion"].insert(config["zaya_mlp_expansion"].end(), {0, router});
    config["zaya_layers"].push_back("a");
    config["zaya_layers"].push_back(config["num_experts"]);
  }
  config["num_attention_heads"] = 2 * heads;
  config["num_hidden_layers"] = 2 * layers;
  config["num_query_groups"] = config["num_key_value_heads"];
  config["ffn_hidden_size"] = 2 * width;
  config["norm_epsilon"] = config["rms_norm_eps"];
  config["moe_router_topk"] = config["num_experts_per_tok"];
  config["rope_theta"] = config["rope_parameters"]["hybrid"]["rope_theta"];
  config["partial_rotary_factor"] = config["rope_parameters"]["hybrid"]["partial_rotary_factor"];
  for (const char* key : {"layer_types", "rope_parameters", "moe_intermediate_size", "rms_norm_eps",
                          "router_hidden_size", "num_experts_per_tok"})
    config.erase(key);
  spill(to / "config.json", config.dump());
  return true;
}

}  // namespace

TEST_CASE("corpus_experts_older: ZAYA1's older layout is the same model") {
  const TempFolder folder;
  Tally tally("experts_older");
  for (const GoldenModel& model : models_with_experts()) {
    if (!model.variant.empty() || !write_older(model.checkpoint, folder / "older")) continue;
    const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
    const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder / "older"));
    const Reference reference(checkpoint, model.describe(*checkpoint), 1);
    const std::vector<float> logits = reference.logits(ids), golden = read_npy(model.logits("")).to_float();
    REQUIRE(logits.size() == golden.size());
    double most = 0;
    for (size_t i = 0; i < logits.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(logits[i]) - static_cast<double>(golden[i])));
    tally.add(model.name() + " reference", most <= 1e-4 ? "" : fmt::format("{:.2e}", most));
    for (const Way& way : ways()) {
      convert(folder / "older", folder / "b", options_of(model, way, true));
      Session s(Bundle::open(folder / "b", cpu_backend({})), {.positions = kContext});
      tally.add(fmt::format("{} {}", model.name(), way.name),
                difference(s.forward(ids), read_npy(model.logits(""))));
    }
  }
}

TEST_CASE("corpus_experts: every way to compute experts gives what transformers gives, and is green") {
  const TempFolder folder;
  Tally tally("experts");
  for (const GoldenModel& model : models_with_experts()) {
    const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
    const bool decoder = is_text_model(model);
    for (const Way& way : ways()) {
      const std::string name = fmt::format("{} {}", model.name(), way.name);
      convert(model.checkpoint, folder / "b", options_of(model, way, decoder));
      const auto bundle = Bundle::open(folder / "b", cpu_backend({}));
      CHECK(bundle->info().routes() == (way.way != ExpertWay::all));
      const Array golden = read_npy(model.logits(""));
      if (decoder) {
        Session one(bundle, {.positions = kContext, .function = "t1"}),
            chunks(bundle, {.positions = kContext});
        tally.add(name + " one by one", difference(one.forward(ids), golden));
        tally.add(name + " in chunks", difference(chunks.forward(ids), golden));
        if (model.exact("") && fs::exists(model.golden / "greedy_ids.npy"))
          tally.add(name + " greedy",
                    greedy_difference(bundle, ids, read_ids(model.golden / "greedy_ids.npy")));
      } else {
        tally.add(name, difference(Encoder(bundle).encode({.ids = ids}).classes, golden));
      }
      tally.add(
          name + " verify",
          problem(verify(folder / "b", {.source = model.checkpoint, .steps = 8, .backend = cpu_backend})));
    }
  }
}

// Rounding in half makes routers of two layers choose otherwise here. Each choice is as good, and the truth takes both.
TEST_CASE("corpus_expert_ties: near ties in several layers are no fault") {
  const TempFolder folder;
  Tally tally("expert_ties");
  const auto recipe = [](const char* form) {
    return parse_recipe(fmt::format(
        R"({{"min_size": 64, "skip": ["classes*"], "rules": [{{"op": "conv", {}}}, {{"keep": true}}]}})",
        form));
  };
  for (const GoldenModel& model : models_with_experts()) {
    if (!model.variant.empty() || is_text_model(model)) continue;
    for (const char* form : {R"("palettize": {"bits": 6})", R"("prune": {"sparsity": 0.3})"})
      for (const Way& way : ways()) {
        ConvertOptions o = options_of(model, way, false);
        o.tokens = {{24, 24}};
        o.recipe = recipe(form);
        convert(model.checkpoint, folder / "b", o);
        const VerifyReport r = verify(folder / "b", {.source = model.checkpoint, .backend = cpu_backend});
        tally.add(fmt::format("{} {} {}", model.name(), way.name, form), problem(r));
      }
  }
}

// A router that skips adds its input in one reading of the model, and nothing in the other.
TEST_CASE("corpus_experts_skip: both meanings of a skip, in every way") {
  const TempFolder folder;
  Tally tally("experts_skip");
  for (const GoldenModel& model : models_with_experts()) {
    if (model.skip().empty()) continue;
    const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
    for (const Way& way : ways())
      for (const char* skip : {"zero", "pass"}) {
        ConvertOptions o = options_of(model, way, true);
        o.skip = skip;
        convert(model.checkpoint, folder / "b", o);
        Session s(Bundle::open(folder / "b", cpu_backend({})), {.positions = kContext});
        const bool pass = std::string_view(skip) == "pass";
        tally.add(
            fmt::format("{} {} {}", model.name(), way.name, skip),
            difference(s.forward(ids), read_npy(model.golden / (pass ? "skipid_logits.npy" : "logits.npy"))));
      }
  }
}

TEST_CASE("corpus_experts_memory: sessions fork, rewind and slide, and their experts come along") {
  const TempFolder folder;
  Tally tally("experts_memory");
  for (const GoldenModel& model : models_with_experts()) {
    if (!model.variant.empty() || !is_text_model(model)) continue;
    const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
    for (const Way& way : ways()) {
      ConvertOptions o = options_of(model, way, true);
      o.context = {16, kContext};  // the text goes from the first tier to the second
      convert(model.checkpoint, folder / "b", o);
      const auto bundle = Bundle::open(folder / "b", cpu_backend({}));
      const auto tail = std::span(ids).subspan(ids.size() - 3);
      Session plain(bundle, {.positions = kContext}), other(bundle, {.positions = kContext});
      plain.forward(std::span(ids).first(ids.size() - 3), true);
      const std::vector<float> expected = plain.fork().forward(tail, true);
      other.forward(ids, true);
      other.rewind(static_cast<int64_t>(ids.size()) - 3);
      const std::vector<float> again = other.forward(tail, true);
      double most = 0;
      for (size_t i = 0; i < expected.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(again[i]) - static_cast<double>(expected[i])));
      tally.add(fmt::format("{} {}", model.name(), way.name),
                most <= 1e-4 ? "" : fmt::format("logits differ by {:.2e}", most));
    }
  }
}
