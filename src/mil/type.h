// Types of MIL values: element type and shape, where a dimension may be a symbol.
//     Type t = Type::tensor(DType::fp16, {1, 64, Dim::symbol(1), 1});
//     t.text();                                   // "tensor<fp16, [1, 64, s1, 1]>"
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "anemone/array.h"

namespace anemone {

// One dimension: a number, or a number times symbols (the sizes of flexible inputs), or unknown ("?").
// Products of symbols are kept, so that `reshape` to [1, -1] and back is seen through; a sum with a symbol
// becomes unknown.
class Dim {
 public:
  constexpr Dim(int64_t size = 0) : factor_(size) {}  // NOLINT: a number is a dimension
  static constexpr Dim unknown() { return Dim(1, kUnknown); }
  static constexpr Dim symbol(uint16_t id) { return Dim(1, id); }  // id: 1 … 65534

  bool known() const { return symbols_[0] == 0; }
  bool is_unknown() const { return symbols_[0] == kUnknown; }
  int64_t size() const;  // of a known dimension
  bool operator==(const Dim&) const = default;

  Dim times(Dim other) const;
  // This over `other`, where the division is exact.
  std::optional<Dim> over(Dim other) const;
  std::string text() const;

 private:
  static constexpr uint16_t kUnknown = 0xffff;
  constexpr Dim(int64_t factor, uint16_t symbol) : factor_(factor), symbols_{symbol, 0, 0, 0} {}

  int64_t factor_;
  std::array<uint16_t, 4> symbols_{};  // sorted from the largest down; zeros fill up
};

using Shape = std::vector<Dim>;

struct Type {
  enum class Kind : uint8_t { none, tensor, list, state, tuple, dict };

  Kind kind = Kind::none;
  DType dtype = DType::none;    // tensor and state
  Shape shape;                  // tensor and state; of a dict that an op makes: the number of values
  std::vector<Type> items;      // list: the element; tuple: the members; dict: key and value
  Dim length = Dim::unknown();  // list
  std::string extra;            // fields of the file that we do not know, kept for writing back

  static Type tensor(DType dtype, Shape shape = {});
  static Type tensor(DType dtype, std::span<const int64_t> shape);
  static Type state(DType dtype, Shape shape);
  static Type list(Type element, Dim length);

  bool is_tensor() const { return kind == Kind::tensor; }
  int rank() const { return static_cast<int>(shape.size()); }
  Dim dim(int axis) const { return shape[static_cast<size_t>(axis)]; }
  bool is_float() const { return dtype_is_float(dtype); }
  // Every dimension is a number (of the element, for a list).
  bool fixed() const;
  // The dimensions as numbers; only for a fixed type.
  std::vector<int64_t> dims() const;
  int64_t size() const;  // elements; only for a fixed tensor or state
  // For a state: the tensor type that it holds.
  Type content() const { return tensor(dtype, shape); }
  std::string text() const;

  // Equal, but for `extra`.
  bool operator==(const Type& other) const;
};

// The same kind, element type and rank, and no two known dimensions that differ.
bool compatible(const Type& a, const Type& b);
std::string shape_text(const Shape& shape);
Shape to_shape(std::span<const int64_t> dims);

}  // namespace anemone
