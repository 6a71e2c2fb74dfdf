// Checkpoint: the input of a conversion, in any file format: hyperparameters by key, tensors by name, the publisher's
// metadata, and the place of the tokenizer.
//     Checkpoint c = Checkpoint::open("model.gguf");                     // or a folder with safetensors
//     const TensorReader& w = c.tensor("blk.0.attn_q.weight");
//     w.read_rows(0, 64, std::span<float>(tile));                        // rows [0, 64), as floats
// A handle: copies share one reader of a format (file_format.h), which is immutable, so any number of threads may read.
// Tensors are decoded on demand, and no more of a file stays in memory than its readers keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_reader.h"

namespace anemone {

class Checkpoint {
 public:
  // What one of the formats claims: a GGUF file (any part of a split one), a .safetensors file or index, or a folder:
  // with safetensors and config.json, else with one GGUF checkpoint. Throws Error when no format or more than one
  // claims it, or when it is damaged.
  static Checkpoint open(const std::filesystem::path& path);
  // Whether one of the formats claims the path: false for a folder with config.json but no weights.
  static bool recognises(const std::filesystem::path& path);
  // Only the metadata, without tensors: a config.json, or a folder with one. For plans.
  static Checkpoint open_config(const std::filesystem::path& path);
  static Checkpoint from_config(nlohmann::ordered_json config, std::string name);
  explicit Checkpoint(std::shared_ptr<const CheckpointReader> reader) : reader_(std::move(reader)) {}

  std::string_view format_name() const { return reader_->format_name(); }  // for people: "GGUF"
  std::optional<Naming> naming() const { return reader_->naming(); }       // of keys and tensors
  bool config_only() const { return reader_->facts().config_only; }
  const std::filesystem::path& path() const { return reader_->facts().path; }
  // The folder that the files lie in, with tokenizer.json and the rest of a Hugging Face model.
  const std::filesystem::path& folder() const { return reader_->facts().folder; }
  // The file that the keys are in, for messages.
  const std::string& metadata_file() const { return reader_->facts().metadata_file; }

  // "llama", or the first of config.json's "architectures" ("LlamaForCausalLM"); empty when not said.
  const std::string& architecture() const { return reader_->facts().architecture; }
  // The architecture and then broader names of it ("llama" of "model_type"); those that are said.
  std::vector<std::string> names() const;
  // The publisher's metadata; empty where it is absent.
  const std::string& source_name() const { return reader_->facts().name; }
  const std::string& author() const { return reader_->facts().author; }
  const std::string& license() const { return reader_->facts().license; }

  // A value of the metadata by its key as the file spells it, of config.json by its outermost key: bool, integer,
  // double, text, a list, or in config.json an object. Nothing where the key is absent, a JSON null where it is null.
  // Families read values through Hparams, which checks them.
  std::optional<nlohmann::ordered_json> value(std::string_view key) const;
  // How many elements the list under a key has, without reading them; nothing where there is no list.
  std::optional<uint64_t> list_size(std::string_view key) const { return reader_->list_size(key); }
  // Another JSON file of the model, such as "generation_config.json" or "1_Pooling/config.json" in folder(); nothing
  // where there is none.
  std::optional<nlohmann::ordered_json> companion(const std::string& file) const;
  // What Tokenizer::load takes, and the files that a bundle needs for it.
  TokenizerSource tokenizer() const { return reader_->tokenizer(); }

  // The graph that the tensors lie in (onnx_bundle.h); nullptr where the format has none.
  const OnnxBundle* graph() const { return reader_->graph(); }
  // What was chosen among several files, a sentence each.
  const std::vector<std::string>& notes() const { return reader_->facts().notes; }

  // All tensors in the order of the files; one by name, Error when it does not exist.
  std::span<const TensorReader> tensors() const { return reader_->tensors(); }
  const TensorReader& tensor(std::string_view name) const;
  const TensorReader* find(std::string_view name) const { return reader_->find(name); }
  uint64_t stored_bytes() const;  // of all tensors

 private:
  std::shared_ptr<const CheckpointReader> reader_;
};

}  // namespace anemone
