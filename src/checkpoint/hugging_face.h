// HuggingFaceReader: what stands around the weights of a model as Hugging Face publishes it: hyperparameters in
// config.json, the model card, the tokenizer's files. A format that keeps its tensors beside these derives from it:
//     class SafetensorsReader : public HuggingFaceReader { …  std::string_view format_name() const override; };
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"

namespace anemone {

class HuggingFaceReader : public CheckpointReader {
 public:
  // `config` is the content of `config_file`; Error when it is no JSON object.
  HuggingFaceReader(const std::filesystem::path& path, const std::filesystem::path& config_file,
                    nlohmann::ordered_json config, std::vector<TensorReader> tensors);

  std::optional<Naming> naming() const override { return Naming::hugging_face; }
  std::optional<nlohmann::ordered_json> value(std::string_view key) const override;
  std::optional<uint64_t> list_size(std::string_view key) const override;
  std::optional<nlohmann::ordered_json> companion(const std::string& file) const override;
  TokenizerSource tokenizer() const override;

 protected:
  HuggingFaceReader(CheckpointFacts facts, nlohmann::ordered_json config, std::vector<TensorReader> tensors);

 private:
  std::shared_ptr<const nlohmann::ordered_json> config_;
};

// A config.json alone, or in a folder: the names of a Hugging Face model, and no tensors.
std::shared_ptr<const CheckpointReader> open_config_only(const std::filesystem::path& path);
// The same from a configuration at hand; `name` is the model's.
std::shared_ptr<const CheckpointReader> config_only(nlohmann::ordered_json config, std::string name);

}  // namespace anemone
