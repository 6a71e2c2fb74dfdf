// OnnxBundle: a model as ONNX Runtime takes it: model.onnx, data beside it, a config, a tokenizer. And where in a
// folder it is.
//     OnnxPlace place = find_onnx("Aion-1.0", {.version = "", .variant = "q4f16"});
//     place.model;  place.folder;  place.note;       // "…/1.2.0/model.onnx"; the folder of configs; what was chosen
//
// | at the path | what is taken |
// |---|---|
// | a file NAME.onnx | this file |
// | genai_config.json | the file that it names |
// | model.onnx, or one .onnx file | this file; config.json beside it |
// | a folder `onnx` with model.onnx, model_q4f16.onnx … | model.onnx, or the variant that was asked for |
// | folders called by versions (1.0.3, 2) with one of these | the newest complete one, or the one that was asked for |
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/onnx_weights.h"
#include "onnx/model.h"

namespace anemone {

struct OnnxBundleChoice {
  std::string version;  // of versioned folders; empty: the newest
  std::string variant;  // "q4f16" of model_q4f16.onnx; empty: model.onnx
};

struct OnnxPlace {
  std::filesystem::path model;
  std::filesystem::path folder;  // of configs and tokenizer
  std::string note;              // what was chosen among several; empty where there was no choice
};

// Nothing where there is no ONNX model at the path. Error where the choice names something that is not there.
std::optional<OnnxPlace> find_onnx(const std::filesystem::path& path, const OnnxBundleChoice& choice = {});

// The model, its weights, and what its configs say. Not copied: it is large.
struct OnnxBundle {
  explicit OnnxBundle(OnnxPlace at);
  // A model in memory with the content of a genai_config.json, for tests and fuzzers.
  OnnxBundle(OnnxModel of, nlohmann::ordered_json says);

  OnnxPlace place;
  OnnxModel model;
  OnnxWeights weights;
  std::optional<nlohmann::ordered_json> genai, config;  // genai_config.json, config.json
};

// The checkpoint of a bundle; `path` is what the user gave.
std::shared_ptr<const CheckpointReader> onnx_checkpoint(std::shared_ptr<OnnxBundle> bundle,
                                                        const std::filesystem::path& path);

}  // namespace anemone
