// Palettized weights: an index per element (or per vector of elements) into a table, one table per block.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/shape.h"
#include "mil/rules.h"
#include "mil/stored_blocks.h"
#include "mil/stored_params.h"

namespace anemone::ops {
namespace {

// Tables and how indices find theirs. With vectors of V > 1 an index at position i along `axis` gives the
// elements i * V … i * V + V - 1 along it; `inner` is the number of elements behind that axis.
struct Palette {
  Blocks blocks;  // over the indices
  SideTable values;
  int64_t entries = 0;  // of one table
  int64_t vector = 1, inner = 1;

  uint32_t value(int64_t block, uint32_t index, int64_t v) const {
    return values.word((block * entries + index) * vector + v);
  }
  // Where in the indices an element of the result comes from, and which entry of the vector it is.
  std::pair<int64_t, int64_t> source(int64_t element) const {
    const int64_t row = element / inner;  // outer * (axis * V)
    return {row / vector * inner + element % inner, row % vector};
  }
  int64_t block_of(int64_t index) const {
    int64_t found = 0;
    blocks.runs(index, index + 1, [&](int64_t, int64_t, int64_t block) { found = block; });
    return found;
  }
};

class StoredPalette : public StoredTensor {
 public:
  // bits: of an index; the tensor of indices may be of that type, or (iOS 16) bytes that hold the packed
  // indices.
  StoredPalette(Type type, std::shared_ptr<const StoredTensor> indices, Palette palette)
      : StoredTensor(std::move(type)), indices_(std::move(indices)), p_(std::move(palette)) {
    // Vectors along the first dimension: each of their rows has a table of its own.
    const int64_t groups = p_.blocks.count(), elements = indices_->type().size();
    if (p_.vector == 1 || !p_.values.decoded() || elements == 0) return;
    if (p_.inner != elements / indices_->type().dim(0).size()) return;
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t v = 0; v < p_.vector; ++v)
        for (uint32_t q = 0; q < p_.entries; ++q) apart_.push_back(p_.value(g, q, v));
  }

  void read(int64_t begin, int64_t end, void* out) const override {
    auto* words = static_cast<uint32_t*>(out);
    if (p_.vector == 1) return read_scalars(begin, end, words);
    if (p_.inner == 1) return read_last_axis(begin, end, words);
    while (begin <
           end) {  // stretches that share the entry of the vector, and lie side by side in the indices
      const auto [index, v] = p_.source(begin);
      const int64_t stretch = std::min(end - begin, p_.inner - begin % p_.inner);
      indices_->read(index, index + stretch, words);
      p_.blocks.runs(index, index + stretch, [&, v = v, index = index](int64_t b, int64_t e, int64_t block) {
        for (int64_t i = b - index; i < e - index; ++i) words[i] = p_.value(block, words[i], v);
      });
      begin += stretch;
      words += stretch;
    }
  }

  Layout layout() const override {
    StoredTensor::Layout f = indices_->layout();
    const int64_t rows = p_.blocks.rows_per_block();
    if (rows == 0 || p_.blocks.columns_per_block() > 0 || !type().is_float()) return {};
    if (!f.data || f.indices() || f.scale) return {};
    if (p_.vector > 1) {
      if (apart_.empty()) return {};
      f.lut = reinterpret_cast<const float*>(apart_.data());
      f.rows_per_index = p_.vector;
      f.rows_per_lut = rows;
      return f;
    }
    f.lut = reinterpret_cast<const float*>(p_.values.decoded());
    f.tables = p_.values.stored();
    f.rows_per_lut = rows;
    return f;
  }

 private:
  void read_scalars(int64_t begin, int64_t end, uint32_t* words) const {
    indices_->read(begin, end, words);
    const uint32_t* tables = p_.values.decoded();
    p_.blocks.runs(begin, end, [&](int64_t b, int64_t e, int64_t block) {
      uint32_t* w = words + (b - begin);
      if (tables) {
        const uint32_t* table = tables + block * p_.entries;
        for (int64_t i = 0; i < e - b; ++i) w[i] = table[w[i]];
      } else {
        for (int64_t i = 0; i < e - b; ++i) w[i] = p_.value(block, w[i], 0);
      }
    });
  }

  void read_last_axis(int64_t begin, int64_t end, uint32_t* words) const {
    constexpr int64_t kChunk = 256;
    uint32_t indices[kChunk];
    for (int64_t first = begin / p_.vector; begin < end; first += kChunk) {
      const int64_t last = std::min(first + kChunk, (end - 1) / p_.vector + 1);
      indices_->read(first, last, indices);
      p_.blocks.runs(first, last, [&](int64_t b, int64_t e, int64_t block) {
        for (int64_t i = b; i < e; ++i)
          for (; begin < end && begin / p_.vector == i; ++begin)
            *words++ = p_.value(block, indices[i - first], begin % p_.vector);
      });
    }
  }

  std::shared_ptr<const StoredTensor> indices_;
  Palette p_;
  std::vector<uint32_t> apart_;  // the tables of a vector's rows, one after the other
};

// The stored values of a sparse palettized weight. `mask`: of the result, `indices_mask` of the indices.
class StoredSparsePalette : public StoredTensor {
 public:
  StoredSparsePalette(Type type, MaskBits mask, MaskBits indices_mask,
                      std::shared_ptr<const StoredTensor> indices, Palette palette)
      : StoredTensor(std::move(type)),
        mask_(std::move(mask)),
        indices_mask_(std::move(indices_mask)),
        indices_(std::move(indices)),
        p_(std::move(palette)) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    if (begin >= end) return;
    auto* words = static_cast<uint32_t*>(out);
    int64_t at = mask_.position(begin);
    if (p_.vector == 1) {  // the stored indices are in the order of the values
      indices_->read(begin, end, words);
      int64_t done = begin;
      p_.blocks.runs(at, mask_.position(end - 1) + 1, [&](int64_t, int64_t e, int64_t block) {
        for (const int64_t next = mask_.rank(e); done < next; ++done, ++words)
          *words = p_.value(block, *words, 0);
      });
      return;
    }
    for (int64_t left = end - begin; left > 0; ++at) {
      if (!mask_.bit(at)) continue;
      const auto [index, v] = p_.source(at);
      const int64_t rank = indices_mask_.rank(index);
      uint32_t entry;
      indices_->read(rank, rank + 1, &entry);
      *words++ = p_.value(p_.block_of(index), entry, v);
      --left;
    }
  }

 private:
  MaskBits mask_, indices_mask_;
  std::shared_ptr<const StoredTensor> indices_;
  Palette p_;
};

// The bytes of packed indices seen as the sub-byte tensor they are (iOS 16 form).
class StoredPacked : public StoredTensor {
 public:
  StoredPacked(Type type, std::shared_ptr<const StoredTensor> bytes, int bits)
      : StoredTensor(std::move(type)), bytes_(std::move(bytes)), bits_(bits) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    auto* words = static_cast<uint32_t*>(out);
    constexpr int64_t kChunk = 512;
    uint32_t bytes[kChunk];
    while (begin < end) {
      const int64_t stop = std::min(end, begin + (kChunk - 2) * 8 / bits_);
      const int64_t first = begin * bits_ / 8, last = (stop * bits_ + 7) / 8;
      bytes_->read(first, last, bytes);
      for (; begin < stop; ++begin) {
        const int64_t bit = begin * bits_ - first * 8;
        uint32_t word = bytes[bit >> 3];
        if ((bit & 7) + bits_ > 8) word |= bytes[(bit >> 3) + 1] << 8;
        *words++ = (word >> (bit & 7)) & ((1u << bits_) - 1);
      }
    }
  }
  Layout layout() const override {
    Layout f = bytes_->layout();
    f.dtype = f.dtype == DType::uint8 ? type().dtype : DType::none;
    return f;
  }

 private:
  std::shared_ptr<const StoredTensor> bytes_;
  int bits_;
};

int bits_for(int64_t entries) {
  for (const int bits : {1, 2, 3, 4, 6, 8})
    if (entries == int64_t{1} << bits) return bits;
  throw errorf("'lut' has {} entries", entries).expected("2, 4, 8, 16, 64 or 256");
}

DType index_type(int bits) {
  switch (bits) {
    case 1: return DType::uint1;
    case 2: return DType::uint2;
    case 3: return DType::uint3;
    case 4: return DType::uint4;
    case 6: return DType::uint6;
    default: return DType::uint8;
  }
}

// What `lut` and `vector_axis` say about indices of that shape.
struct TableShape {
  std::vector<int64_t> dims, out_dims, parts;
  int64_t entries = 0, vector = 1, inner = 1;
};

TableShape table_shape(const OpCall& c, std::string_view indices, std::string_view shape_of) {
  TableShape p;
  p.dims = fixed_dims(c, shape_of);
  const std::vector<int64_t> lut = fixed_dims(c, "lut");
  const size_t rank = p.dims.size();
  if (rank < 1) throw errorf("'{}' must have at least one dimension", shape_of);
  if (lut.size() != rank + 2)
    throw errorf("'lut' must have two dimensions more than '{}'", shape_of)
        .found(c.type("lut").text())
        .expected(fmt::format("rank {}", rank + 2));
  p.parts.assign(lut.begin(), lut.end() - 2);
  p.entries = lut[rank];
  p.vector = lut[rank + 1];
  if (p.vector < 1) throw errorf("'lut' has no values").found(c.type("lut").text());
  if (bits_for(p.entries) != dtype_bits(c.type(indices).dtype))
    throw errorf("'lut' has {} entries, which {} indices do not match", p.entries,
                 dtype_name(c.type(indices).dtype));
  Blocks(p.dims, p.parts);
  p.out_dims = p.dims;
  if (p.vector > 1) {
    if (!c.has("vector_axis")) throw errorf("'vector_axis' is needed when the table holds vectors");
    const auto axis = static_cast<size_t>(
        normal_axis(stored_integer(c, "vector_axis"), static_cast<int>(rank), "vector_axis"));
    const int64_t across[] = {p.dims[axis], p.vector};
    p.out_dims[axis] = element_count(across);
    for (size_t i = axis + 1; i < rank; ++i) p.inner *= p.dims[i];
  }
  element_count(p.out_dims);
  return p;
}

Palette palette(const OpCall& c, const TableShape& p) {
  return {Blocks(p.dims, p.parts), SideTable(stored_param(c, "lut"), element_count(p.out_dims)), p.entries,
          p.vector, p.inner};
}

Types infer_dense(const OpCall& c) {
  if (c.since() != Opset::ios16)
    return {Type::tensor(c.type("lut").dtype, table_shape(c, "indices", "indices").out_dims)};
  const std::vector<int64_t> dims = stored_integers(c, "shape"), lut = fixed_dims(c, "lut");
  if (lut.size() != 1) throw errorf("'lut' must be a vector").found(c.type("lut").text());
  const uint64_t need = packed_bytes(element_count(dims), bits_for(lut[0]));
  if (fixed_dims(c, "indices") != std::vector<int64_t>{static_cast<int64_t>(need)})
    throw errorf("'indices' has the wrong size for {} entries and the shape {}", lut[0], shape_text(dims))
        .found(c.type("indices").text())
        .expected(fmt::format("{} bytes", need));
  return {Type::tensor(c.type("lut").dtype, dims)};
}

std::shared_ptr<const StoredTensor> store_dense(const OpCall& c, int) {
  const Type type = infer_dense(c)[0];
  if (c.since() != Opset::ios16)
    return std::make_shared<StoredPalette>(type, stored_param(c, "indices"),
                                           palette(c, table_shape(c, "indices", "indices")));
  const std::vector<int64_t> dims = type.dims(), one(dims.size(), 1);
  const int64_t entries = c.type("lut").size();
  const int bits = bits_for(entries);
  Palette p{Blocks(dims, one), SideTable(stored_param(c, "lut"), type.size()), entries, 1, 1};
  auto indices =
      std::make_shared<StoredPacked>(Type::tensor(index_type(bits), dims), stored_param(c, "indices"), bits);
  return std::make_shared<StoredPalette>(type, std::move(indices), std::move(p));
}

Types infer_sparse(const OpCall& c) {
  const std::vector<int64_t> values = fixed_dims(c, "indices_nonzero_data");
  if (values.size() != 1)
    throw errorf("'indices_nonzero_data' must be a vector").found(c.type("indices_nonzero_data").text());
  const TableShape p = table_shape(c, "indices_nonzero_data", "indices_mask");
  const int64_t count[] = {values[0], p.vector};
  return {Type::tensor(DType::uint1, p.out_dims), Type::tensor(c.type("lut").dtype, {element_count(count)})};
}

// The mask of the indices with each bit repeated along the vector's axis.
std::shared_ptr<const StoredTensor> repeated(const MaskBits& mask, const TableShape& p) {
  const int64_t count = element_count(p.out_dims);
  std::vector<std::byte> bits(static_cast<size_t>((count + 7) / 8));
  for (int64_t i = 0; i < count; ++i)
    if (mask.bit(i / p.inner / p.vector * p.inner + i % p.inner))
      bits[static_cast<size_t>(i >> 3)] |= std::byte{1} << (i & 7);
  return stored_bits(p.out_dims, std::move(bits));
}

std::shared_ptr<const StoredTensor> store_sparse(const OpCall& c, int index) {
  const Types types = infer_sparse(c);
  const TableShape p = table_shape(c, "indices_nonzero_data", "indices_mask");
  const auto stored_mask = stored_param(c, "indices_mask");
  if (index == 0 && p.vector == 1) return stored_mask;
  MaskBits mask(stored_mask, element_count(p.dims));
  auto out_mask = p.vector == 1 ? stored_mask : repeated(mask, p);
  if (index == 0) return out_mask;
  check_ones(mask, c.type("indices_nonzero_data").size(), "indices_mask", "indices_nonzero_data");
  return std::make_shared<StoredSparsePalette>(types[1], MaskBits(out_mask, types[0].size()), std::move(mask),
                                               stored_param(c, "indices_nonzero_data"), palette(c, p));
}

constexpr DTypes kIndices = only(DType::uint1) | only(DType::uint2) | only(DType::uint3) |
                            only(DType::uint4) | only(DType::uint6) | only(DType::uint8);

const Op kOps[] = {
    {.name = "constexpr_lut_to_dense",
     .versions = {{Opset::ios16,
                   {{"indices", only(DType::uint8), 0, kConst},
                    {"lut", kFloat | kInt8, 0, kConst},
                    {"shape", only(DType::uint32) | kInt32, 0, kConst}}},
                  {Opset::ios18,
                   {{"indices", kIndices, 0, kConst},
                    {"lut", kFloat | kInt8, 0, kConst},
                    {"vector_axis", kInt32, 0, kConst | kOptional}}}},
     .doc = "lut[index] for each index; a table per block, entries of one value or a vector",
     .infer = infer_dense,
     .store = store_dense},
    {.name = "constexpr_lut_to_sparse",
     .versions = {{Opset::ios18,
                   {{"indices_mask", only(DType::uint1), 0, kConst},
                    {"indices_nonzero_data", kIndices, 0, kConst},
                    {"lut", kFloat | kInt8, 0, kConst},
                    {"vector_axis", kInt32, 0, kConst | kOptional}}}},
     .doc = "the mask of the result, and lut[index] for the stored indices",
     .infer = infer_sparse,
     .store = store_sparse},
};

}  // namespace

std::span<const Op> ops_constexpr_lut() { return kOps; }

}  // namespace anemone::ops
