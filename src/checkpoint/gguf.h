// GgufFile: metadata and tensor table of a GGUF checkpoint, mapped; nothing is copied and no tensor is read.
//     GgufFile gguf = GgufFile::open("model-00001-of-00003.gguf");      // finds its siblings
//     std::vector<std::string_view> tokens = gguf.strings("tokenizer.ggml.tokens");
//     int64_t layers = gguf.integer("llama.block_count").value();
// Views live as long as the GgufFile (or a copy of it).
//
// The bytes, versions 2 and 3 (equal but for big-endian files, which are refused), little-endian:
//     offset 0    4 bytes   "GGUF"
//     offset 4    u32       version
//     offset 8    u64       number of tensors
//     offset 16   u64       number of metadata values
//     then        values    string key, u32 type (GgufType), value; a string is u64 length and bytes,
//                           an array u32 type, u64 count and elements
//     then        tensors   string name, u32 rank, u64 dims[rank] innermost first, u32 type, u64 offset
//                           in the data
//     then        data      at the next multiple of `general.alignment` (32 if absent), and each tensor
//                           at such a multiple
// Split files are named name-00001-of-00005.gguf and hold `split.no` (from 0), `split.count`,
// `split.tensors.count`; the first one has the metadata of the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "kernels/dequant_types.h"

namespace anemone {

enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// One metadata value, as a view of its bytes in the file.
struct GgufValue {
  std::string_view key;
  GgufType type;  // of the elements, when it is an array
  bool is_array;
  uint64_t count;                    // 1, or the elements of the array
  std::span<const std::byte> bytes;  // the elements as stored: strings with their lengths
};

struct GgufTensor {
  std::string_view name;
  BlockType type;
  std::vector<int64_t> shape;  // row-major: the last dimension is the innermost, as in safetensors
  size_t part;                 // which file of a split checkpoint; 0 otherwise
  uint64_t offset;             // from the start of that file
  uint64_t bytes;
};

class GgufFile {
 public:
  // Opens a file, with all its siblings when it is one of a split checkpoint. Throws Error on anything that
  // is not a well-formed little-endian GGUF of version 2 or 3 whose tensors all lie inside the file and
  // apart.
  static GgufFile open(const std::filesystem::path& path);
  // The same from bytes at hand, the parts of a split checkpoint in order.
  static GgufFile from_parts(std::vector<std::shared_ptr<const MappedFile>> parts);

  uint32_t version() const { return version_; }
  const std::string& path() const { return parts_.front()->path(); }
  std::span<const std::shared_ptr<const MappedFile>> parts() const { return parts_; }

  // All metadata values in the order of the file, and one by its key or nullptr.
  std::span<const GgufValue> values() const { return values_; }
  const GgufValue* find(std::string_view key) const;

  // One value; nothing when the key is absent, an Error naming the key when it holds another kind of value.
  // Any integer type will do for integer(), any number for number(): converters differ.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;

  // An array; empty when the key is absent. A single integer or number counts as an array of one (some keys
  // are one value in one file and one per layer in another).
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<bool> booleans(std::string_view key) const;
  std::vector<std::string_view> strings(std::string_view key) const;

  // All tensors, part by part in the order of the files, and one by its name or nullptr.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const;
  // The stored bytes of a tensor of this file.
  std::span<const std::byte> data(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;
  static GgufFile read_one(std::shared_ptr<const MappedFile> file);
  void expect_part(int64_t number, int64_t count) const;
  const GgufValue* expect(std::string_view key, bool list, std::string_view wanted,
                          bool (*fits)(GgufType)) const;

  uint32_t version_ = 0;
  std::vector<std::shared_ptr<const MappedFile>> parts_;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::vector<size_t> values_by_key_, tensors_by_name_;  // sorted: a hostile file cannot make look-ups slow
};

}  // namespace anemone
