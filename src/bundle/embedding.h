// The tables of a bundle that become the first stage's input: a row a token, and, where the model has them, a row a
// position and a row a token type.
//     EmbeddingReader reader("bundle", info);
//     reader.read({.id = 42, .position = 3}, row);        // hidden floats, scaled, added up
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "bundle/bundle_info.h"
#include "mil/constant.h"

namespace anemone {

class Checkpoint;
class ThreadPool;

struct TokenPlace {
  int64_t id = 0, position = 0, type = 0;
};

class EmbeddingReader {
 public:
  // Error when a table is missing or has another size than bundle.json says.
  EmbeddingReader(const std::filesystem::path& bundle, const BundleInfo& info);

  // What the first stage takes for a token; Error for an id, a position or a type that no table has.
  void read(const TokenPlace& token, std::span<float> out) const;
  // The parts of that sum, each a row of its table, scaled. Error for a table that the model does not have.
  void read_token(int64_t id, std::span<float> out) const;
  void read_position(int64_t row, std::span<float> out) const;
  void read_type(int64_t row, std::span<float> out) const;
  uint64_t bytes() const;  // mapped from files

 private:
  struct Table {
    std::shared_ptr<const MappedFile> data, scales;
    int64_t rows = 0;
    bool int8 = false;
  };
  // Rows of the embedding inside a head's weights.
  struct Part {
    Blob data, scales;
    int64_t first = 0, count = 0;
  };

  Table open(const EmbeddingTable& table) const;
  void open_parts(const BundleInfo& info);
  void read_part(int64_t id, std::span<float> out) const;
  void read_row(const Table& table, int64_t row, const char* what, std::span<float> out) const;
  void read_added(const Table& table, int64_t row, const char* what, std::span<float> out) const;

  std::filesystem::path path_;
  int64_t hidden_, vocab_, first_position_;
  float scale_, stream_;
  Table tokens_, positions_, types_;
  std::vector<Part> parts_;  // instead of `tokens_`
  bool int8_parts_ = false;
};

// Rows in fp16, or in int8 with a file of fp32 scales, as `table` says.
void write_embedding_table(const Checkpoint& checkpoint, const WeightRef& ref,
                           const std::filesystem::path& folder, const EmbeddingTable& table,
                           ThreadPool& pool);

}  // namespace anemone
