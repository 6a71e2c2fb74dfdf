// TensorReader: one stored tensor, decoded by ranges; a view that holds on to where its elements come from.
//     const TensorReader& w = checkpoint.tensor("blk.0.attn_q.weight");
//     w.read_rows(0, 64, std::span<float>(tile));                 // rows [0, 64), as floats
//     w.read_elements(100, 107, std::span<float>(few));           // elements 100 to 106, wherever rows begin
// Immutable: any number of threads may read. Elements are decoded on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/element_source.h"

namespace anemone {

class ThreadPool;

class TensorReader {
 public:
  TensorReader(std::string name, std::vector<int64_t> shape, std::shared_ptr<const ElementSource> source);
  // Of blocks that lie at `offset` of a file.
  TensorReader(std::shared_ptr<const MappedFile> file, std::string name, BlockType type,
               std::vector<int64_t> shape, uint64_t offset);

  const std::string& name() const { return name_; }
  const std::string& file() const { return source_->file(); }
  std::string_view type_name() const { return source_->type_name(); }  // for people: "Q4_K"
  bool decodes() const { return source_->decodes(); }                  // whether it can be read as floats
  const std::vector<int64_t>& shape() const { return shape_; }         // row-major
  // A row is all that shares the first index: an element of a vector, a line of a matrix, a matrix of a stack.
  int64_t rows() const { return rows_; }
  int64_t row_elements() const { return row_elements_; }
  int64_t elements() const { return rows_ * row_elements_; }

  // Rows [begin, end) as floats, or as halves (the floats rounded to nearest even). `out` has the size of the
  // rows; Error when the rows do not exist or the type is no floating-point one.
  void read_rows(int64_t begin, int64_t end, std::span<float> out) const;
  void read_rows(int64_t begin, int64_t end, std::span<uint16_t> out) const;
  // Elements [begin, end) of the row-major tensor as floats. Any range is possible: a block at its edge is decoded
  // completely and the rest dropped.
  void read_elements(int64_t begin, int64_t end, std::span<float> out) const;
  // All of it, on all cores, giving the pages of the file back on the way.
  void read_all(ThreadPool& pool, std::span<float> out) const;
  void read_all(ThreadPool& pool, std::span<uint16_t> out) const;
  std::vector<float> read_floats(ThreadPool& pool) const;

  uint64_t stored_bytes() const { return source_->stored_bytes(); }
  // The bytes as stored, for callers that know the block type; nothing if the tensor has several parts.
  std::optional<StoredBlocks> blocks() const { return source_->blocks(); }
  // A hint that these are not needed soon: their pages go back to the system. Ranges that do not exist are ignored.
  void release_rows(int64_t begin, int64_t end) const noexcept;
  void release_elements(int64_t begin, int64_t end) const noexcept;

 private:
  void expect_floats() const;
  template <class Out>
  void read(int64_t begin, int64_t end, std::span<Out> out) const;
  template <class Out>
  void read_parallel(ThreadPool& pool, std::span<Out> out) const;

  std::string name_;
  std::vector<int64_t> shape_;
  std::shared_ptr<const ElementSource> source_;
  int64_t rows_ = 1, row_elements_ = 1;
};

}  // namespace anemone
