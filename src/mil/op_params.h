// Param: what an operation takes: names, element types, defaults, by opset.
//     OpVersion v{Opset::ios15, {{"x", kFloat, 'T'}, {"alpha", kFloat, 'T', kConst}}};
//     dtypes_text(v.params[0].types);                  // "fp16, fp32"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mil/opset.h"
#include "mil/type.h"

namespace anemone {

// A set of element types.
using DTypes = uint32_t;
constexpr DTypes only(DType dtype) { return DTypes{1} << static_cast<int>(dtype); }
inline constexpr DTypes kAnyDType = ~DTypes{0};
inline constexpr DTypes kInt32 = only(DType::int32);
inline constexpr DTypes kBool = only(DType::boolean);
inline constexpr DTypes kString = only(DType::string);
inline constexpr DTypes kFp32 = only(DType::fp32);
inline constexpr DTypes kFloat = only(DType::fp16) | kFp32;
inline constexpr DTypes kInt8 = only(DType::int8) | only(DType::uint8);  // the two bytes
inline constexpr DTypes kInt16 = only(DType::int16) | only(DType::uint16);
inline constexpr DTypes kNumber = kFloat | kInt32;
inline constexpr DTypes kNumberOrBool = kNumber | kBool;
inline constexpr DTypes kWide = kNumber | kInt8 | kInt16;  // what iOS 17 data movement takes
inline constexpr DTypes kWideOrBool = kWide | kBool;
inline constexpr DTypes kIndex = kInt32 | kInt8 | kInt16;

enum ParamFlags : uint8_t {
  kOptional = 1,
  kConst = 2,     // must be known when the program is compiled
  kMany = 4,      // several bindings: concat.values
  kList = 8,      // a list value
  kState = 16,    // a state
  kAnyKind = 32,  // any kind of value
  kStored = 64,   // the kernel reads it through OpCall::tiles, so that a weight stays as it is stored
};

// What a parameter that is left out stands for; none where the op says it in its rule.
using Default = std::variant<std::monostate, bool, int64_t, double, const char*>;

struct Param {
  std::string_view name;
  DTypes types = kAnyDType;
  char group = 0;  // parameters of one group have one element type; 0: stands alone
  int flags = 0;
  Default fallback = {};
};

struct OpVersion {
  Opset since;
  std::vector<Param> params;
};

// The element types of a set, for messages: "fp16, fp32".
std::string dtypes_text(DTypes types);

}  // namespace anemone
