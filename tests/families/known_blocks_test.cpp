// Families whose layers are not Llama's: short convolutions, norms behind the blocks, layers without rotation,
// multipliers. Sizes and defaults are those of transformers' configuration classes.
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

Model described(const TinyModel& tiny) {
  const TempFolder folder;
  return describe(tiny.config.empty() ? tiny.gguf(folder) : tiny.safetensors(folder));
}

std::string refusal(const TinyModel& tiny) {
  return error_of([&] { described(tiny); });
}

void check_says(const std::string& message, std::initializer_list<const char*> parts) {
  INFO(message);
  for (const char* part : parts) CHECK(message.find(part) != std::string::npos);
}

// Layer 0 is a convolution of three taps, layer 1 attends.
TinyModel lfm2() {
  TinyModel m = TinyModel::safetensors_as("Lfm2ForCausalLM", "lfm2");
  for (const char* key :
       {"intermediate_size", "rms_norm_eps", "tie_word_embeddings", "rope_theta", "max_position_embeddings"})
    m.config.erase(key);
  m.config["layer_types"] = {"conv", "full_attention"};
  m.config["block_ff_dim"] = 12;
  m.config["block_auto_adjust_ff_dim"] = false;
  m.tensors.erase("lm_head.weight");
  m.tensors.erase("model.norm.weight");
  m.tensors["model.embedding_norm.weight"] = {8};
  m.replace("input_layernorm.weight", "operator_norm.weight", {8});
  m.replace("post_attention_layernorm.weight", "ffn_norm.weight", {8});
  m.replace("mlp.gate_proj.weight", "feed_forward.w1.weight", {12, 8});
  m.replace("mlp.up_proj.weight", "feed_forward.w3.weight", {12, 8});
  m.replace("mlp.down_proj.weight", "feed_forward.w2.weight", {8, 12});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    m.replace_in("0", std::string("self_attn.") + name + ".weight", "", {});
  m.replace_in("0", "-", "conv.in_proj.weight", {24, 8});
  m.replace_in("0", "-", "conv.conv.weight", {8, 1, 3});
  m.replace_in("0", "-", "conv.out_proj.weight", {8, 8});
  m.replace_in("1", "self_attn.o_proj.weight", "self_attn.out_proj.weight", {8, 16});
  m.replace_in("1", "-", "self_attn.q_layernorm.weight", {4});
  m.replace_in("1", "-", "self_attn.k_layernorm.weight", {4});
  return m;
}

TinyModel lfm2_gguf() {
  TinyModel m = TinyModel::gguf_as("lfm2");
  m.numbers.erase("lfm2.attention.head_count_kv");
  m.lists["lfm2.attention.head_count_kv"] = {0, 2};
  m.numbers["lfm2.shortconv.l_cache"] = 3;
  m.tensors.erase("output.weight");
  m.tensors.erase("output_norm.weight");
  m.tensors["token_embd_norm.weight"] = {8};
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    m.replace_in("0", std::string(name) + ".weight", "", {});
  m.replace_in("0", "-", "shortconv.in_proj.weight", {24, 8});
  m.replace_in("0", "-", "shortconv.conv.weight", {8, 3});
  m.replace_in("0", "-", "shortconv.out_proj.weight", {8, 8});
  m.replace_in("1", "-", "attn_q_norm.weight", {4});
  m.replace_in("1", "-", "attn_k_norm.weight", {4});
  return m;
}

TinyModel olmo2() {
  TinyModel m = TinyModel::safetensors_as("Olmo2ForCausalLM", "olmo2");
  m.replace("input_layernorm.weight", "post_feedforward_layernorm.weight", {8});
  m.replace("-", "self_attn.q_norm.weight", {16});
  m.replace("-", "self_attn.k_norm.weight", {8});
  return m;
}

}  // namespace

TEST_CASE("LFM2: short convolutions in the layers that say so, attention with head norms in the others") {
  for (const TinyModel& tiny : {lfm2(), lfm2_gguf()}) {
    const bool gguf = tiny.config.empty();
    CAPTURE(gguf);
    const Model m = described(tiny);
    CHECK(m.family == "lfm2");
    const auto* conv = std::get_if<ShortConv>(&m.layers[0].steps[0].block);
    REQUIRE(conv);
    CHECK(conv->width == 8);
    CHECK(conv->kernel == 3);
    CHECK(conv->recurrent().at(0).columns == 2);
    CHECK(conv->recurrent().at(0).width == 8);
    // B, C, x: the inner gate, the outer gate, what is gated.
    CHECK(conv->gate_in.weight.row_begin == 0);
    CHECK(conv->gate_out.weight.row_begin == 8);
    CHECK(conv->value.weight.row_begin == 16);
    CHECK(conv->value.weight.row_end == 24);
    CHECK(conv->taps.tensor == (gguf ? "blk.0.shortconv.conv.weight" : "model.layers.0.conv.conv.weight"));
    CHECK(find_attention(m.layers[0]) == nullptr);
    REQUIRE(find_attention(m.layers[1]));
    const QkNorm norm = attention_of(m, 1).qk_norm.value();
    CHECK(!norm.after_rope);
    CHECK(!norm.over_width);
    CHECK(sizes_of(m).kv_heads == 2);
    CHECK(mlp_of(m, 0).width == 12);
    CHECK(m.vocabulary_head().tied);
    CHECK(m.final_norm.value().gain.tensor ==
          (gguf ? "token_embd_norm.weight" : "model.embedding_norm.weight"));
    CHECK(m.causal());
  }
}

TEST_CASE("LFM2: what config.json leaves out is the configuration class's") {
  const Model m = described(lfm2());
  CHECK(m.ropes.at(0).base == 1000000);
  CHECK(m.context == 128000);
  CHECK(m.final_norm.value().eps == 1e-5);
  CHECK(mlp_of(m, 0).activation == Activation::silu);
}

TEST_CASE("LFM2: which layers attend, in both spellings; without either all do") {
  TinyModel m = lfm2();
  m.config.erase("layer_types");
  m.config["full_attn_idxs"] = {1};
  CHECK(std::holds_alternative<ShortConv>(described(m).layers[0].steps[0].block));
  m.config.erase("full_attn_idxs");
  check_says(refusal(m), {"layer 0", "missing", "self_attn.q_proj.weight"});
  m.config["full_attn_idxs"] = {2};
  check_says(refusal(m), {"'full_attn_idxs'", "2"});
  m.config["layer_types"] = {"conv", "mamba"};
  check_says(refusal(m), {"'layer_types'", "mamba", "conv or full_attention"});
  m.config["layer_types"] = {"conv"};
  check_says(refusal(m), {"'layer_types'", "1", "2"});
}

TEST_CASE("LFM2: the width of the MLP is adjusted as transformers adjusts it") {
  const auto width = [](nlohmann::ordered_json keys) {
    TinyModel m = lfm2();
    m.config.erase("block_ff_dim");
    m.config.erase("block_auto_adjust_ff_dim");
    for (const auto& [key, value] : keys.items()) m.config[key] = value;
    return mlp_of(describe(Checkpoint::from_config(m.config, "tiny")), 0).width;
  };
  CHECK(width({{"block_ff_dim", 200}, {"block_auto_adjust_ff_dim", false}}) == 200);
  CHECK(width({{"intermediate_size", 200}, {"block_auto_adjust_ff_dim", false}}) ==
        200);                                    // the newer spelling
  CHECK(width({{"block_ff_dim", 200}}) == 256);  // int(400 / 3) = 133, to a multiple of 256
  CHECK(width({{"block_ff_dim", 200}, {"block_multiple_of", 32}}) == 160);  // 133 → 160
  CHECK(width({{"block_ff_dim", 200}, {"block_multiple_of", 32}, {"block_ffn_dim_multiplier", 1.5}}) ==
        224);  // 199
  CHECK(width({{"block_ff_dim", 200}, {"block_ffn_dim_multiplier", nullptr}}) == 133);
  CHECK(width(nlohmann::ordered_json::object()) == 8192);  // of 12288
}

TEST_CASE("LFM2: a mixture of experts and convolutions with biases are refused by name") {
  TinyModel m = lfm2();
  m.config["conv_bias"] = true;
  check_says(refusal(m), {"biases are not supported", "'conv_bias'"});
  m.config["conv_bias"] = false;
  m.config["num_experts"] = 8;
  check_says(refusal(m), {"mixture of experts", "8 experts"});
  TinyModel taps = lfm2();
  taps.replace_in("0", "-", "conv.conv.weight", {8, 1, 4});
  check_says(refusal(taps), {"taps of the convolution", "[8, 1, 4]", "[8, 3]", "3 taps"});
  TinyModel biased = lfm2();
  biased.replace_in("0", "-", "conv.conv.bias", {8});
  check_says(refusal(biased), {"belongs to no weight", "conv.conv.bias"});
}

TEST_CASE("LFM2 as GGUF: windows, and layers with different key heads, are refused by name") {
  TinyModel m = lfm2_gguf();
  m.numbers["lfm2.attention.sliding_window"] = 8;
  check_says(refusal(m), {"sliding-window layers", "'lfm2.attention.sliding_window'"});
  m = lfm2_gguf();
  m.lists["lfm2.attention.head_count_kv"] = {1, 2};
  check_says(refusal(m), {"'lfm2.attention.head_count_kv'", "differs from layer to layer", "layer 1"});
}

TEST_CASE("LFM2: a width that contradicts the tensors is named by the key that the file has") {
  TinyModel m = lfm2();
  m.config["block_ff_dim"] = 16;
  check_says(refusal(m), {"MLP size 16 ('block_ff_dim' of config.json)"});
}

TEST_CASE("Granite: a multiplier that half precision cannot hold is refused") {
  for (const char* key :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"})
    for (const double value : {1e30, 1e-30, 65505.0, 1.5e-5}) {
      TinyModel tiny = TinyModel::safetensors_as("GraniteForCausalLM", "granite");
      tiny.config[key] = value;
      check_says(refusal(tiny), {key, "out of range"});
    }
}

TEST_CASE("Granite: four multipliers, 1 where config.json does not say them") {
  TinyModel tiny = TinyModel::safetensors_as("GraniteForCausalLM", "granite");
  Model m = described(tiny);
  CHECK(m.embedding.scale == 1);
  CHECK(attention_of(m, 0).scale == 1);  // of the class, not 1/sqrt(head size)
  CHECK(m.layers[1].steps[1].scale == 1);
  CHECK(m.vocabulary_head().scale == 1);
  CHECK(!m.vocabulary_head().tied);
  tiny.config["embedding_multiplier"] = 12.0;
  tiny.config["attention_multiplier"] = 0.015625;
  tiny.config["residual_multiplier"] = 0.22;
  tiny.config["logits_scaling"] = 8.0;
  m = described(tiny);
  CHECK(m.embedding.scale == 12);
  CHECK(attention_of(m, 1).scale == 0.015625);
  for (const ResidualStep& step : m.layers[0].steps) CHECK(step.scale == 0.22);
  CHECK(m.vocabulary_head().scale == 0.125);
  tiny.config["logits_scaling"] = 0.0;
  check_says(refusal(tiny), {"'logits_scaling'", "positive"});
  tiny.config["logits_scaling"] = -1.0;
  check_says(refusal(tiny), {"'logits_scaling'", "positive", "-1"});
}

TEST_CASE("Granite as GGUF: rows of q and k in pairs; a multiplier that is 0 or absent is off") {
  TinyModel tiny = TinyModel::gguf_as("granite");
  tiny.fractions = {{"granite.embedding_scale", 12},
                    {"granite.attention.scale", 0},
                    {"granite.residual_scale", 0.5},
                    {"granite.logit_scale", 4}};
  const Model m = described(tiny);
  CHECK(attention_of(m, 0).q.weight.interleaved_head == 4);
  CHECK(attention_of(m, 0).scale == 0.5);  // 1/sqrt(4)
  CHECK(m.embedding.scale == 12);
  CHECK(m.layers[0].steps[0].scale == 0.5);
  CHECK(m.vocabulary_head().scale == 0.25);
  tiny.fractions.clear();
  CHECK(described(tiny).layers[0].steps[0].scale == 1);
  tiny.numbers["granite.expert_count"] = 40;
  check_says(refusal(tiny), {"mixture of experts", "40 experts"});
}

TEST_CASE("OLMo 2: norms behind the blocks and over the width of q and k") {
  TinyModel tiny = olmo2();
  tiny.config.erase("rope_theta");
  tiny.config.erase("rms_norm_eps");
  const Model m = described(tiny);
  for (const ResidualStep& step : m.layers[1].steps) {
    CHECK(!step.norm_in);
    CHECK(step.norm_out.has_value());
  }
  CHECK(m.layers[1].steps[0].norm_out->gain.tensor == "model.layers.1.post_attention_layernorm.weight");
  CHECK(m.layers[1].steps[1].norm_out->gain.tensor == "model.layers.1.post_feedforward_layernorm.weight");
  const QkNorm norm = attention_of(m, 0).qk_norm.value();
  CHECK(norm.over_width);
  CHECK(norm.q.gain.rows() == 16);
  CHECK(norm.k.gain.rows() == 8);
  CHECK(m.ropes.at(0).base == 500000);
  CHECK(m.final_norm.value().eps == 1e-5);

  tiny.replace("-", "self_attn.q_norm.weight", {4});  // of a head: another family's
  check_says(refusal(tiny), {"norm of the query", "[4]", "[16]", "4 query heads"});
  tiny = olmo2();
  tiny.replace("-", "input_layernorm.weight", {8});
  check_says(refusal(tiny), {"belongs to no weight", "input_layernorm"});
}

TEST_CASE("OLMo 2 as GGUF: files of OLMo 3 have the same name, and windows") {
  TinyModel tiny = TinyModel::gguf_as("olmo2");
  tiny.replace("attn_norm.weight", "post_attention_norm.weight", {8});
  tiny.replace("ffn_norm.weight", "post_ffw_norm.weight", {8});
  tiny.replace("-", "attn_q_norm.weight", {16});
  tiny.replace("-", "attn_k_norm.weight", {8});
  CHECK(described(tiny).ropes.at(0).base == 10000);
  tiny.numbers["olmo2.attention.sliding_window"] = 4096;
  check_says(refusal(tiny), {"sliding-window layers", "'olmo2.attention.sliding_window'"});
}

TEST_CASE("SmolLM3: every fourth layer rotates nothing, or those that the list says") {
  TinyModel tiny = TinyModel::safetensors_as("SmolLM3ForCausalLM", "smollm3");
  for (const char* key : {"rope_theta", "tie_word_embeddings", "max_position_embeddings", "rms_norm_eps"})
    tiny.config.erase(key);
  tiny.tensors.erase("lm_head.weight");
  const auto rotates = [&] {
    const Model m = described(tiny);
    return std::pair(attention_of(m, 0).rope.has_value(), attention_of(m, 1).rope.has_value());
  };
  CHECK(rotates() == std::pair(true, true));
  tiny.config["no_rope_layer_interval"] = 2;
  CHECK(rotates() == std::pair(true, false));
  tiny.config["no_rope_layers"] = {0, 1};  // 1: rotates
  CHECK(rotates() == std::pair(false, true));
  const Model m = described(tiny);
  CHECK(m.vocabulary_head().tied);
  CHECK(m.ropes.at(0).base == 2000000);
  CHECK(m.context == 32768);
  CHECK(m.final_norm.value().eps == 1e-6);
  tiny.config["no_rope_layers"] = {0, 1, 1};
  check_says(refusal(tiny), {"'no_rope_layers'", "3", "2"});
}

TEST_CASE("SmolLM3: windows only where the configuration asks for them") {
  TinyModel tiny = TinyModel::safetensors_as("SmolLM3ForCausalLM", "smollm3");
  tiny.config["no_rope_layers"] = {1, 0};
  tiny.config["sliding_window"] = 16;
  CHECK(window_of(described(tiny), 1) == 0);
  tiny.config["use_sliding_window"] = true;
  Model m = described(tiny);
  CHECK(window_of(m, 0) == 0);
  CHECK(window_of(m, 1) == 16);  // the layers without rotation
  tiny.config["layer_types"] = {"sliding_attention", "full_attention"};
  m = described(tiny);
  CHECK(window_of(m, 0) == 16);
  CHECK(window_of(m, 1) == 0);
  tiny.config["layer_types"] = {"chunked_attention", "full_attention"};
  check_says(refusal(tiny), {"'layer_types'", "chunked_attention"});
}

TEST_CASE("SmolLM3 as GGUF: rows in pairs, and every fourth layer by rule") {
  TinyModel tiny = TinyModel::gguf_as("smollm3");
  const Model m = described(tiny);
  CHECK(attention_of(m, 0).q.weight.interleaved_head == 4);
  CHECK(attention_of(m, 0).rope.has_value());
}

// Experts in both layers, or in the second alone.
TinyModel qwen2_moe(bool mixed = false) {
  TinyModel m = TinyModel::safetensors_as("Qwen2MoeForCausalLM", "qwen2_moe");
  m.config["num_experts"] = 3;
  m.config["num_experts_per_tok"] = 2;
  m.config["moe_intermediate_size"] = 5;
  m.config["shared_expert_intermediate_size"] = 6;
  if (mixed) m.config["mlp_only_layers"] = {0};
  for (const std::string layer : {"0", "1"}) {
    for (const char* name : {"q_proj", "k_proj", "v_proj"})
      m.replace_in(layer, "-", std::string("self_attn.") + name + ".bias", {name[0] == 'q' ? 16 : 8});
    if (mixed && layer == "0") continue;
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = name[0] == 'd';
      const auto shape = [&](int64_t width) {
        return down ? std::vector<int64_t>{8, width} : std::vector<int64_t>{width, 8};
      };
      m.replace_in(layer, std::string("mlp.") + name + ".weight", "", {});
      m.replace_in(layer, "-", std::string("mlp.shared_expert.") + name + ".weight", shape(6));
      for (const char* i : {"0", "1", "2"})
        m.replace_in(layer, "-", std::string("mlp.experts.") + i + "." + name + ".weight", shape(5));
    }
    m.replace_in(layer, "-", "mlp.gate.weight", {3, 8});
    m.replace_in(layer, "-", "mlp.shared_expert_gate.weight", {1, 8});
  }
  return m;
}

TinyModel qwen2_moe_gguf() {
  TinyModel m = TinyModel::gguf_as("qwen2moe");
  m.numbers["qwen2moe.expert_count"] = 3;
  m.numbers["qwen2moe.expert_used_count"] = 2;
  for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
    const bool down = name[4] == 'd';
    const std::string at = name;
    m.replace(at + ".weight", at + "_exps.weight",
              down ? std::vector<int64_t>{3, 8, 6} : std::vector<int64_t>{3, 6, 8});
    m.replace("-", at + "_shexp.weight", down ? std::vector<int64_t>{8, 12} : std::vector<int64_t>{12, 8});
  }
  m.replace("-", "ffn_gate_inp.weight", {3, 8});
  m.replace("-", "ffn_gate_inp_shexp.weight", {8});
  return m;
}

const Experts& experts_of(const Model& m, size_t layer) {
  return std::get<Experts>(m.layers.at(layer).steps.at(1).block);
}

TEST_CASE("Qwen2-MoE: a shared expert beside the others, biases of q, k and v, layers without experts") {
  Model m = described(qwen2_moe());
  CHECK(m.family == "qwen2-moe");
  CHECK(attention_of(m, 0).q.bias.tensor == "model.layers.0.self_attn.q_proj.bias");
  CHECK(!attention_of(m, 0).o.bias);
  const Experts& e = experts_of(m, 1);
  CHECK(e.share == Experts::Share::of_all);  // without the key
  CHECK(e.count() == 3);
  CHECK(e.shared.value().mlp.width == 6);
  CHECK(e.shared->share.weight == WeightRef{"model.layers.1.mlp.shared_expert_gate.weight", 0, 1, 8});
  m = described(qwen2_moe(true));
  CHECK(mlp_of(m, 0).width == 12);
  CHECK(experts_of(m, 1).used == 2);
  TinyModel tiny = qwen2_moe(true);
  tiny.config["mlp_only_layers"] = nlohmann::ordered_json::array();
  tiny.config["decoder_sparse_step"] = 2;
  tiny.config["norm_topk_prob"] = true;
  CHECK(experts_of(described(tiny), 1).share == Experts::Share::of_chosen);
  tiny = qwen2_moe();
  tiny.config["qkv_bias"] = false;
  check_says(refusal(tiny), {"belongs to no weight", "self_attn.k_proj.bias"});
  tiny = qwen2_moe();
  tiny.replace("-", "mlp.shared_expert_gate.weight", {1, 7});
  check_says(refusal(tiny), {"layer 0: share of the shared expert", "[1, 7]", "[1, 8]"});
  tiny = qwen2_moe();
  tiny.replace("mlp.shared_expert.up_proj.weight", "", {});
  check_says(refusal(tiny), {"up weight of the shared expert: the tensor is missing"});
  tiny = qwen2_moe();
  tiny.config["shared_expert_intermediate_size"] = 9;
  check_says(refusal(tiny),
             {"shared expert's size 9 ('shared_expert_intermediate_size' of config.json)", "[6, 8]"});
}

TEST_CASE("Qwen2-MoE: windows where the configuration asks for them, in every second layer") {
  TinyModel tiny = qwen2_moe();
  tiny.config["sliding_window"] = 16;
  CHECK(window_of(described(tiny), 0) == 0);
  tiny.config["use_sliding_window"] = true;
  CHECK(window_of(described(tiny), 0) == 16);
  CHECK(window_of(described(tiny), 1) == 0);
  tiny.config["max_window_layers"] = 0;
  CHECK(window_of(described(tiny), 0) == 0);
  tiny.config["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(window_of(described(tiny), 1) == 16);
}

TEST_CASE("Qwen2-MoE as GGUF: the share is a vector, and old files do not say how wide experts are") {
  TinyModel tiny = qwen2_moe_gguf();
  const Model m = described(tiny);
  CHECK(experts_of(m, 0).width == 6);  // 12 / 2
  CHECK(experts_of(m, 0).share == Experts::Share::of_all);
  CHECK(experts_of(m, 0).shared.value().mlp.width == 12);
  CHECK(experts_of(m, 0).shared->share.weight.transposed);
  CHECK(!attention_of(m, 0).q.bias);
  tiny.replace("-", "ffn_gate_inp_shexp.weight", {1, 8});
  CHECK(!experts_of(described(tiny), 0).shared->share.weight.transposed);
  tiny.numbers["qwen2moe.expert_feed_forward_length"] = 5;
  check_says(refusal(tiny), {"gate weight", "[3, 6, 8]", "[3, 5, 8]"});
  tiny.numbers["qwen2moe.expert_feed_forward_length"] = 6;
  tiny.numbers["qwen2moe.expert_shared_feed_forward_length"] = 7;
  check_says(refusal(tiny), {"gate weight of the shared expert", "[12, 8]", "[7, 8]"});
  tiny.numbers.erase("qwen2moe.expert_shared_feed_forward_length");
  tiny.fractions["qwen2moe.expert_weights_scale"] = 2.5;
  check_says(refusal(tiny), {"weights of experts are scaled", "'qwen2moe.expert_weights_scale'"});
}

TEST_CASE("the rope of these families may be said in both spellings") {
  for (TinyModel tiny : {lfm2(), olmo2(), TinyModel::safetensors_as("GraniteForCausalLM", "granite"),
                         TinyModel::safetensors_as("SmolLM3ForCausalLM", "smollm3")}) {
    CAPTURE(tiny.config["model_type"].dump());
    tiny.config["rope_theta"] = 30000.0;
    CHECK(described(tiny).ropes.at(0).base == 30000);
    tiny.config.erase("rope_theta");
    tiny.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 40000.0}};
    CHECK(described(tiny).ropes.at(0).base == 40000);
  }
}
