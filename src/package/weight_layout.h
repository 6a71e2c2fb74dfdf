// WeightLayout: which constants of a program go into the weight file, each once, and where.
//     WeightLayout layout = lay_out_weights(program, spec_version, pool);
//     layout.place(constant);                            // the offset of its record
// A constant goes there when it lay there before, or by coremltools' rule: 10 elements or more, of a type
// that the specification version allows, as the value of a const or a parameter of a constexpr operation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "mil/program.h"

namespace anemone {

class ThreadPool;

// One record of the weight file.
struct FileBlob {
  DType dtype = DType::none;
  int64_t elements = 0;
  uint64_t bytes = 0;
  uint64_t record_offset = 0;
  // Where the data comes from: one of these.
  std::span<const std::byte> data;              // in memory or in a mapping
  std::shared_ptr<const MappedFile> file;       // the mapping that `data` lies in, if any
  std::shared_ptr<const WeightSource> source;   // produced while writing
  std::shared_ptr<const Constant::Bytes> made;  // owner of `data` for small sources

  uint64_t data_offset() const { return record_offset + 64; }
};

struct WeightLayout {
  std::vector<FileBlob> blobs;  // in the order of the file
  uint64_t file_bytes = 0;
  uint64_t shared = 0;  // constants that use the record of an earlier one
  std::unordered_map<const Constant*, size_t> blob_of;

  std::optional<uint64_t> place(const Constant& constant) const;
};

// Also lets every source prepare itself, which fixes its type.
WeightLayout lay_out_weights(const Program& program, int spec_version, ThreadPool& pool);

}  // namespace anemone
