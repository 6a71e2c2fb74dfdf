#include "bundle/embedding.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "bundle/files.h"
#include "checkpoint/checkpoint.h"
#include "families/checkpoint_rows.h"
#include "kernels/convert.h"
#include "package/blob.h"

namespace anemone {
namespace {

constexpr int64_t kTileRows = 64;

void decode_int8(const std::byte* integers, int64_t row, float scale, std::span<float> out) {
  const auto* from = reinterpret_cast<const int8_t*>(integers) + row * static_cast<int64_t>(out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = scale * static_cast<float>(from[i]);
}

}  // namespace

EmbeddingReader::EmbeddingReader(const std::filesystem::path& bundle, const BundleInfo& info)
    : path_(bundle),
      hidden_(info.hidden),
      vocab_(info.vocab),
      first_position_(info.first_position),
      scale_(static_cast<float>(info.embedding_scale)),
      stream_(static_cast<float>(info.residual_scale)) {
  if (info.embedding_parts.empty())
    tokens_ = open(info.tokens);
  else
    open_parts(info);
  if (info.positions) positions_ = open(info.positions);
  if (info.types) types_ = open(info.types);
}

EmbeddingReader::Table EmbeddingReader::open(const EmbeddingTable& table) const {
  Table out{MappedFile::open(find_inside(path_, table.file)), nullptr, table.rows, table.dtype == "int8"};
  const uint64_t need = static_cast<uint64_t>(table.rows * hidden_) * (out.int8 ? 1 : 2);
  if (out.data->size() != need)
    throw errorf("the embedding has the wrong size")
        .at(out.data->path())
        .found(fmt::format("{} bytes", out.data->size()))
        .expected(fmt::format("{}", need));
  if (out.int8) out.scales = MappedFile::open(find_inside(path_, table.scales));
  return out;
}

// The records in front of the rows show whether they still match bundle.json.
void EmbeddingReader::open_parts(const BundleInfo& info) {
  int8_parts_ = info.tokens.dtype == "int8";
  int64_t next = 0;
  for (const EmbeddingPart& p : info.embedding_parts) {
    try {
      if (p.first_row != next || p.rows < 1 || p.rows > vocab_ - next)
        throw errorf("found rows {} to {}, but row {} is next", p.first_row, p.first_row + p.rows - 1, next);
      next += p.rows;
      const BlobFile file(find_inside(path_, p.file), BlobUse::look);
      const Type rows = Type::tensor(int8_parts_ ? DType::int8 : DType::fp16, {p.rows, hidden_});
      Part part{file.blob(p.file, p.offset - kBlobAlignment, rows), {}, p.first_row, p.rows};
      if (int8_parts_)
        part.scales = file.blob(p.file, p.scales - kBlobAlignment, Type::tensor(DType::fp16, {p.rows}));
      parts_.push_back(std::move(part));
    } catch (Error& e) {
      throw errorf("the embedding is not where bundle.json says: {}", e.what())
          .at(path_.string())
          .hint("a head that was changed no longer holds the embedding: convert with --embedding fp16");
    }
  }
  if (next != vocab_) throw errorf("the embedding has {} of {} rows", next, vocab_).at(path_.string());
}

void EmbeddingReader::read_part(int64_t id, std::span<float> out) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), id,
                                      [](int64_t row, const Part& part) { return row < part.first; });
  const Part& part = *(after - 1);
  const int64_t row = id - part.first;
  if (!int8_parts_) {
    halves_to_floats(part.data.bytes().data() + row * hidden_ * 2, hidden_, out.data());
    return;
  }
  uint16_t bits;
  std::memcpy(&bits, part.scales.bytes().data() + row * 2, 2);
  decode_int8(part.data.bytes().data(), row, half_to_float(bits), out);
}

void EmbeddingReader::read_row(const Table& table, int64_t row, const char* what,
                               std::span<float> out) const {
  if (row < 0 || row >= table.rows)
    throw errorf("the {} {} is not in the model's table", what, row)
        .expected(fmt::format("0 to {}", table.rows - 1));
  if (!table.int8) {
    halves_to_floats(table.data->bytes().data() + row * hidden_ * 2, hidden_, out.data());
    return;
  }
  float scale;
  std::memcpy(&scale, table.scales->slice(static_cast<uint64_t>(row) * 4, 4, "a scale").data(), 4);
  decode_int8(table.data->bytes().data(), row, scale, out);
}

void EmbeddingReader::read_token(int64_t id, std::span<float> out) const {
  if (id < 0 || id >= vocab_)
    throw errorf("the token {} is not in the vocabulary", id).expected(fmt::format("0 to {}", vocab_ - 1));
  if (parts_.empty())
    read_row(tokens_, id, "token", out);
  else
    read_part(id, out);
  if (scale_ != 1)
    for (float& v : out) v *= scale_;
}

void EmbeddingReader::read_added(const Table& table, int64_t row, const char* what,
                                 std::span<float> out) const {
  if (!table.data) throw errorf("the model has no table of {}s", what);
  read_row(table, row, what, out);
  for (float& v : out) v *= stream_;
}

void EmbeddingReader::read_position(int64_t row, std::span<float> out) const {
  read_added(positions_, row, "position", out);
}
void EmbeddingReader::read_type(int64_t row, std::span<float> out) const {
  read_added(types_, row, "token type", out);
}

void EmbeddingReader::read(const TokenPlace& token, std::span<float> out) const {
  read_token(token.id, out);
  if (!types_.data && token.type != 0)
    throw errorf("the token type {} is not in the model's table", token.type)
        .expected("0: the model has no types");
  if (!positions_.data && !types_.data) return;
  std::vector<float> more(out.size());
  const auto add = [&] {
    for (size_t i = 0; i < out.size(); ++i) out[i] += more[i];
  };
  if (positions_.data) {
    read_position(token.position + first_position_, more);
    add();
  }
  if (types_.data) {
    read_type(token.type, more);
    add();
  }
}

uint64_t EmbeddingReader::bytes() const {
  uint64_t total = 0;
  for (const Table* t : {&tokens_, &positions_, &types_})
    total += (t->data ? t->data->size() : 0) + (t->scales ? t->scales->size() : 0);
  return total;
}

void write_embedding_table(const Checkpoint& checkpoint, const WeightRef& ref,
                           const std::filesystem::path& folder, const EmbeddingTable& table,
                           ThreadPool& pool) {
  const WritableFile file(folder / table.file);
  const bool int8 = table.dtype == "int8";
  Int8Rows rows(CheckpointRows(checkpoint.tensor(ref.tensor), ref), {.per_row = true, .half = false});
  const int64_t columns = ref.columns, element = int8 ? 1 : 2;
  pool.parallel_for(ref.rows(), kTileRows, [&](int64_t begin, int64_t end) {
    std::vector<std::byte> packed;
    for (int64_t r = begin; r < end; r += kTileRows) {
      const int64_t stop = std::min(end, r + kTileRows);
      packed.resize(static_cast<size_t>((stop - r) * columns * element));
      if (int8)
        rows.quantize(r, stop, reinterpret_cast<int8_t*>(packed.data()));
      else
        rows.rows().halves(r, stop, reinterpret_cast<uint16_t*>(packed.data()));
      file.write(static_cast<uint64_t>(r * columns * element), packed.data(), packed.size());
    }
    rows.rows().release(begin, end);
  });
  if (!int8) return;
  std::vector<float> scales;
  for (int64_t r = 0; r < ref.rows(); ++r) scales.push_back(rows.scale(r));
  WritableFile(folder / table.scales).write(0, scales.data(), scales.size() * sizeof(float));
}

}  // namespace anemone
