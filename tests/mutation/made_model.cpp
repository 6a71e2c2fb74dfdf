#include "mutation/made_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/half.h"
#include "checkpoint/checkpoint.h"
#include "families/family.h"
#include "families/weights.h"
#include "mutation/rng.h"
#include "support/data.h"
#include "support/temp_folder.h"

namespace anemone::mutation {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int64_t kTokenizerVocab = 512;  // of the tokenizer that such models get, where the test data has it

int64_t vocabulary(Rng& rng) { return rng.chance(0.5) ? kTokenizerVocab : rng.between(5, 60) * 8; }

struct Sizes {
  int64_t heads, kv_heads, head_dim, layers, vocab;
};

Sizes add_sizes(Json& c, Rng& rng) {
  Sizes s{};
  s.kv_heads = rng.between(1, 3);
  s.heads = s.kv_heads * rng.between(1, 3);
  s.head_dim = rng.pick(std::vector<int64_t>{8, 16, 24, 32});
  s.layers = rng.between(2, 4);
  s.vocab = vocabulary(rng);
  c["hidden_size"] = rng.between(3, 10) * 8;
  c["intermediate_size"] = rng.between(3, 16) * 8;
  c["num_hidden_layers"] = s.layers;
  c["num_attention_heads"] = s.heads;
  c["num_key_value_heads"] = s.kv_heads;
  c["head_dim"] = s.head_dim;
  c["vocab_size"] = s.vocab;
  c["max_position_embeddings"] = rng.pick(std::vector<int64_t>{512, 2048, 32768});
  c["rms_norm_eps"] = rng.pick(std::vector<double>{1e-5, 1e-6});
  c["rope_theta"] = rng.pick(std::vector<double>{10000, 100000, 1000000});
  c["bos_token_id"] = 1;
  c["eos_token_id"] = 2;
  c["tie_word_embeddings"] = rng.chance(0.5);
  return s;
}

void add_scaling(Json& c, Rng& rng) {
  switch (rng.below(4)) {
    case 0: c["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}}; break;
    case 1:
      c["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", 8.0},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0},
                           {"original_max_position_embeddings", 64}};
      break;
    case 2:
      c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
      break;
    default: break;
  }
}

void llama(Json& c, Rng& rng) {
  add_sizes(c, rng);
  add_scaling(c, rng);
  c["attention_bias"] = rng.chance(0.3);
  c["mlp_bias"] = rng.chance(0.3);
}

void mistral(Json& c, Rng& rng) {
  add_sizes(c, rng);
  c["sliding_window"] = rng.between(4, 24);
}

void plain(Json& c, Rng& rng) { add_sizes(c, rng); }

void gemma2(Json& c, Rng& rng) {
  add_sizes(c, rng);
  c["tie_word_embeddings"] = true;
  c["sliding_window"] = rng.between(4, 24);
  c["query_pre_attn_scalar"] = rng.between(8, 40);
  c["attn_logit_softcapping"] = rng.pick(std::vector<double>{5, 50});
  c["final_logit_softcapping"] = rng.pick(std::vector<double>{8, 30});
}

void gemma3(Json& c, Rng& rng) {
  const Sizes s = add_sizes(c, rng);
  c["tie_word_embeddings"] = true;
  c["sliding_window"] = rng.between(4, 24);
  c["query_pre_attn_scalar"] = rng.between(8, 40);
  c["rope_local_base_freq"] = 10000.0;
  Json types = Json::array();
  for (int64_t i = 0; i < s.layers; ++i) types.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  c["layer_types"] = types;
}

void phi3(Json& c, Rng& rng) {
  const Sizes s = add_sizes(c, rng);
  c["hidden_size"] = s.heads * s.head_dim;  // it has no size of a head of its own
  c.erase("head_dim");
  if (rng.chance(0.3)) return;
  c["max_position_embeddings"] = 512;
  c["original_max_position_embeddings"] = 32;
  Json near = Json::array(), far = Json::array();
  for (int64_t i = 0; i < s.head_dim / 2; ++i) {
    near.push_back(1.0 + 0.05 * static_cast<double>(i));
    far.push_back(1.0 + 0.4 * static_cast<double>(i));
  }
  c["rope_scaling"] = {{"type", "longrope"}, {"short_factor", near}, {"long_factor", far}};
}

void granite(Json& c, Rng& rng) {
  const Sizes s = add_sizes(c, rng);
  c["hidden_size"] = s.heads * s.head_dim;
  c.erase("head_dim");
  c["embedding_multiplier"] = 1 + 6 * rng.unit();
  c["attention_multiplier"] = 0.05 + 0.2 * rng.unit();
  c["residual_multiplier"] = 0.2 + 0.5 * rng.unit();
  c["logits_scaling"] = 1 + 3 * rng.unit();
}

void lfm2(Json& c, Rng& rng) {
  const Sizes s = add_sizes(c, rng);
  c["hidden_size"] = s.heads * s.head_dim;
  c.erase("head_dim");
  c["block_auto_adjust_ff_dim"] = false;
  c["norm_eps"] = 1e-5;
  c["conv_L_cache"] = rng.between(2, 4);
  c["tie_word_embeddings"] = true;
  Json types = Json::array();
  for (int64_t i = 0; i < s.layers; ++i) types.push_back(i % 2 == 0 ? "conv" : "full_attention");
  c["layer_types"] = types;
}

void smollm3(Json& c, Rng& rng) {
  const Sizes s = add_sizes(c, rng);
  c["hidden_size"] = s.heads * s.head_dim;
  c.erase("head_dim");
  Json rotated = Json::array();
  for (int64_t i = 0; i < s.layers; ++i) rotated.push_back(i % 3 == 2 ? 0 : 1);
  c["no_rope_layers"] = rotated;
}

void encoder(Json& c, Rng& rng) {
  const int64_t heads = rng.between(1, 4), layers = rng.between(2, 4);
  c["hidden_size"] = heads * rng.pick(std::vector<int64_t>{8, 16, 24});
  c["intermediate_size"] = rng.between(3, 12) * 8;
  c["num_hidden_layers"] = layers;
  c["num_attention_heads"] = heads;
  c["vocab_size"] = vocabulary(rng);
  c["max_position_embeddings"] = 128;
  c["type_vocab_size"] = 2;
  c["layer_norm_eps"] = rng.pick(std::vector<double>{1e-12, 1e-5});
  c["hidden_act"] = "gelu";
  c["pad_token_id"] = 0;
}

void add_labels(Json& c, Rng& rng) {
  for (int64_t i = rng.between(2, 7); i > 0; --i)
    c["id2label"][std::to_string(i - 1)] = "class" + std::to_string(i);
}

void token_classes(Json& c, Rng& rng) {
  encoder(c, rng);
  add_labels(c, rng);
}

void modernbert(Json& c, Rng& rng) {
  encoder(c, rng);
  c.erase("type_vocab_size");
  c["norm_eps"] = 1e-5;
  c["hidden_activation"] = "gelu";
  c["global_attn_every_n_layers"] = 2;
  c["local_attention"] = rng.between(3, 12) * 2;
  c["global_rope_theta"] = 160000.0;
  c["local_rope_theta"] = 10000.0;
}

struct MadeFamily {
  std::string name, architecture, type;
  bool encoder;
  void (*fill)(Json&, Rng&);
};

const std::vector<MadeFamily>& families() {
  static const std::vector<MadeFamily> kAll = {
      {"llama", "LlamaForCausalLM", "llama", false, llama},
      {"mistral", "MistralForCausalLM", "mistral", false, mistral},
      {"qwen2", "Qwen2ForCausalLM", "qwen2", false,
       [](Json& c, Rng& rng) {
         const Sizes s = add_sizes(c, rng);
         c["hidden_size"] = s.heads * s.head_dim;
         c.erase("head_dim");
       }},
      {"qwen3", "Qwen3ForCausalLM", "qwen3", false, plain},
      {"gemma2", "Gemma2ForCausalLM", "gemma2", false, gemma2},
      {"gemma3", "Gemma3ForCausalLM", "gemma3_text", false, gemma3},
      {"phi3", "Phi3ForCausalLM", "phi3", false, phi3},
      {"granite", "GraniteForCausalLM", "granite", false, granite},
      {"hunyuan", "HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", false,
       [](Json& c, Rng& rng) {
         add_sizes(c, rng);
         c["use_qk_norm"] = true;
         c["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
       }},
      {"olmo2", "Olmo2ForCausalLM", "olmo2", false,
       [](Json& c, Rng& rng) {
         const Sizes s = add_sizes(c, rng);
         c["hidden_size"] = s.heads * s.head_dim;
         c.erase("head_dim");
       }},
      {"smollm3", "SmolLM3ForCausalLM", "smollm3", false, smollm3},
      {"lfm2", "Lfm2ForCausalLM", "lfm2", false, lfm2},
      {"bert", "BertModel", "bert", true, encoder},
      {"bert tokens", "BertForTokenClassification", "bert", true, token_classes},
      {"bert texts", "BertForSequenceClassification", "bert", true, token_classes},
      {"modernbert", "ModernBertModel", "modernbert", true, modernbert},
  };
  return kAll;
}

const MadeFamily& find_family(const std::string& name) {
  for (const MadeFamily& f : families())
    if (f.name == name) return f;
  throw errorf("no models of '{}' can be made", name);
}

}  // namespace

std::vector<std::string> made_families() {
  std::vector<std::string> out;
  for (const MadeFamily& f : families()) out.push_back(f.name);
  return out;
}

bool made_is_encoder(const std::string& family) { return find_family(family).encoder; }

Json made_config(const std::string& family, uint64_t seed) {
  const MadeFamily& f = find_family(family);
  Json config = {{"architectures", {f.architecture}}, {"model_type", f.type}};
  Rng rng(seed, "config " + family);
  f.fill(config, rng);
  return config;
}

void write_made_model(const std::filesystem::path& folder, const std::string& family, uint64_t seed) {
  const Json config = made_config(family, seed);
  const Model model = describe(Checkpoint::from_config(config, "made " + family));
  struct Tensor {
    int64_t rows = 0, columns = 0;  // columns: 0 for a vector
    bool gain = false, matrix = false;
  };
  std::map<std::string, Tensor> tensors;
  each_weight(model, [&](const WeightUse& w) {
    Tensor& t = tensors[w.ref.tensor];
    t.rows = std::max(t.rows, w.ref.row_end);
    t.columns = w.columns.factors.empty() ? 0 : w.ref.columns;
    t.gain = w.role.find("norm") != std::string_view::npos && w.role.find("bias") == std::string_view::npos;
    t.matrix = w.is_matrix;
  });
  Rng rng(seed, "weights " + family);
  Json header = Json::object();
  std::string data;
  for (const auto& [name, t] : tensors) {
    std::vector<int64_t> shape{t.rows};
    if (t.columns > 0) shape.push_back(t.columns);
    const float size = t.matrix ? 1.7f / std::sqrt(static_cast<float>(t.columns)) : 0.5f;
    const bool offset = family.starts_with("gemma");  // their gains count from 1
    const size_t begin = data.size();
    for (int64_t i = 0; i < t.rows * std::max<int64_t>(1, t.columns); ++i) {
      const float value =
          round_to_half(t.gain ? (offset ? 0.0f : 1.0f) + 0.3f * rng.even() : size * rng.even());
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  spill(folder / "model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + text + data);
  spill(folder / "config.json", config.dump(1));
  if (config.at("vocab_size") == kTokenizerVocab)
    for (const fs::path& root : data_roots())
      for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
        if (const fs::path from = root / "models" / "tokenizer-bpe512" / file; fs::exists(from))
          fs::copy_file(from, folder / file, fs::copy_options::overwrite_existing);
}

}  // namespace anemone::mutation
