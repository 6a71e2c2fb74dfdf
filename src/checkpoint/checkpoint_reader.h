// CheckpointReader: one open checkpoint as its format reads it. Everybody else holds a `Checkpoint` (checkpoint.h); the
// formats derive from this class (checkpoint/formats, file_format.h).
//     std::shared_ptr<const CheckpointReader> reader = gguf.open("model.gguf");
//     reader->value("llama.block_count");                            // JSON 30
//     reader->find("blk.0.attn_q.weight");                           // a TensorReader, or nullptr
// Immutable once open: any number of threads may read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/naming.h"
#include "checkpoint/tensor_reader.h"

namespace anemone {

// A file that a bundle needs for its tokenizer: a copy of another file, or made from the contents of the checkpoint.
struct TokenizerFile {
  std::string name;            // in the bundle
  std::filesystem::path from;  // to be copied; empty: `made` is the content
  std::string made;
  uint64_t bytes = 0;  // of either
};

// Where the tokenizer of a checkpoint comes from.
struct TokenizerSource {
  std::filesystem::path load;  // the file that it is read from
  std::string main;  // the one of `files` that a bundle opens; empty: the checkpoint has no tokenizer
  std::vector<TokenizerFile> files;  // all that belongs to it
};

// The metadata of a checkpoint.
struct CheckpointFacts {
  std::filesystem::path path;         // the file or folder that was opened
  std::filesystem::path folder;       // where its files lie
  std::string metadata_file;          // which the keys are in, for messages
  std::string architecture;           // "llama", "LlamaForCausalLM"; empty where not said
  std::string model_type;             // a broader name, where the format has one
  std::string name, author, license;  // the publisher's metadata, if any
  bool config_only = false;           // there are no tensors and no other files: for plans
  std::vector<std::string> notes;     // what was chosen among several, a sentence each
};

struct OnnxBundle;  // onnx_bundle.h

class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  virtual std::string_view format_name() const = 0;  // for people: "GGUF"
  // Nothing where keys and tensors have no names to go by, as in a graph: then a family must know the checkpoint by
  // what lies in it (Family::claims).
  virtual std::optional<Naming> naming() const = 0;

  // The value under a key as the format spells it: bool, integer, double, text, a list of these, or where the format
  // nests them an object. Nothing where the key is absent; a JSON null where the file says null.
  virtual std::optional<nlohmann::ordered_json> value(std::string_view key) const = 0;
  // How many elements the list under a key has, without reading them; nothing where there is no list.
  virtual std::optional<uint64_t> list_size(std::string_view key) const = 0;
  // Another JSON file of the model ("generation_config.json"); nothing where the format or the model has none.
  virtual std::optional<nlohmann::ordered_json> companion(const std::string& file) const = 0;
  virtual TokenizerSource tokenizer() const = 0;
  // The graph that the tensors lie in, where the format has one; nullptr for others.
  virtual const OnnxBundle* graph() const { return nullptr; }

  const CheckpointFacts& facts() const { return facts_; }
  // In the order of the files; one by its name, or nullptr.
  std::span<const TensorReader> tensors() const { return tensors_; }
  const TensorReader* find(std::string_view name) const;

 protected:
  CheckpointReader(CheckpointFacts facts, std::vector<TensorReader> tensors);

 private:
  CheckpointFacts facts_;
  std::vector<TensorReader> tensors_;
  std::vector<size_t> by_name_;  // sorted
};

// A tensor table as the readers of files give it: TensorReaders over the parts that hold the bytes.
template <class File>
std::vector<TensorReader> tensor_readers(const File& file) {
  std::vector<TensorReader> tensors;
  for (const auto& t : file.tensors())
    tensors.emplace_back(file.parts()[t.part], std::string(t.name), t.type, t.shape, t.offset);
  return tensors;
}

}  // namespace anemone
