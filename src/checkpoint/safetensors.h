// SafetensorsFile: the tensor table of a safetensors checkpoint, one file or many with an index, mapped.
//     SafetensorsFile weights = SafetensorsFile::open("Qwen3-0.6B");        // a folder, a file or an index
//     const SafeTensor* embedding = weights.tensor("model.embed_tokens.weight");
//     std::span<const std::byte> bytes = weights.data(*embedding);
//
// The bytes of one file (safetensors 0.8), little-endian:
//     offset 0    u64       length of the header, at most 100,000,000
//     offset 8    JSON      {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [begin, end]}, …},
//     beginning
//                           with '{', perhaps padded with spaces; "__metadata__" maps strings to strings
//     then        data      row-major; the tensors fill it without holes or overlap, at any alignment
// An index (model.safetensors.index.json) says in "weight_map" which file beside it holds which tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "kernels/dequant_types.h"

namespace anemone {

struct SafeTensor {
  std::string name;
  BlockType type;
  std::vector<int64_t> shape;
  size_t part;      // which file
  uint64_t offset;  // from the start of that file
  uint64_t bytes;
};

class SafetensorsFile {
 public:
  // A .safetensors file, an index file, or a folder with either (as published: model.safetensors first, then
  // the index, then the only .safetensors file there). Throws Error on anything malformed or incomplete.
  static SafetensorsFile open(const std::filesystem::path& path);
  // One file from bytes at hand.
  static SafetensorsFile from_file(std::shared_ptr<const MappedFile> file);

  std::span<const std::shared_ptr<const MappedFile>> parts() const { return parts_; }
  // In the order of the files, inside a file by place.
  std::span<const SafeTensor> tensors() const { return tensors_; }
  const SafeTensor* tensor(std::string_view name) const;
  std::span<const std::byte> data(const SafeTensor& tensor) const;
  // A string of the first file's "__metadata__".
  std::optional<std::string_view> metadata(std::string_view key) const;

 private:
  SafetensorsFile() = default;
  static SafetensorsFile open_index(const std::filesystem::path& path);
  void add_part(std::shared_ptr<const MappedFile> file);
  void index_names();

  std::vector<std::shared_ptr<const MappedFile>> parts_;
  std::vector<SafeTensor> tensors_;
  std::vector<size_t> by_name_;  // sorted
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace anemone
