// ElementSource: where the elements of one tensor come from. A format whose tensors are more than one range of blocks
// (numbers in one tensor, scales in another) derives its own and gives it to TensorReader.
//     auto source = std::make_shared<BlockSource>(file, BlockType::q4_0, 4096 * 1024, offset);
//     source->read(100, 7, floats);                              // elements 100 to 106
// Immutable: any number of threads may read. The callers check ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/mapped_file.h"
#include "kernels/dequant_types.h"

namespace anemone {

// The bytes of a tensor that is one range of blocks of one type.
struct StoredBlocks {
  BlockType type;
  std::span<const std::byte> bytes;
};

class ElementSource {
 public:
  virtual ~ElementSource() = default;

  virtual const std::string& file() const = 0;     // for messages
  virtual std::string_view type_name() const = 0;  // for people: "Q4_K", "BF16"
  virtual bool decodes() const = 0;                // whether the elements are numbers that can be read
  virtual uint64_t stored_bytes() const = 0;

  // `count` elements from number `begin` of the row-major tensor, any range.
  virtual void read(int64_t begin, int64_t count, float* out) const = 0;
  // The same floats rounded to nearest even, for sources that have a faster way than that.
  virtual void read_halves(int64_t begin, int64_t count, uint16_t* out) const;
  // A hint that elements [begin, end) are not needed soon.
  virtual void release(int64_t /*begin*/, int64_t /*end*/) const noexcept {}
  // The bytes as stored, for callers that know the block type; nothing if they are not one range.
  virtual std::optional<StoredBlocks> blocks() const { return std::nullopt; }
};

// One range of a mapped file.
class BlockSource : public ElementSource {
 public:
  // The readers of the formats have checked that the file holds it.
  BlockSource(std::shared_ptr<const MappedFile> file, BlockType type, int64_t elements, uint64_t offset);

  const std::string& file() const override { return file_->path(); }
  std::string_view type_name() const override { return info_->name; }
  bool decodes() const override { return info_->decodes; }
  uint64_t stored_bytes() const override { return bytes_.size(); }
  void read(int64_t begin, int64_t count, float* out) const override;
  void read_halves(int64_t begin, int64_t count, uint16_t* out) const override;
  void release(int64_t begin, int64_t end) const noexcept override;
  std::optional<StoredBlocks> blocks() const override { return StoredBlocks{info_->type, bytes_}; }

 private:
  std::shared_ptr<const MappedFile> file_;
  const BlockInfo* info_;
  uint64_t offset_;
  std::span<const std::byte> bytes_;
};

}  // namespace anemone
