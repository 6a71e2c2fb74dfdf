// Checkpoint: what comes in, whatever the file format: named tensors that decode by row ranges, and the
// metadata.
//     Checkpoint c = Checkpoint::open("model.gguf");                     // or a folder with safetensors
//     TensorReader w = c.tensor("blk.0.attn_q.weight");
//     w.read_rows(0, 64, std::span<float>(tile));                        // rows [0, 64), as floats
// Immutable once open: any number of threads may read. Nothing is decoded before it is asked for, and no more
// of a file stays in memory than its readers keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/gguf.h"
#include "kernels/dequant_types.h"

namespace anemone {

class ThreadPool;

enum class CheckpointFormat { gguf, safetensors };

// One stored tensor: a view that holds on to its file.
class TensorReader {
 public:
  TensorReader(std::shared_ptr<const MappedFile> file, std::string name, BlockType type,
               std::vector<int64_t> shape, uint64_t offset);

  const std::string& name() const { return name_; }
  BlockType type() const { return info_->type; }
  const BlockInfo& info() const { return *info_; }
  const std::vector<int64_t>& shape() const { return shape_; }  // row-major
  // A row is all that shares the first index: an element of a vector, a line of a matrix, a matrix of a
  // stack.
  int64_t rows() const { return rows_; }
  int64_t row_elements() const { return row_elements_; }

  // Rows [begin, end) as floats, or as halves (the floats rounded to nearest even). `out` has the size of the
  // rows; Error when the rows do not exist or the type is no floating-point one.
  void read_rows(int64_t begin, int64_t end, std::span<float> out) const;
  void read_rows(int64_t begin, int64_t end, std::span<uint16_t> out) const;
  // All of it, on all cores, giving the pages of the file back on the way.
  void read_all(ThreadPool& pool, std::span<float> out) const;
  void read_all(ThreadPool& pool, std::span<uint16_t> out) const;
  std::vector<float> read_floats(ThreadPool& pool) const;

  // The bytes as stored, for those who understand them.
  std::span<const std::byte> stored() const;
  // Says that these rows are not needed soon: their pages go back to the system.
  void release_rows(int64_t begin, int64_t end) const noexcept;

 private:
  template <class Out>
  void read(int64_t begin, int64_t end, std::span<Out> out) const;
  template <class Out>
  void read_parallel(ThreadPool& pool, std::span<Out> out) const;

  std::shared_ptr<const MappedFile> file_;
  std::string name_;
  const BlockInfo* info_;
  std::vector<int64_t> shape_;
  uint64_t offset_;
  int64_t rows_ = 1, row_elements_ = 1;
};

class Checkpoint {
 public:
  // A GGUF file (any part of a split one), a .safetensors file or index, or a folder: with safetensors and
  // config.json, else with one GGUF checkpoint. Throws Error when it is none of these or is damaged.
  static Checkpoint open(const std::filesystem::path& path);
  // The metadata alone, as if the tensors were there: a config.json, or a folder with one. For those who plan.
  static Checkpoint open_config(const std::filesystem::path& path);
  static Checkpoint from_config(nlohmann::ordered_json config, std::string name);
  bool config_only() const { return config_only_; }

  CheckpointFormat format() const { return format_; }
  std::string_view format_name() const { return format_ == CheckpointFormat::gguf ? "GGUF" : "safetensors"; }
  const std::filesystem::path& path() const { return path_; }
  // The folder that the files lie in, with tokenizer.json and the rest of a Hugging Face model.
  std::filesystem::path folder() const;

  // "llama", or the first of config.json's "architectures" ("LlamaForCausalLM"); empty when not said.
  const std::string& architecture() const { return architecture_; }
  // What the publisher says, where it does: empty otherwise.
  const std::string& source_name() const { return source_name_; }
  const std::string& author() const { return author_; }
  const std::string& licence() const { return licence_; }

  // The metadata of a GGUF file; Error for another format.
  const GgufFile& gguf() const;
  // config.json beside safetensors, keys in the order of the file; Error for another format.
  const nlohmann::ordered_json& config() const;

  // All tensors in the order of the files; one by name, Error when it does not exist.
  std::span<const TensorReader> tensors() const { return tensors_; }
  const TensorReader& tensor(std::string_view name) const;
  const TensorReader* find(std::string_view name) const;
  uint64_t stored_bytes() const;  // of all tensors

 private:
  Checkpoint() = default;
  void open_gguf(const std::filesystem::path& path);
  void open_safetensors(const std::filesystem::path& path);
  void take_config(nlohmann::ordered_json config);
  void index_names();

  CheckpointFormat format_ = CheckpointFormat::gguf;
  std::filesystem::path path_;
  std::string architecture_, source_name_, author_, licence_;
  bool config_only_ = false;
  std::shared_ptr<const GgufFile> gguf_;
  std::shared_ptr<const nlohmann::ordered_json> config_;
  std::vector<TensorReader> tensors_;
  std::vector<size_t> by_name_;
};

}  // namespace anemone
