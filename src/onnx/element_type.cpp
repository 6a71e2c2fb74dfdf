#include "onnx/element_type.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

constexpr OnnxTypeInfo kInfos[] = {
    {OnnxType::undefined, "UNDEFINED", 0, false, false, false},
    {OnnxType::float32, "FLOAT", 32, true, false, true},
    {OnnxType::uint8, "UINT8", 8, false, true, false},
    {OnnxType::int8, "INT8", 8, false, true, true},
    {OnnxType::uint16, "UINT16", 16, false, true, false},
    {OnnxType::int16, "INT16", 16, false, true, true},
    {OnnxType::int32, "INT32", 32, false, true, true},
    {OnnxType::int64, "INT64", 64, false, true, true},
    {OnnxType::string, "STRING", 0, false, false, false},
    {OnnxType::boolean, "BOOL", 8, false, true, false},
    {OnnxType::float16, "FLOAT16", 16, true, false, true},
    {OnnxType::float64, "DOUBLE", 64, true, false, true},
    {OnnxType::uint32, "UINT32", 32, false, true, false},
    {OnnxType::uint64, "UINT64", 64, false, true, false},
    {OnnxType::complex64, "COMPLEX64", 64, false, false, true},
    {OnnxType::complex128, "COMPLEX128", 128, false, false, true},
    {OnnxType::bfloat16, "BFLOAT16", 16, true, false, true},
    {OnnxType::float8e4m3fn, "FLOAT8E4M3FN", 8, true, false, true},
    {OnnxType::float8e4m3fnuz, "FLOAT8E4M3FNUZ", 8, true, false, true},
    {OnnxType::float8e5m2, "FLOAT8E5M2", 8, true, false, true},
    {OnnxType::float8e5m2fnuz, "FLOAT8E5M2FNUZ", 8, true, false, true},
    {OnnxType::uint4, "UINT4", 4, false, true, false},
    {OnnxType::int4, "INT4", 4, false, true, true},
    {OnnxType::float4e2m1, "FLOAT4E2M1", 4, true, false, true},
    {OnnxType::float8e8m0, "FLOAT8E8M0", 8, true, false, false},
    {OnnxType::uint2, "UINT2", 2, false, true, false},
    {OnnxType::int2, "INT2", 2, false, true, true},
    {OnnxType::float6e2m3, "FLOAT6E2M3", 6, true, false, true},
    {OnnxType::float6e3m2, "FLOAT6E3M2", 6, true, false, true},
};

// A floating-point type of at most 8 bits. Which codes are not numbers differs: `ieee` has infinities and NaNs in the
// highest exponent, `last` only the code of all ones is NaN, `negative_zero` only the code of -0 is, `finite` has none.
struct SmallFloat {
  enum class Special : uint8_t { ieee, last, negative_zero, finite };
  int exponent_bits, mantissa_bits, bias;
  Special special;

  float value(uint32_t code) const {
    const uint32_t sign = code >> (exponent_bits + mantissa_bits);
    const uint32_t magnitude = code & ((1u << (exponent_bits + mantissa_bits)) - 1);
    const auto exponent = static_cast<int>(magnitude >> mantissa_bits);
    const uint32_t mantissa = magnitude & ((1u << mantissa_bits) - 1);
    const int highest = (1 << exponent_bits) - 1;
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    if (special == Special::ieee && exponent == highest)
      return mantissa ? kNan : (sign ? -1.0f : 1.0f) * std::numeric_limits<float>::infinity();
    if (special == Special::last && exponent == highest && mantissa == (1u << mantissa_bits) - 1) return kNan;
    if (special == Special::negative_zero && sign && magnitude == 0) return kNan;
    const float scaled = static_cast<float>(exponent ? mantissa + (1u << mantissa_bits) : mantissa);
    const float size = std::ldexp(scaled, (exponent ? exponent : 1) - bias - mantissa_bits);
    return sign ? -size : size;
  }
};

using SmallTable = std::array<float, 256>;

SmallTable small_table(SmallFloat format) {
  SmallTable table{};
  const int bits = 1 + format.exponent_bits + format.mantissa_bits;
  for (uint32_t code = 0; code < 256; ++code) table[code] = format.value(code & ((1u << bits) - 1));
  return table;
}

SmallTable power_table() {
  SmallTable table{};
  for (int code = 0; code < 255; ++code) table[static_cast<size_t>(code)] = std::ldexp(1.0f, code - 127);
  table[255] = std::numeric_limits<float>::quiet_NaN();
  return table;
}

// The values of a type of at most 8 bits that is a floating-point one; empty for other types.
const SmallTable* small_values(OnnxType type) {
  using Special = SmallFloat::Special;
  static const SmallTable e4m3fn = small_table({4, 3, 7, Special::last});
  static const SmallTable e4m3fnuz = small_table({4, 3, 8, Special::negative_zero});
  static const SmallTable e5m2 = small_table({5, 2, 15, Special::ieee});
  static const SmallTable e5m2fnuz = small_table({5, 2, 16, Special::negative_zero});
  static const SmallTable e2m1 = small_table({2, 1, 1, Special::finite});
  static const SmallTable e2m3 = small_table({2, 3, 1, Special::finite});
  static const SmallTable e3m2 = small_table({3, 2, 3, Special::finite});
  static const SmallTable e8m0 = power_table();
  switch (type) {
    case OnnxType::float8e4m3fn: return &e4m3fn;
    case OnnxType::float8e4m3fnuz: return &e4m3fnuz;
    case OnnxType::float8e5m2: return &e5m2;
    case OnnxType::float8e5m2fnuz: return &e5m2fnuz;
    case OnnxType::float4e2m1: return &e2m1;
    case OnnxType::float6e2m3: return &e2m3;
    case OnnxType::float6e3m2: return &e3m2;
    case OnnxType::float8e8m0: return &e8m0;
    default: return nullptr;
  }
}

template <class T>
T load(const std::byte* bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

// Element i of a type of less than 8 bits.
uint32_t code_at(std::span<const std::byte> bytes, int64_t i, int bits) {
  const int64_t bit = i * bits;
  const auto at = static_cast<size_t>(bit / 8);
  uint32_t window = static_cast<uint32_t>(bytes[at]);
  if (at + 1 < bytes.size()) window |= static_cast<uint32_t>(bytes[at + 1]) << 8;
  return (window >> (bit % 8)) & ((1u << bits) - 1);
}

template <class Out, class In>
Out convert_number(In value) {
  if constexpr (std::is_same_v<Out, int64_t> && std::is_floating_point_v<In>) {
    return value > -9.2e18 && value < 9.2e18 ? static_cast<int64_t>(value) : 0;
  } else {
    return static_cast<Out>(value);
  }
}

template <class Stored, class Out>
void decode_plain(const std::byte* bytes, int64_t begin, int64_t end, Out* out) {
  for (int64_t i = begin; i < end; ++i) *out++ = convert_number<Out>(load<Stored>(bytes, i));
}

template <class Out>
void decode_packed(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, Out* out) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  const SmallTable* values = small_values(type);
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t code = info.bits == 8 ? load<uint8_t>(bytes.data(), i) : code_at(bytes, i, info.bits);
    if (values)
      *out++ = convert_number<Out>((*values)[code]);
    else if (info.is_signed && (code >> (info.bits - 1)))
      *out++ = static_cast<Out>(static_cast<int>(code) - (1 << info.bits));
    else
      *out++ = static_cast<Out>(code);
  }
}

template <class Out>
void decode(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, Out* out) {
  const std::byte* p = bytes.data();
  switch (type) {
    case OnnxType::float32: return decode_plain<float>(p, begin, end, out);
    case OnnxType::float64: return decode_plain<double>(p, begin, end, out);
    case OnnxType::int8: return decode_plain<int8_t>(p, begin, end, out);
    case OnnxType::uint8: return decode_plain<uint8_t>(p, begin, end, out);
    case OnnxType::int16: return decode_plain<int16_t>(p, begin, end, out);
    case OnnxType::uint16: return decode_plain<uint16_t>(p, begin, end, out);
    case OnnxType::int32: return decode_plain<int32_t>(p, begin, end, out);
    case OnnxType::uint32: return decode_plain<uint32_t>(p, begin, end, out);
    case OnnxType::int64: return decode_plain<int64_t>(p, begin, end, out);
    case OnnxType::uint64: return decode_plain<uint64_t>(p, begin, end, out);
    case OnnxType::boolean:
      for (int64_t i = begin; i < end; ++i) *out++ = p[i] == std::byte{0} ? 0 : 1;
      return;
    case OnnxType::float16:
      for (int64_t i = begin; i < end; ++i) *out++ = convert_number<Out>(half_to_float(load<uint16_t>(p, i)));
      return;
    case OnnxType::bfloat16:
      for (int64_t i = begin; i < end; ++i)
        *out++ = convert_number<Out>(bfloat16_to_float(load<uint16_t>(p, i)));
      return;
    default: return decode_packed(type, bytes, begin, end, out);
  }
}

}  // namespace

const OnnxTypeInfo& onnx_type_info(OnnxType type) {
  const auto code = static_cast<size_t>(type);
  return code < std::size(kInfos) ? kInfos[code] : kInfos[0];
}

OnnxType onnx_type_from_code(int64_t code) {
  if (code < 0 || code >= static_cast<int64_t>(std::size(kInfos))) return OnnxType::undefined;
  return kInfos[code].type;
}

bool onnx_type_decodes(OnnxType type) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  return info.floating || info.integer;
}

void decode_onnx(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, float* out) {
  if (type == OnnxType::float32)
    std::memcpy(out, bytes.data() + begin * 4, static_cast<size_t>(end - begin) * 4);
  else if (type == OnnxType::float16)
    halves_to_floats(bytes.data() + begin * 2, end - begin, out);
  else if (type == OnnxType::bfloat16)
    bfloats_to_floats(bytes.data() + begin * 2, end - begin, out);
  else
    decode(type, bytes, begin, end, out);
}

void decode_onnx(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, double* out) {
  decode(type, bytes, begin, end, out);
}

void decode_onnx(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, int64_t* out) {
  decode(type, bytes, begin, end, out);
}

}  // namespace anemone
