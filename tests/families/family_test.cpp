// Describing checkpoints: what is found, and how every contradiction is reported with both of its sides.
#include "families/family.h"

#include <doctest/doctest.h>

#include <functional>

#include "anemone/error.h"
#include "families/hparams.h"
#include "families/tiny_model.h"
#include "support/model_parts.h"

using namespace anemone;
using test::attention_of;
using test::TinyModel;

namespace {

std::string gguf_error(const std::function<void(TinyModel&)>& change) {
  TinyModel model = TinyModel::llama_gguf();
  change(model);
  const TempFolder folder;
  try {
    describe(model.gguf(folder));
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string config_error(const std::function<void(TinyModel&)>& change) {
  TinyModel model = TinyModel::llama_safetensors();
  change(model);
  const TempFolder folder;
  try {
    describe(model.safetensors(folder));
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void check_names(const std::string& message, std::initializer_list<const char*> parts) {
  INFO(message);
  for (const char* part : parts) CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a GGUF Llama is described with paired rows of q and k") {
  const TempFolder folder;
  const Model m = describe(TinyModel::llama_gguf().gguf(folder));
  CHECK(m.family == "llama");
  CHECK(m.hidden == 8);
  CHECK(sizes_of(m).heads == 4);
  CHECK(sizes_of(m).kv_heads == 2);
  CHECK(sizes_of(m).head_dim == 4);
  CHECK(m.layers.size() == 2);
  CHECK(!m.vocabulary_head().tied);
  const Attention& a = attention_of(m, 1);
  CHECK(a.scale == 0.5);
  CHECK(a.q.weight.tensor == "blk.1.attn_q.weight");
  CHECK(a.q.weight.interleaved_head == 4);
  CHECK(a.k.weight.interleaved_head == 4);
  CHECK(a.v.weight.interleaved_head == 0);
  // Rows of a head of 4 are stored as 0 2 1 3.
  const WeightRef& q = a.q.weight;
  CHECK(q.tensor_row(0) == 0);
  CHECK(q.tensor_row(1) == 2);
  CHECK(q.tensor_row(2) == 1);
  CHECK(q.tensor_row(7) == 7);
  CHECK(q.tensor_row(6) == 5);
}

TEST_CASE("a safetensors Llama is described from config.json, with every end of text") {
  const TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id": [3, 7]})");
  TinyModel tiny = TinyModel::llama_safetensors();
  tiny.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {2};  // old files carry it
  const Model m = describe(tiny.safetensors(folder));
  CHECK(m.eos == std::vector<int64_t>{2, 3, 7});
  CHECK(m.ropes.at(0).base == 20000);
  CHECK(m.ropes[0].dims == 4);
  CHECK(m.final_norm.value().eps == 1e-5);
  for (const ResidualStep& step : m.layers[0].steps) CHECK(step.norm_in.value().eps == 1e-5);
  CHECK(m.vocabulary_head().weight.tensor == "lm_head.weight");
  CHECK(attention_of(m, 0).q.weight.interleaved_head == 0);
  CHECK(!attention_of(m, 0).q.bias);
}

TEST_CASE("sizes that contradict the tensors are errors that name both") {
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.attention.head_count"] = 8; }),
              {"'blk.0.attn_q.weight' [16, 8]", "[32, 8]", "8 query heads", "'llama.attention.head_count'",
               "head size 4", "'llama.attention.key_length'"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["blk.1.attn_k.weight"] = {4, 8}; }),
              {"layer 1: key weight", "'blk.1.attn_k.weight' [4, 8]", "[8, 8]", "2 KV heads",
               "'llama.attention.head_count_kv'"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["blk.1.attn_v.weight"] = {16, 8}; }),
              {"layer 1: value weight", "[16, 8]", "[8, 8]"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["blk.0.attn_output.weight"] = {8, 8}; }),
              {"output projection", "[8, 8]", "[8, 16]", "4 query heads"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["blk.0.ffn_down.weight"] = {8, 14}; }),
              {"down weight", "[8, 14]", "[8, 12]", "'llama.feed_forward_length'"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["token_embd.weight"] = {11, 8}; }),
              {"embedding", "[11, 8]", "[10, 8]", "'llama.vocab_size'"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["output_norm.weight"] = {8, 1}; }),
              {"final norm", "[8, 1]", "[8]"});
  check_names(
      config_error([](TinyModel& m) { m.config["head_dim"] = 2; }),
      {"self_attn.", "head size 2", "'head_dim' of config.json", "'num_attention_heads' of config.json"});
  check_names(config_error([](TinyModel& m) { m.config.erase("head_dim"); }),
              {"self_attn.", "head size 2 ('head_dim' of config.json is missing)"});
}

TEST_CASE("missing and left-over tensors are errors that name them") {
  check_names(
      gguf_error([](TinyModel& m) { m.tensors.erase("blk.1.ffn_up.weight"); }),
      {"layer 1: up weight", "missing", "'blk.1.ffn_up.weight' [12, 8]", "2 layers ('llama.block_count')"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["blk.0.attn_sinks.weight"] = {4}; }),
              {"belongs to no weight", "'blk.0.attn_sinks.weight' [4]", "family llama", "2 layers"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.block_count"] = 1; }),
              {"belongs to no weight", "'blk.1.", "1 layers ('llama.block_count')"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.block_count"] = 3; }),
              {"layer 2", "missing", "'blk.2.", "3 layers ('llama.block_count')"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.block_count"] = 2000000000; }),
              {"fewer tensors than layers", "21 tensors", "2000000000 layers"});
  check_names(config_error([](TinyModel& m) { m.config["attention_bias"] = true; }),
              {"layer 0: query bias", "missing", "self_attn.q_proj.bias"});
  check_names(config_error([](TinyModel& m) { m.tensors["model.layers.0.self_attn.q_proj.bias"] = {16}; }),
              {"belongs to no weight", "self_attn.q_proj.bias"});
  check_names(config_error([](TinyModel& m) { m.tensors.erase("lm_head.weight"); }),
              {"LM head", "missing", "'lm_head.weight'"});
  CHECK(config_error([](TinyModel& m) { m.config["tie_word_embeddings"] = true; }) == "no error");
}

TEST_CASE("an unknown architecture lists the known ones") {
  check_names(
      gguf_error([](TinyModel& m) { m.architecture = "mamba"; }),
      {"not known", "mamba", "llama", "Qwen3ForCausalLM", "hunyuan-dense", "gemma3", "phi3", "qwen2"});
  check_names(config_error([](TinyModel& m) { m.config["architectures"] = {"MixtralForCausalLM"}; }),
              {"MixtralForCausalLM", "MistralForCausalLM"});
  check_names(config_error([](TinyModel& m) {
                m.config.erase("architectures");
                m.config.erase("model_type");
              }),
              {"no name at all"});
}

TEST_CASE("a family may know a checkpoint by what lies in it, before its name counts") {
  constexpr std::string_view names[] = {"LlamaForCausalLM"};
  const auto build = [](const Checkpoint&) { return Model(); };
  const Family named{.name = "named", .architectures = names, .build = build};
  const Family twin{.name = "twin", .architectures = names, .build = build};
  const auto has_head = [](const Checkpoint& c) { return c.find("lm_head.weight") != nullptr; };
  const Family looking{.name = "looking", .architectures = {}, .build = build, .claims = has_head};
  const Family looking_too{.name = "looking_too", .architectures = names, .build = build, .claims = has_head};
  using List = std::vector<const Family*>;

  const TempFolder folder, other;
  TinyModel tiny = TinyModel::llama_safetensors();
  const Checkpoint c = tiny.safetensors(folder);
  CHECK(&choose_family(c, List{&named, &looking}) == &looking);
  CHECK(&choose_family(c, List{&named}) == &named);
  CHECK_THROWS_WITH_AS(choose_family(c, List{&named, &looking, &looking_too}),
                       doctest::Contains("more than one family; found looking and looking_too"), Error);
  CHECK_THROWS_WITH_AS(choose_family(c, List{&named, &twin}), doctest::Contains("named and twin"), Error);
  tiny.tensors.erase("lm_head.weight");
  const Checkpoint without = tiny.safetensors(other);
  CHECK(&choose_family(without, List{&named, &looking_too}) == &named);
  CHECK_THROWS_WITH_AS(choose_family(without, List{&looking}), doctest::Contains("not known"), Error);
}

TEST_CASE("a checkpoint without keys is not described by its name") {
  // A graph that says what it was made from.
  struct Graph : CheckpointReader {
    Graph() : CheckpointReader({.path = "net", .architecture = "LlamaForCausalLM"}, {}) {}
    std::string_view format_name() const override { return "graph"; }
    std::optional<Naming> naming() const override { return std::nullopt; }
    std::optional<nlohmann::ordered_json> value(std::string_view) const override { return std::nullopt; }
    std::optional<uint64_t> list_size(std::string_view) const override { return std::nullopt; }
    std::optional<nlohmann::ordered_json> companion(const std::string&) const override {
      return std::nullopt;
    }
    TokenizerSource tokenizer() const override { return {}; }
  };
  const Checkpoint c(std::make_shared<Graph>());
  CHECK_THROWS_WITH_AS(
      describe(c), doctest::Contains("net: the architecture is not known; found LlamaForCausalLM"), Error);
  CHECK_THROWS_WITH_AS(Hparams{c}, doctest::Contains("net: the graph has no keys"), Error);
  constexpr std::string_view names[] = {"x"};
  const Family graphs{.name = "graphs",
                      .architectures = names,
                      .build = [](const Checkpoint&) { return Model(); },
                      .claims = [](const Checkpoint& k) { return k.format_name() == "graph"; }};
  CHECK(choose_family(c, std::vector<const Family*>{&graphs}).name == "graphs");
}

TEST_CASE("metadata that is missing, of the wrong kind or impossible is an error that names the key") {
  check_names(gguf_error([](TinyModel& m) { m.numbers.erase("llama.attention.head_count"); }),
              {"'llama.attention.head_count' is missing"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.attention.head_count_kv"] = 3; }),
              {"4 query heads", "3 KV heads", "'llama.attention.head_count_kv'"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.attention.value_length"] = 8; }),
              {"key_length", "value_length", "4", "8"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.embedding_length"] = 0; }),
              {"'llama.embedding_length'", "0"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.expert_count"] = 8; }),
              {"experts", "'llama.expert_count'"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["llama.rope.dimension_count"] = 2; }),
              {"2 of 4 dimensions"});
  check_names(gguf_error([](TinyModel& m) { m.texts["llama.rope.scaling.type"] = "spiral"; }),
              {"'llama.rope.scaling.type'", "spiral", "longrope"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["rope_freqs.weight"] = {3}; }),
              {"rope_freqs.weight", "3", "2: half of the 4"});
  check_names(gguf_error([](TinyModel& m) { m.tensors["rope_factors_long.weight"] = {2}; }),
              {"only 'rope_factors_long.weight'", "rope_factors_short.weight"});
  check_names(gguf_error([](TinyModel& m) { m.numbers["tokenizer.ggml.eos_token_id"] = 10; }),
              {"tokenizer.ggml.eos_token_id", "10", "0 to 9"});
  check_names(config_error([](TinyModel& m) { m.config["hidden_size"] = "8"; }),
              {"'hidden_size'", "\"8\"", "whole number"});
  check_names(config_error([](TinyModel& m) { m.config["hidden_act"] = "relu"; }), {"relu", "silu"});
  check_names(
      config_error([](TinyModel& m) { m.config["rope_scaling"] = {{"type", "spiral"}, {"factor", 2.0}}; }),
      {"spiral", "llama3, yarn, longrope or dynamic"});
  check_names(config_error([](TinyModel& m) { m.config["rope_scaling"] = {{"type", "dynamic"}}; }),
              {"'factor'"});
  check_names(config_error([](TinyModel& m) { m.config["rope_scaling"] = {{"rope_type", "linear"}}; }),
              {"'factor'"});
  check_names(config_error([](TinyModel& m) {
                m.config["rope_scaling"] = {
                    {"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0, 2.0}}};
              }),
              {"'short_factor'", "found 1", "2: half of the 4"});
  check_names(config_error([](TinyModel& m) {
                m.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
              }),
              {"quantised", "gptq", "GGUF"});
  check_names(config_error([](TinyModel& m) { m.config["partial_rotary_factor"] = 1.5; }),
              {"partial_rotary_factor", "1.5"});
}

TEST_CASE("the rope may be described in the old spelling, the new one, or in both alike") {
  const auto rope = [](const std::function<void(TinyModel&)>& change) {
    TinyModel model = TinyModel::llama_safetensors();
    change(model);
    const TempFolder folder;
    return describe(model.safetensors(folder)).ropes.at(0);
  };
  const Rope both = rope([](TinyModel& m) {
    m.config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
    m.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 20000.0}};
  });
  CHECK(both.scaling == RopeScaling::linear);  // as transformers reads it
  CHECK(both.base == 20000);
  const Rope dynamic = rope([](TinyModel& m) {
    m.config["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 20000.0}, {"factor", 2.0}};
  });
  CHECK(dynamic.scaling == RopeScaling::dynamic);
  CHECK(dynamic.factor == 2);
  CHECK(dynamic.original_context == TinyModel::llama_safetensors().config["max_position_embeddings"]);
  check_names(config_error([](TinyModel& m) {
                m.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1000.0}};
              }),
              {"described twice", "'rope_theta' 1000 inside", "'rope_theta' of config.json 20000 beside"});
}

TEST_CASE("a GGUF file may list unused tokens that have no row in its tables") {
  const auto vocab = [](int64_t last_type) {
    TinyModel model = TinyModel::llama_gguf();
    model.numbers.erase("llama.vocab_size");
    model.token_types = std::vector<int32_t>(12, 1);
    model.token_types[10] = 5;
    model.token_types[11] = static_cast<int32_t>(last_type);
    const TempFolder folder;
    return describe(model.gguf(folder)).vocab;
  };
  CHECK(vocab(5) == 10);
  CHECK_THROWS_WITH_AS(
      vocab(1), doctest::Contains("[10, 8], expected [12, 8]: vocabulary 12 ('tokenizer.ggml.tokens')"),
      Error);
}
