// DType, Array and TensorView: plain n-dimensional data, as it goes into and comes out of a model.
//     anemone::Array x = anemone::Array::from<float>({1, 3}, {0.5f, 1.0f, 2.0f});
//     float first = x.values<float>()[0];
//     anemone::TensorView lent = anemone::TensorView::of(x);
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anemone {

// Every element type that a Core ML program can name. Sub-byte types are packed: element 0 in the lowest
// bits.
enum class DType : uint8_t {
  none,
  boolean,
  string,
  fp16,
  bf16,
  fp32,
  fp64,
  fp8_e4m3fn,
  fp8_e5m2,
  int4,
  int8,
  int16,
  int32,
  int64,
  uint1,
  uint2,
  uint3,
  uint4,
  uint6,
  uint8,
  uint16,
  uint32,
  uint64,
};

// "fp16", "int32", "bool" …: the names of MIL text.
std::string_view dtype_name(DType dtype);
// The type of that name, or DType::none.
DType dtype_from_name(std::string_view name);
// Bits of one stored element; 8 for bool, 0 for string and none.
int dtype_bits(DType dtype);
bool dtype_is_float(DType dtype);
bool dtype_is_signed(DType dtype);

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::fp32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::fp64;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::int8;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::int16;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::int32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::int64;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::uint8;
}
template <>
constexpr DType dtype_of<uint16_t>() {
  return DType::uint16;
}
template <>
constexpr DType dtype_of<uint32_t>() {
  return DType::uint32;
}
template <>
constexpr DType dtype_of<uint64_t>() {
  return DType::uint64;
}

// An owned, dense, row-major array.
class Array {
 public:
  Array() = default;
  // Zeros. Throws Error when the size in bytes does not fit in memory.
  Array(DType dtype, std::vector<int64_t> shape);

  template <class T>
  static Array from(std::vector<int64_t> shape, std::initializer_list<T> values) {
    Array a(dtype_of<T>(), std::move(shape));
    a.assign(values.begin(), values.size() * sizeof(T));
    return a;
  }

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const;  // elements
  std::span<std::byte> bytes() { return data_; }
  std::span<const std::byte> bytes() const { return data_; }

  // The elements as T; throws Error unless dtype() is T's.
  template <class T>
  std::span<T> values() {
    expect(dtype_of<T>());
    return {reinterpret_cast<T*>(data_.data()), data_.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> values() const {
    expect(dtype_of<T>());
    return {reinterpret_cast<const T*>(data_.data()), data_.size() / sizeof(T)};
  }

  // The same values as fp32, or as int64 (throws Error where a value is not a whole number).
  std::vector<float> to_float() const;
  std::vector<int64_t> to_int() const;

 private:
  void assign(const void* source, size_t bytes);
  void expect(DType dtype) const;

  DType dtype_ = DType::none;
  std::vector<int64_t> shape_;
  std::vector<std::byte> data_;
};

// Elements that somebody else owns. Who gives a view away says how long it holds and who may write.
struct TensorView {
  DType dtype = DType::none;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements, by dimension: Core ML pads rows
  void* data = nullptr;

  // Dense memory, row by row.
  static TensorView row_major(DType dtype, std::vector<int64_t> shape, void* data);
  // An array's elements, to be read.
  static TensorView of(const Array& array);

  int64_t size() const;  // elements
  // The elements lie one behind the other, row by row. Strides of dimensions of one element do not matter.
  bool dense() const;

  // The elements in place; throws Error unless dtype is T's and they are dense.
  template <class T>
  std::span<T> values() const {
    expect(dtype_of<T>());
    return {static_cast<T*>(data), static_cast<size_t>(size())};
  }
  // As Array's, in the order of a dense array.
  std::vector<float> to_float() const;
  std::vector<int64_t> to_int() const;
  // Owned: fp32 for a floating type, int32 for the others (throws Error where a value does not fit).
  Array copy() const;

 private:
  void expect(DType wanted) const;
};

}  // namespace anemone
