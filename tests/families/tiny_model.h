// A model with all tensors zero, as GGUF or safetensors, for tests that break one thing at a time.
//     TinyModel model;
//     model.numbers["llama.attention.head_count"] = 8;
//     Checkpoint c = model.gguf(folder);
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_builder.h"
#include "support/temp_folder.h"

namespace anemone::test {

// Two layers of Llama: hidden 8, 4 heads and 2 key heads of 4, MLP 12, vocabulary 10, own head.
struct TinyModel {
  std::string architecture = "llama";
  std::map<std::string, uint32_t> numbers;
  std::map<std::string, float> fractions;
  std::map<std::string, std::vector<int32_t>> lists;
  std::map<std::string, std::string> texts;
  std::vector<int32_t> token_types;  // of a GGUF file's list of tokens, which is left out where this is empty
  nlohmann::ordered_json config;
  std::map<std::string, std::vector<int64_t>> tensors;  // shapes, row-major
  std::map<std::string, float> first_values;            // of tensors in safetensors that are not all zero

  static TinyModel llama_gguf() {
    TinyModel m;
    m.numbers = {{"llama.block_count", 2},          {"llama.embedding_length", 8},
                 {"llama.feed_forward_length", 12}, {"llama.attention.head_count", 4},
                 {"llama.context_length", 64},      {"llama.attention.head_count_kv", 2},
                 {"llama.vocab_size", 10},          {"llama.attention.key_length", 4}};
    m.tensors = {{"token_embd.weight", {10, 8}}, {"output.weight", {10, 8}}, {"output_norm.weight", {8}}};
    for (const std::string i : {"0", "1"}) {
      const std::string b = "blk." + i + ".";
      m.tensors.insert({{b + "attn_norm.weight", {8}},
                        {b + "attn_q.weight", {16, 8}},
                        {b + "attn_k.weight", {8, 8}},
                        {b + "attn_v.weight", {8, 8}},
                        {b + "attn_output.weight", {8, 16}},
                        {b + "ffn_norm.weight", {8}},
                        {b + "ffn_gate.weight", {12, 8}},
                        {b + "ffn_up.weight", {12, 8}},
                        {b + "ffn_down.weight", {8, 12}}});
    }
    return m;
  }

  static TinyModel llama_safetensors() {
    TinyModel m;
    m.config = {{"architectures", {"LlamaForCausalLM"}},
                {"model_type", "llama"},
                {"hidden_size", 8},
                {"intermediate_size", 12},
                {"num_hidden_layers", 2},
                {"num_attention_heads", 4},
                {"num_key_value_heads", 2},
                {"head_dim", 4},
                {"vocab_size", 10},
                {"max_position_embeddings", 64},
                {"rms_norm_eps", 1e-5},
                {"eos_token_id", {2, 3}},
                {"tie_word_embeddings", false},
                {"rope_theta", 20000.0}};
    m.tensors = {
        {"model.embed_tokens.weight", {10, 8}}, {"lm_head.weight", {10, 8}}, {"model.norm.weight", {8}}};
    for (const std::string i : {"0", "1"}) {
      const std::string b = "model.layers." + i + ".";
      m.tensors.insert({{b + "input_layernorm.weight", {8}},
                        {b + "self_attn.q_proj.weight", {16, 8}},
                        {b + "self_attn.k_proj.weight", {8, 8}},
                        {b + "self_attn.v_proj.weight", {8, 8}},
                        {b + "self_attn.o_proj.weight", {8, 16}},
                        {b + "post_attention_layernorm.weight", {8}},
                        {b + "mlp.gate_proj.weight", {12, 8}},
                        {b + "mlp.up_proj.weight", {12, 8}},
                        {b + "mlp.down_proj.weight", {8, 12}}});
    }
    return m;
  }

  // The tiny Llama of safetensors under another name.
  static TinyModel safetensors_as(const char* architecture, const char* model_type) {
    TinyModel m = llama_safetensors();
    m.config["architectures"] = {architecture};
    m.config["model_type"] = model_type;
    return m;
  }
  // The tiny Llama of GGUF under another name.
  static TinyModel gguf_as(const std::string& architecture) {
    TinyModel m = llama_gguf();
    m.architecture = architecture;
    std::map<std::string, uint32_t> renamed;
    for (const auto& [key, value] : m.numbers) renamed[architecture + key.substr(key.find('.'))] = value;
    m.numbers = renamed;
    return m;
  }

  // In both layers: a tensor gets another name and shape, or goes where there is no shape.
  void replace(const std::string& from, const std::string& to, const std::vector<int64_t>& shape) {
    for (const std::string i : {"0", "1"}) replace_in(i, from, to, shape);
  }
  void replace_in(const std::string& layer, const std::string& from, const std::string& to,
                  const std::vector<int64_t>& shape) {
    const std::string at = (config.empty() ? "blk." : "model.layers.") + layer + ".";
    tensors.erase(at + from);
    if (!shape.empty()) tensors[at + to] = shape;
  }

  Checkpoint gguf(const TempFolder& folder) const {
    GgufBuilder b;
    b.value("general.architecture", architecture);
    b.number<float>(architecture + ".attention.layer_norm_rms_epsilon", 6, 1e-5f);
    for (const auto& [key, value] : fractions) b.number<float>(key, 6, value);
    for (const auto& [key, values] : lists) b.array(key, 5, values);
    for (const auto& [key, value] : numbers) b.number<uint32_t>(key, 4, value);
    for (const auto& [key, value] : texts) b.value(key, value);
    if (!token_types.empty()) {
      b.strings("tokenizer.ggml.tokens", std::vector<std::string>(token_types.size(), "t"));
      b.array("tokenizer.ggml.token_type", 5, token_types);
    }
    uint64_t offset = 0;
    for (const auto& [name, shape] : tensors) {
      b.tensor(name, {shape.rbegin(), shape.rend()}, 0, offset);
      offset += (bytes(shape) + 31) / 32 * 32;
    }
    return Checkpoint::open(folder.write("tiny.gguf", b.data(std::string(offset, '\0')).bytes()));
  }

  Checkpoint safetensors(const TempFolder& folder) const {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    uint64_t offset = 0;
    for (const auto& [name, shape] : tensors) {
      header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {offset, offset + bytes(shape)}}};
      offset += bytes(shape);
    }
    std::string file, data(offset, '\0');
    put_string(file, header.dump());
    for (const auto& [name, value] : first_values)
      std::memcpy(&data[header.at(name).at("data_offsets").at(0).get<size_t>()], &value, sizeof value);
    folder.write("model.safetensors", file + data);
    folder.write("config.json", config.dump());
    return Checkpoint::open(folder.path());
  }

 private:
  static uint64_t bytes(const std::vector<int64_t>& shape) {
    uint64_t n = 4;
    for (const int64_t d : shape) n *= static_cast<uint64_t>(d);
    return n;
  }
};

}  // namespace anemone::test
