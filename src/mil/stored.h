// StoredTensor: a constant as it is stored (fp16, packed integers, palettes, sparse …), read in pieces.
//     auto w = stored_constant(constant);
//     w->read(row * k, (row + 1) * k, scratch);       // one row, decoded to fp32
// Elements come out as 4 bytes each: float for floating types, int32 for integers and bool, as everywhere in
// the engine. Weights are never expanded whole: conv, linear, matmul and gather read tiles through this
// interface.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mil/constant.h"
#include "mil/type.h"

namespace anemone {

// Scales or offsets as they lie: as floats, or as the halves of a file, which many are better left as.
class FloatView {
 public:
  FloatView() = default;
  FloatView(const float* floats) : floats_(floats) {}
  static FloatView of_halves(const std::byte* halves) {
    FloatView out;
    out.halves_ = halves;
    return out;
  }

  explicit operator bool() const { return floats_ || halves_; }
  float operator[](int64_t i) const { return floats_ ? floats_[i] : half(i); }
  FloatView from(int64_t i) const { return floats_ ? FloatView(floats_ + i) : of_halves(halves_ + 2 * i); }
  // Where they are floats; else null.
  const float* floats() const { return floats_; }
  // `count` of them as floats: where they are, or in `room`.
  const float* read(int64_t begin, int64_t count, std::vector<float>& room) const;
  // Asks the memory for them.
  void fetch(int64_t begin, int64_t count) const;
  bool same(const FloatView& other, int64_t count) const;

 private:
  float half(int64_t i) const;

  const float* floats_ = nullptr;
  const std::byte* halves_ = nullptr;
};

class StoredTensor {
 public:
  explicit StoredTensor(Type type) : type_(std::move(type)) {}
  virtual ~StoredTensor() = default;

  const Type& type() const { return type_; }
  // Decodes the elements [begin, end) in row-major order. Safe from any thread.
  virtual void read(int64_t begin, int64_t end, void* out) const = 0;

  // How the elements lie, where a fast kernel can use them in place. A row is what belongs to one index of
  // the first dimension. With q the packed element at `data`, or what it stands for where there is a table:
  //     value = scale[row / rows_per_scale] * (q - offset[row / rows_per_scale])
  //     q = lut[row / rows_per_lut * 2^bits + index]
  // With columns_per_scale above 0 a row has several scales and offsets, one after the other for its blocks of
  // so many elements. With rows_per_index above 1 so many rows share one row of indices, each with a table of its
  // own: row / rows_per_index takes the place of `row`, and the table's number is that of the group times
  // rows_per_index, plus row % rows_per_index.
  // Kernels that do not know a layout use read(). Where the declared type is fp16, read() rounds each product
  // to it, as coremltools does; a kernel that applies the scale to a sum is closer to the stored numbers than
  // that.
  struct Layout {
    DType dtype = DType::none;        // of the packed elements; none: only read() is possible
    const std::byte* data = nullptr;  // packed, row-major
    FloatView scale;                  // empty: 1
    const float* offset = nullptr;    // empty: 0
    int64_t rows_per_scale = 1, columns_per_scale = 0;
    const float* lut = nullptr;  // neither this nor `tables`: the elements are numbers, not indices
    const StoredTensor* tables =
        nullptr;  // in place of `lut`, where the tables are too many to be kept decoded
    int64_t rows_per_lut = 1, rows_per_index = 1;
    bool indices() const { return lut || tables; }
  };
  virtual Layout layout() const { return {}; }

 private:
  Type type_;
};

// Over the bytes of a constant, which must outlive it, or over its source: every dtype but string.
std::unique_ptr<StoredTensor> stored_constant(const Constant& constant);
// Over dense 4-byte elements in memory (a computed value used where a weight may stand).
std::unique_ptr<StoredTensor> stored_dense(const Type& type, const void* data);

// Decodes a whole constant; for small ones.
std::vector<float> decode_floats(const StoredTensor& tensor);
std::vector<int32_t> decode_ints(const StoredTensor& tensor);

}  // namespace anemone
