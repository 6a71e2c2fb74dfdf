#include "mil/stored.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

template <class T>
T load(const std::byte* base, int64_t index) {
  T value;
  std::memcpy(&value, base + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T, class Out, class Convert>
void read_as(const std::byte* data, int64_t begin, int64_t end, void* out, Convert convert) {
  Out* o = static_cast<Out*>(out);
  for (int64_t i = begin; i < end; ++i) *o++ = convert(load<T>(data, i));
}

float fp8_to_float(uint8_t bits, int mantissa_bits, bool has_infinity) {
  const int exponent_bits = 7 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int top = (1 << exponent_bits) - 1;
  float value;
  if (has_infinity && exponent == top)
    value = mantissa ? std::nanf("") : INFINITY;
  else if (!has_infinity && exponent == top && mantissa == (1 << mantissa_bits) - 1)
    value = std::nanf("");
  else if (exponent == 0)
    value = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  else
    value = std::ldexp(static_cast<float>(mantissa + (1 << mantissa_bits)), exponent - bias - mantissa_bits);
  return bits & 0x80 ? -value : value;
}

// The packed elements of a sub-byte type: a bit stream, element 0 in the lowest bits of byte 0.
void read_bits(const std::byte* data, int bits, bool is_signed, int64_t begin, int64_t end, int32_t* out) {
  const int32_t mask = (1 << bits) - 1;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t bit = i * bits;
    const int shift = static_cast<int>(bit & 7);
    uint32_t word = std::to_integer<uint32_t>(data[bit >> 3]);
    if (shift + bits > 8) word |= std::to_integer<uint32_t>(data[(bit >> 3) + 1]) << 8;
    int32_t value = static_cast<int32_t>(word >> shift) & mask;
    if (is_signed && (value & (1 << (bits - 1)))) value -= 1 << bits;
    *out++ = value;
  }
}

int32_t narrow(int64_t value) {
  if (value < INT32_MIN || value > INT32_MAX) throw errorf("the integer {} does not fit in 32 bits", value);
  return static_cast<int32_t>(value);
}

class StoredBytes : public StoredTensor {
 public:
  StoredBytes(Type type, std::span<const std::byte> bytes) : StoredTensor(std::move(type)), bytes_(bytes) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    const std::byte* d = bytes_.data();
    switch (type().dtype) {
      case DType::fp32: return read_as<float, float>(d, begin, end, out, [](float v) { return v; });
      case DType::fp16: return halves_to_floats(d + begin * 2, end - begin, static_cast<float*>(out));
      case DType::bf16: return bfloats_to_floats(d + begin * 2, end - begin, static_cast<float*>(out));
      case DType::fp64:
        return read_as<double, float>(d, begin, end, out, [](double v) { return static_cast<float>(v); });
      case DType::fp8_e4m3fn:
        return read_as<uint8_t, float>(d, begin, end, out,
                                       [](uint8_t v) { return fp8_to_float(v, 3, false); });
      case DType::fp8_e5m2:
        return read_as<uint8_t, float>(d, begin, end, out,
                                       [](uint8_t v) { return fp8_to_float(v, 2, true); });
      case DType::int32: return read_as<int32_t, int32_t>(d, begin, end, out, [](int32_t v) { return v; });
      case DType::int16:
        return read_as<int16_t, int32_t>(d, begin, end, out, [](int16_t v) { return int32_t{v}; });
      case DType::int8:
        return read_as<int8_t, int32_t>(d, begin, end, out, [](int8_t v) { return int32_t{v}; });
      case DType::uint16:
        return read_as<uint16_t, int32_t>(d, begin, end, out, [](uint16_t v) { return int32_t{v}; });
      case DType::uint8:
        return read_as<uint8_t, int32_t>(d, begin, end, out, [](uint8_t v) { return int32_t{v}; });
      case DType::boolean:
        return read_as<uint8_t, int32_t>(d, begin, end, out, [](uint8_t v) { return int32_t{v != 0}; });
      case DType::int64: return read_as<int64_t, int32_t>(d, begin, end, out, narrow);
      case DType::uint32: return read_as<uint32_t, int32_t>(d, begin, end, out, narrow);
      case DType::uint64:
        return read_as<uint64_t, int32_t>(d, begin, end, out, [](uint64_t v) {
          return narrow(v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v));
        });
      default:
        return read_bits(d, dtype_bits(type().dtype), dtype_is_signed(type().dtype), begin, end,
                         static_cast<int32_t*>(out));
    }
  }

  Layout layout() const override { return {.dtype = type().dtype, .data = bytes_.data()}; }

 private:
  std::span<const std::byte> bytes_;
};

// A constant that is not written yet: its source makes the rows that are asked for.
class StoredSource : public StoredTensor {
 public:
  explicit StoredSource(std::shared_ptr<const WeightSource> source)
      : StoredTensor(source->type()),
        source_(std::move(source)),
        rows_(type().rank() == 0 ? 1 : type().dim(0).size()) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    if (begin == end) return;
    const int64_t row = type().size() / rows_, step = source_->row_step();
    const int64_t first = begin / row / step * step;
    const int64_t last = std::min(rows_, ((end + row - 1) / row + step - 1) / step * step);
    const Type made = Type::tensor(type().dtype, {(last - first) * row});
    std::vector<std::byte> bytes(packed_bytes(made.size(), dtype_bits(made.dtype)));
    source_->rows(first, last, bytes);
    StoredBytes(made, bytes).read(begin - first * row, end - first * row, out);
  }

 private:
  std::shared_ptr<const WeightSource> source_;
  int64_t rows_;
};

class StoredDense : public StoredTensor {
 public:
  StoredDense(Type type, const void* data)
      : StoredTensor(std::move(type)), data_(static_cast<const std::byte*>(data)) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    std::memcpy(out, data_ + begin * 4, static_cast<size_t>(end - begin) * 4);
  }

  Layout layout() const override {
    return {.dtype = type().is_float() ? DType::fp32 : DType::int32, .data = data_};
  }

 private:
  const std::byte* data_;
};

}  // namespace

float FloatView::half(int64_t i) const { return half_to_float(load<uint16_t>(halves_, i)); }

const float* FloatView::read(int64_t begin, int64_t count, std::vector<float>& room) const {
  if (floats_) return floats_ + begin;
  if (static_cast<int64_t>(room.size()) < count) room.resize(static_cast<size_t>(count));
  halves_to_floats(halves_ + 2 * begin, count, room.data());
  return room.data();
}

void FloatView::fetch(int64_t begin, int64_t count) const {
  const int64_t bytes = floats_ ? 4 : 2;
  const std::byte* at = (floats_ ? reinterpret_cast<const std::byte*>(floats_) : halves_) + begin * bytes;
  for (int64_t i = 0; i < count * bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}

bool FloatView::same(const FloatView& other, int64_t count) const {
  if (floats_ == other.floats_ && halves_ == other.halves_) return true;
  if (!*this || !other || !floats_ != !other.floats_) return false;
  const auto bytes = static_cast<size_t>(count);
  return floats_ ? std::memcmp(floats_, other.floats_, 4 * bytes) == 0
                 : std::memcmp(halves_, other.halves_, 2 * bytes) == 0;
}

std::unique_ptr<StoredTensor> stored_constant(const Constant& constant) {
  if (!constant.type.is_tensor() || constant.type.dtype == DType::string || !constant.type.fixed())
    throw errorf("a constant of type {} cannot be read as numbers", constant.type.text());
  if (const auto* source = std::get_if<Constant::Source>(&constant.data))
    return std::make_unique<StoredSource>(*source);
  const std::span<const std::byte> bytes = constant.bytes();
  const uint64_t need = packed_bytes(constant.type.size(), dtype_bits(constant.type.dtype));
  if (bytes.size() != need)
    throw errorf("a constant of type {} has the wrong size", constant.type.text())
        .found(fmt::format("{} bytes", bytes.size()))
        .expected(fmt::format("{} bytes", need));
  return std::make_unique<StoredBytes>(constant.type, bytes);
}

std::unique_ptr<StoredTensor> stored_dense(const Type& type, const void* data) {
  return std::make_unique<StoredDense>(type, data);
}

std::vector<float> decode_floats(const StoredTensor& tensor) {
  ANEMONE_CHECK(tensor.type().is_float());
  std::vector<float> out(static_cast<size_t>(tensor.type().size()));
  tensor.read(0, static_cast<int64_t>(out.size()), out.data());
  return out;
}

std::vector<int32_t> decode_ints(const StoredTensor& tensor) {
  ANEMONE_CHECK(!tensor.type().is_float());
  std::vector<int32_t> out(static_cast<size_t>(tensor.type().size()));
  tensor.read(0, static_cast<int64_t>(out.size()), out.data());
  return out;
}

}  // namespace anemone
