// Encoders of two small layers with made-up weights, as a folder with config.json and safetensors.
//     TinyEncoder model("BertForTokenClassification", "bert", 3);         // three classes
//     model.config["pad_token_id"] = 1;
//     model.write(folder / "model");
//     convert(folder / "model", folder / "bundle", {});
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/half.h"
#include "support/temp_folder.h"

namespace anemone::test {

struct TinyEncoder {
  static constexpr int64_t kHidden = 16, kMlp = 24, kVocab = 40, kPositions = 34;

  nlohmann::ordered_json config;
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, std::vector<float>> values;  // filled by write()

  // type: "bert" or "roberta". Classes: of a classification head.
  TinyEncoder(const std::string& architecture, const std::string& type, int64_t classes = 0) {
    config = {{"architectures", {architecture}},
              {"model_type", type},
              {"hidden_size", kHidden},
              {"intermediate_size", kMlp},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4},  // of 4: half holds their scale exactly
              {"vocab_size", kVocab},
              {"max_position_embeddings", kPositions},
              {"type_vocab_size", type == "bert" ? 2 : 1},
              {"layer_norm_eps", 1e-5},
              {"hidden_act", "gelu"},
              {"pad_token_id", type == "bert" ? 0 : 1}};
    const std::string at = architecture.ends_with("Model") ? "" : type + ".";
    shapes[at + "embeddings.word_embeddings.weight"] = {kVocab, kHidden};
    shapes[at + "embeddings.position_embeddings.weight"] = {kPositions, kHidden};
    shapes[at + "embeddings.token_type_embeddings.weight"] = {config["type_vocab_size"].get<int64_t>(),
                                                              kHidden};
    norm(at + "embeddings.LayerNorm");
    for (const std::string i : {"0", "1"}) {
      const std::string layer = at + "encoder.layer." + i + ".";
      for (const char* name :
           {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"})
        linear(layer + name, kHidden, kHidden);
      norm(layer + "attention.output.LayerNorm");
      linear(layer + "intermediate.dense", kMlp, kHidden);
      linear(layer + "output.dense", kHidden, kMlp);
      norm(layer + "output.LayerNorm");
    }
    if (architecture.ends_with("ForTokenClassification")) linear("classifier", classes, kHidden);
    if (architecture.ends_with("ForSequenceClassification")) {
      linear(type == "bert" ? "bert.pooler.dense" : "classifier.dense", kHidden, kHidden);
      linear(type == "bert" ? "classifier" : "classifier.out_proj", classes, kHidden);
    }
    for (int64_t i = 0; i < classes; ++i) config["id2label"][std::to_string(i)] = "class" + std::to_string(i);
  }

  // Every value is one that half holds.
  void write(const std::filesystem::path& folder) {
    uint64_t seed = 11;
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    for (const auto& [name, shape] : shapes) {
      const bool gain = name.ends_with("LayerNorm.weight");
      const float size = shape.size() == 2 ? 1.7f / std::sqrt(static_cast<float>(shape[1])) : 0.3f;
      std::vector<float>& out = values[name];
      const int64_t count = shape[0] * (shape.size() == 2 ? shape[1] : 1);
      for (int64_t i = 0; i < count; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const float v = static_cast<float>(static_cast<int32_t>(seed >> 32)) / 2147483648.0f;
        out.push_back(round_to_half(gain ? 1 + 0.3f * v : size * v));
      }
      header[name] = {
          {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + out.size() * 4}}};
      data.append(reinterpret_cast<const char*>(out.data()), out.size() * 4);
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    spill(folder / "model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + text + data);
    spill(folder / "config.json", config.dump());
  }

 private:
  void linear(const std::string& name, int64_t rows, int64_t columns) {
    shapes[name + ".weight"] = {rows, columns};
    shapes[name + ".bias"] = {rows};
  }
  void norm(const std::string& name) { shapes[name + ".weight"] = shapes[name + ".bias"] = {kHidden}; }
};

}  // namespace anemone::test
