// What is particular to one family, as far as the given models do not show it.
#include <doctest/doctest.h>

#include <cmath>

#include "anemone/error.h"
#include "families/family.h"
#include "families/tiny_model.h"
#include "support/model_parts.h"

using namespace anemone;
using test::attention_of;
using test::mlp_of;
using test::TinyModel;
using test::window_of;

namespace {

TinyModel phi() {
  TinyModel m = TinyModel::safetensors_as("Phi3ForCausalLM", "phi3");
  m.replace("self_attn.q_proj.weight", "self_attn.qkv_proj.weight", {32, 8});
  m.replace("self_attn.k_proj.weight", "", {});
  m.replace("self_attn.v_proj.weight", "", {});
  m.replace("mlp.gate_proj.weight", "mlp.gate_up_proj.weight", {24, 8});
  m.replace("mlp.up_proj.weight", "", {});
  return m;
}

// As published: the text model inside a larger one, with most sizes left to the configuration class.
TinyModel gemma_with_vision() {
  TinyModel m = TinyModel::safetensors_as("Gemma3ForConditionalGeneration", "gemma3");
  nlohmann::ordered_json text = {{"model_type", "gemma3_text"},
                                 {"hidden_size", 8},
                                 {"intermediate_size", 12},
                                 {"num_hidden_layers", 2},
                                 {"sliding_window", 1024},
                                 {"vocab_size", 10},
                                 {"head_dim", 4},
                                 {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}};
  m.config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
              {"model_type", "gemma3"},
              {"eos_token_id", {1, 5}},
              {"text_config", text}};
  m.tensors.erase("lm_head.weight");
  m.replace("self_attn.q_proj.weight", "self_attn.q_proj.weight", {32, 8});
  m.replace("self_attn.k_proj.weight", "self_attn.k_proj.weight", {16, 8});
  m.replace("self_attn.v_proj.weight", "self_attn.v_proj.weight", {16, 8});
  m.replace("self_attn.o_proj.weight", "self_attn.o_proj.weight", {8, 32});
  m.replace("-", "self_attn.q_norm.weight", {4});
  m.replace("-", "self_attn.k_norm.weight", {4});
  m.replace("-", "pre_feedforward_layernorm.weight", {8});
  m.replace("-", "post_feedforward_layernorm.weight", {8});
  std::map<std::string, std::vector<int64_t>> deeper;
  for (const auto& [name, shape] : m.tensors) deeper["language_model." + name] = shape;
  deeper["vision_tower.patch.weight"] = {3, 3};
  deeper["multi_modal_projector.weight"] = {3};
  m.tensors = deeper;
  return m;
}

}  // namespace

TEST_CASE("Phi keeps q, k, v and gate, up as rows of one tensor each") {
  const TempFolder folder;
  const Model m = describe(phi().safetensors(folder));
  const Attention& a = attention_of(m, 1);
  CHECK(a.q.weight.tensor == a.v.weight.tensor);
  CHECK(a.q.weight.row_begin == 0);
  CHECK(a.k.weight.row_begin == 16);
  CHECK(a.v.weight.row_begin == 24);
  CHECK(a.v.weight.row_end == 32);
  const GatedMlp& mlp = mlp_of(m, 1);
  CHECK(mlp.gate.weight.row_end == 12);
  CHECK(mlp.up.weight.row_begin == 12);
  CHECK(mlp.up.weight.row_end == 24);

  TinyModel wrong = phi();
  wrong.tensors["model.layers.1.self_attn.qkv_proj.weight"] = {48, 8};
  const TempFolder other;
  CHECK_THROWS_WITH_AS(describe(wrong.safetensors(other)),
                       doctest::Contains("[48, 8], expected [32, 8]: 4 query heads"), Error);
}

TEST_CASE("Phi-4-mini's attention factor comes from how much longer its context is") {
  TinyModel tiny = phi();
  tiny.config["max_position_embeddings"] = 131072;
  tiny.config["original_max_position_embeddings"] = 4096;
  tiny.config["partial_rotary_factor"] = 0.75;
  tiny.config["head_dim"] = nullptr;
  tiny.config["num_attention_heads"] = 1;
  tiny.config["num_key_value_heads"] = 1;
  tiny.config["rope_scaling"] = {
      {"type", "longrope"}, {"short_factor", {1.0, 1.0, 1.0}}, {"long_factor", {1.0, 2.0, 4.0}}};
  for (const std::string i : {"0", "1"}) {
    tiny.tensors["model.layers." + i + ".self_attn.qkv_proj.weight"] = {24, 8};
    tiny.tensors["model.layers." + i + ".self_attn.o_proj.weight"] = {8, 8};
  }
  const TempFolder folder;
  const Rope rope = describe(tiny.safetensors(folder)).ropes.at(0);
  CHECK(rope.dims == 6);
  CHECK(rope.original_context == 4096);
  CHECK(rope.attention_factor == doctest::Approx(1.1902).epsilon(1e-4));  // sqrt(1 + ln 32 / ln 4096)
}

TEST_CASE("Qwen2 has biases on q, k and v though no key says so") {
  TinyModel m = TinyModel::safetensors_as("Qwen2ForCausalLM", "qwen2");
  const TempFolder bare;
  CHECK_THROWS_WITH_AS(describe(m.safetensors(bare)), doctest::Contains("self_attn.q_proj.bias' [16]"),
                       Error);
  m.replace("-", "self_attn.q_proj.bias", {16});
  m.replace("-", "self_attn.k_proj.bias", {8});
  m.replace("-", "self_attn.v_proj.bias", {8});
  const TempFolder folder;
  CHECK(attention_of(describe(m.safetensors(folder)), 1).k.bias.rows() == 8);
}

TEST_CASE("Gemma 3 inside a model that sees is described by its text part") {
  const TempFolder folder;
  const Model m = describe(gemma_with_vision().safetensors(folder));
  CHECK(sizes_of(m).heads == 8);
  CHECK(sizes_of(m).kv_heads == 4);
  CHECK(attention_of(m, 0).scale == 1.0 / 16);
  CHECK(m.embedding.scale == doctest::Approx(std::sqrt(8.0)));
  for (const ResidualStep& step : m.layers[1].steps) {
    CHECK(step.norm_in.value().offset == 1);
    CHECK(step.norm_out.value().offset == 1);
  }
  CHECK(attention_of(m, 0).qk_norm.value().q.offset == 1);
  CHECK(attention_of(m, 0).qk_norm.value().k.offset == 1);
  CHECK(m.final_norm.value().offset == 1);
  CHECK(m.vocabulary_head().tied);
  CHECK(m.eos == std::vector<int64_t>{1, 5});
  CHECK(window_of(m, 0) == 1024);
  REQUIRE(m.ropes.size() == 2);
  CHECK(attention_of(m, 0).rope == 1);  // neither layer is a sixth one
  CHECK(m.ropes[0].base == 1e6);
  CHECK(m.ropes[0].scaling == RopeScaling::linear);
  CHECK(m.ropes[1].base == 1e4);
  CHECK(m.ropes[1].scaling == RopeScaling::none);
  CHECK(m.layers[0].steps[1].norm_out.value().gain.tensor ==
        "language_model.model.layers.0.post_feedforward_layernorm.weight");
}

TEST_CASE("Mistral's window: a number is one, null is none, absent is the class's default") {
  TinyModel m = TinyModel::safetensors_as("MistralForCausalLM", "mistral");
  m.config["max_position_embeddings"] = 32768;
  const auto window = [&] {
    const TempFolder folder;
    return window_of(describe(m.safetensors(folder)), 1);
  };
  CHECK(window() == 4096);
  m.config["sliding_window"] = nullptr;
  CHECK(window() == 0);
  m.config["sliding_window"] = 100;
  CHECK(window() == 100);
  m.config["sliding_window"] = 40000;  // longer than the context
  CHECK(window() == 0);
  m.config["sliding_window"] = 100;
  m.config.erase("model_type");  // then the architecture says that it is one
  CHECK(window() == 100);
}

TEST_CASE("Qwen's window: absent keys are the class's defaults, null is none") {
  TinyModel m = TinyModel::safetensors_as("Qwen2ForCausalLM", "qwen2");
  m.replace("-", "self_attn.q_proj.bias", {16});
  m.replace("-", "self_attn.k_proj.bias", {8});
  m.replace("-", "self_attn.v_proj.bias", {8});
  m.config["max_position_embeddings"] = 32768;
  m.config["use_sliding_window"] = true;
  const auto windows = [&] {
    const TempFolder folder;
    const Model model = describe(m.safetensors(folder));
    return std::pair(window_of(model, 0), window_of(model, 1));
  };
  CHECK(windows() == std::pair<int64_t, int64_t>(0, 0));  // from layer 28 on
  m.config["max_window_layers"] = 1;
  CHECK(windows() == std::pair<int64_t, int64_t>(0, 4096));
  m.config["sliding_window"] = nullptr;
  CHECK(windows() == std::pair<int64_t, int64_t>(0, 0));
}

TEST_CASE("keys that mean nothing in a family change nothing there") {
  TinyModel gemma = gemma_with_vision();
  gemma.config["text_config"]["attn_logit_softcapping"] = 2.0;
  gemma.config["text_config"]["hidden_act"] = "relu";
  const TempFolder folder;
  const Model m = describe(gemma.safetensors(folder));
  CHECK(attention_of(m, 0).softcap == 0);
  CHECK(mlp_of(m, 0).activation == Activation::gelu_tanh);

  TinyModel hunyuan = TinyModel::safetensors_as("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense");
  hunyuan.config["use_qk_norm"] = false;
  const TempFolder without;
  CHECK(!attention_of(describe(hunyuan.safetensors(without)), 0).qk_norm);
  hunyuan.replace("-", "self_attn.query_layernorm.weight", {4});
  hunyuan.replace("-", "self_attn.key_layernorm.weight", {4});
  const TempFolder with;
  const Model normed = describe(hunyuan.safetensors(with));
  for (const size_t layer : {0, 1}) {
    const QkNorm norm = attention_of(normed, layer).qk_norm.value();
    CHECK(norm.after_rope);
    CHECK(!norm.over_width);
  }
}

TEST_CASE("a context that config.json leaves out is the configuration class's") {
  TinyModel m = TinyModel::llama_safetensors();
  m.config.erase("max_position_embeddings");
  const TempFolder folder;
  CHECK(describe(m.safetensors(folder)).context == 2048);
}
