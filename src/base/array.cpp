#include "anemone/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"

namespace anemone {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bits;
  bool is_float;
  bool is_signed;
};

// Indexed by DType.
constexpr DTypeInfo kInfo[] = {
    {"none", 0, false, false},    {"bool", 8, false, false},    {"string", 0, false, false},
    {"fp16", 16, true, true},     {"bf16", 16, true, true},     {"fp32", 32, true, true},
    {"fp64", 64, true, true},     {"fp8e4m3fn", 8, true, true}, {"fp8e5m2", 8, true, true},
    {"int4", 4, false, true},     {"int8", 8, false, true},     {"int16", 16, false, true},
    {"int32", 32, false, true},   {"int64", 64, false, true},   {"uint1", 1, false, false},
    {"uint2", 2, false, false},   {"uint3", 3, false, false},   {"uint4", 4, false, false},
    {"uint6", 6, false, false},   {"uint8", 8, false, false},   {"uint16", 16, false, false},
    {"uint32", 32, false, false}, {"uint64", 64, false, false},
};

template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// One whole-byte element as the widest type of its kind.
double float_at(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::fp16: return half_to_float(load<uint16_t>(p));
    case DType::bf16: return bfloat16_to_float(load<uint16_t>(p));
    case DType::fp32: return load<float>(p);
    case DType::fp64: return load<double>(p);
    default: throw errorf("no float in an array of {}", dtype_name(dtype));
  }
}

int64_t int_at(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::boolean: return load<uint8_t>(p) != 0;
    case DType::int8: return load<int8_t>(p);
    case DType::int16: return load<int16_t>(p);
    case DType::int32: return load<int32_t>(p);
    case DType::int64: return load<int64_t>(p);
    case DType::uint8: return load<uint8_t>(p);
    case DType::uint16: return load<uint16_t>(p);
    case DType::uint32: return load<uint32_t>(p);
    case DType::uint64: {
      const auto value = load<uint64_t>(p);
      if (value > INT64_MAX) throw errorf("{} is past the largest integer handled", value);
      return static_cast<int64_t>(value);
    }
    default: throw errorf("no integer in an array of {}", dtype_name(dtype));
  }
}

// Calls f with the place of every element, the last dimension fastest.
template <class F>
void for_each_element(const TensorView& view, F f) {
  const auto bytes = static_cast<int64_t>(dtype_bits(view.dtype) / 8);
  const auto* base = static_cast<const std::byte*>(view.data);
  if (view.dense())
    for (int64_t i = 0, count = view.size(); i < count; ++i) f(base + i * bytes);
  else
    for_each_offset(view.shape, view.strides, [&](int64_t offset) { f(base + offset * bytes); });
}

}  // namespace

std::string_view dtype_name(DType dtype) { return kInfo[static_cast<int>(dtype)].name; }

DType dtype_from_name(std::string_view name) {
  for (int i = 1; i < static_cast<int>(std::size(kInfo)); ++i)
    if (kInfo[i].name == name) return static_cast<DType>(i);
  return DType::none;
}

int dtype_bits(DType dtype) { return kInfo[static_cast<int>(dtype)].bits; }
bool dtype_is_float(DType dtype) { return kInfo[static_cast<int>(dtype)].is_float; }
bool dtype_is_signed(DType dtype) { return kInfo[static_cast<int>(dtype)].is_signed; }

Array::Array(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
  const uint64_t bytes = packed_bytes(element_count(shape_), dtype_bits(dtype));
  try {
    data_.resize(bytes);
  } catch (const std::exception&) {
    throw errorf("an array of {} bytes does not fit in memory", bytes).found(shape_text(shape_));
  }
}

int64_t Array::size() const { return element_count(shape_); }

void Array::assign(const void* source, size_t bytes) {
  if (bytes != data_.size())
    throw errorf("{} bytes of values do not fill an array of {}", bytes, shape_text(shape_));
  if (bytes) std::memcpy(data_.data(), source, bytes);
}

void Array::expect(DType dtype) const {
  if (dtype != dtype_)
    throw Error("an array was read as another type")
        .found(std::string(dtype_name(dtype_)))
        .expected(std::string(dtype_name(dtype)));
}

std::vector<float> Array::to_float() const { return TensorView::of(*this).to_float(); }

std::vector<int64_t> Array::to_int() const { return TensorView::of(*this).to_int(); }

TensorView TensorView::row_major(DType dtype, std::vector<int64_t> shape, void* data) {
  TensorView out{dtype, std::move(shape), {}, data};
  out.strides.resize(out.shape.size());
  int64_t stride = 1;
  for (size_t i = out.shape.size(); i-- > 0; stride *= out.shape[i]) out.strides[i] = stride;
  return out;
}

TensorView TensorView::of(const Array& array) {
  return row_major(array.dtype(), array.shape(), const_cast<std::byte*>(array.bytes().data()));
}

int64_t TensorView::size() const { return element_count(shape); }

bool TensorView::dense() const {
  if (size() == 0) return true;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    if (shape[i] != 1 && strides[i] != stride) return false;
  return true;
}

void TensorView::expect(DType wanted) const {
  if (wanted != dtype)
    throw Error("a tensor was read as another type")
        .found(std::string(dtype_name(dtype)))
        .expected(std::string(dtype_name(wanted)));
  if (!dense())
    throw Error("the elements of a tensor are not contiguous")
        .found(fmt::format("{} with strides {}", shape_text(shape), shape_text(strides)));
}

std::vector<float> TensorView::to_float() const {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(size()));
  const bool is_float = dtype_is_float(dtype);
  for_each_element(*this, [&](const std::byte* p) {
    out.push_back(is_float ? static_cast<float>(float_at(dtype, p)) : static_cast<float>(int_at(dtype, p)));
  });
  return out;
}

std::vector<int64_t> TensorView::to_int() const {
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(size()));
  const bool is_float = dtype_is_float(dtype);
  for_each_element(*this, [&](const std::byte* p) {
    if (!is_float) {
      out.push_back(int_at(dtype, p));
      return;
    }
    const double value = float_at(dtype, p);
    if (!(std::abs(value) < 0x1p63) || value != std::trunc(value))
      throw Error("a value is not a whole number").found(fmt::format("{}", value));
    out.push_back(static_cast<int64_t>(value));
  });
  return out;
}

Array TensorView::copy() const {
  Array out(dtype_is_float(dtype) ? DType::fp32 : DType::int32, shape);
  if (dtype == out.dtype() && dense()) {
    if (!out.bytes().empty()) std::memcpy(out.bytes().data(), data, out.bytes().size());
  } else if (dtype_is_float(dtype)) {
    std::ranges::copy(to_float(), out.values<float>().begin());
  } else {
    const std::vector<int64_t> values = to_int();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] < INT32_MIN || values[i] > INT32_MAX)
        throw errorf("{} does not fit into an int32", values[i]);
      out.values<int32_t>()[i] = static_cast<int32_t>(values[i]);
    }
  }
  return out;
}

}  // namespace anemone
