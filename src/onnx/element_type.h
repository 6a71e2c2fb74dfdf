// OnnxType: the element types of ONNX tensors (TensorProto.DataType) and how their bytes become numbers.
//     onnx_type_info(OnnxType::int4).bits;                        // 4
//     decode_onnx(OnnxType::int4, bytes, 0, 8, floats);           // elements 0 to 7
// Elements of less than a byte are packed, element 0 in the lowest bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "anemone/array.h"

namespace anemone {

// The numbers are those of the file.
enum class OnnxType : int32_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
  float6e2m3 = 27,
  float6e3m2 = 28,
};

struct OnnxTypeInfo {
  OnnxType type;
  std::string_view name;  // as ONNX writes it: "FLOAT16"
  int bits;               // of one stored element; 0 for strings and undefined
  bool floating;          // a floating-point type
  bool integer;           // a whole number, or bool
  bool is_signed;
};

// Of an unknown number: undefined's.
const OnnxTypeInfo& onnx_type_info(OnnxType type);
// The type with that number in a file; undefined where there is none.
OnnxType onnx_type_from_code(int64_t code);
// Numbers that decode_onnx takes: all but strings, complex ones and undefined.
bool onnx_type_decodes(OnnxType type);

// Elements [begin, end) of packed bytes. The caller has checked that they are there and that the type decodes.
// As int64, a floating-point element is cut toward zero, and what is not finite or does not fit becomes 0.
void decode_onnx(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, float* out);
void decode_onnx(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, double* out);
void decode_onnx(OnnxType type, std::span<const std::byte> bytes, int64_t begin, int64_t end, int64_t* out);

}  // namespace anemone
