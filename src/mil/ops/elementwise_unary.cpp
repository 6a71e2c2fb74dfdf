// One tensor element by element.
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer_same(const OpCall& c) { return {Type::tensor(c.type("x").dtype, c.type("x").shape)}; }

// The small number added to the input. The default has the precision of x: in fp16 1e-12 is zero.
float epsilon(const OpCall& c) {
  const auto value = static_cast<float>(c.number("epsilon"));
  return !c.has("epsilon") && c.type("x").dtype == DType::fp16 ? round_to_half(value) : value;
}

template <class F>
void run_number(const OpCall& c, F f) {
  if (c.type("x").is_float())
    map(c, c.floats("x"), c.out_floats(), c.out_type().size(), [f](float x) { return f(x); });
  else
    map(c, c.ints("x"), c.out_ints(), c.out_type().size(), [f](int32_t x) { return f(x); });
}

// Integer arithmetic wraps around.
float absolute(float x) { return std::fabs(x); }
int32_t absolute(int32_t x) { return x < 0 ? static_cast<int32_t>(0u - static_cast<uint32_t>(x)) : x; }
float square(float x) { return x * x; }
int32_t square(int32_t x) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(x));
}
float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
int32_t sign(int32_t x) { return (x > 0) - (x < 0); }
float exp2(float x) { return std::exp2(x); }
int32_t exp2(int32_t x) { return x < 0 ? 0 : x > 30 ? INT32_MAX : 1 << x; }

Types infer_clip(const OpCall& c) {
  if (c.since() >= Opset::ios17 && c.known("alpha") && c.known("beta") &&
      c.number("alpha") >= c.number("beta"))
    throw errorf("'alpha' must be smaller than 'beta'")
        .found(fmt::format("{} and {}", c.number("alpha"), c.number("beta")));
  return infer_same(c);
}

void run_clip(const OpCall& c) {
  const auto low = static_cast<float>(c.number("alpha")), high = static_cast<float>(c.number("beta"));
  map_float(c, "x", [=](float x) { return x < low ? low : x > high ? high : x; });
}

void run_threshold(const OpCall& c) {
  if (c.type("x").is_float()) {
    const auto low = static_cast<float>(c.number("alpha"));
    return map_float(c, "x", [=](float x) { return x < low ? low : x; });
  }
  const auto low = static_cast<int32_t>(c.integer("alpha"));
  map(c, c.ints("x"), c.out_ints(), c.out_type().size(), [=](int32_t x) { return x < low ? low : x; });
}

DType cast_target(const OpCall& c) {
  const DType dtype = dtype_from_name(c.text("dtype"));
  if (!(kWideOrBool & only(dtype)))
    throw errorf("a tensor cannot be cast to '{}'", c.text("dtype")).expected(dtypes_text(kWideOrBool));
  return dtype;
}

Types infer_cast(const OpCall& c) { return {Type::tensor(cast_target(c), c.type("x").shape)}; }

struct IntRange {
  int32_t low, high;
};

IntRange range_of(DType dtype) {
  switch (dtype) {
    case DType::int8: return {INT8_MIN, INT8_MAX};
    case DType::uint8: return {0, UINT8_MAX};
    case DType::int16: return {INT16_MIN, INT16_MAX};
    case DType::uint16: return {0, UINT16_MAX};
    default: return {INT32_MIN, INT32_MAX};
  }
}

// Toward zero; a value out of range becomes the nearest limit, and NaN becomes 0.
int32_t to_int(float x, IntRange range) {
  if (std::isnan(x)) return 0;
  if (x <= static_cast<float>(range.low)) return range.low;
  if (x >= static_cast<float>(range.high)) return range.high;
  return static_cast<int32_t>(x);
}

// Between integers the low bits are kept, as numpy and the hardware do.
int32_t wrap(int32_t x, DType dtype) {
  switch (dtype) {
    case DType::int8: return static_cast<int8_t>(x);
    case DType::uint8: return static_cast<uint8_t>(x);
    case DType::int16: return static_cast<int16_t>(x);
    case DType::uint16: return static_cast<uint16_t>(x);
    default: return x;
  }
}

void run_cast(const OpCall& c) {
  const bool from_float = c.type("x").is_float();
  const DType to = c.out_type().dtype;
  const int64_t count = c.out_type().size();
  if (dtype_is_float(to)) {
    if (from_float) return map(c, c.floats("x"), c.out_floats(), count, [](float x) { return x; });
    return map(c, c.ints("x"), c.out_floats(), count, [](int32_t x) { return static_cast<float>(x); });
  }
  if (to == DType::boolean) {
    if (from_float)
      return map(c, c.floats("x"), c.out_ints(), count, [](float x) { return int32_t{x != 0}; });
    return map(c, c.ints("x"), c.out_ints(), count, [](int32_t x) { return int32_t{x != 0}; });
  }
  const IntRange range = range_of(to);
  if (from_float)
    return map(c, c.floats("x"), c.out_ints(), count, [=](float x) { return to_int(x, range); });
  map(c, c.ints("x"), c.out_ints(), count, [=](int32_t x) { return wrap(x, to); });
}

const std::vector<OpVersion> kFloats = {{Opset::ios15, {{"x", kFloat, 'T'}}}};
const std::vector<OpVersion> kNumbers = {{Opset::ios15, {{"x", kNumber, 'T'}}}};

std::vector<OpVersion> with_epsilon(double fallback) {
  return {{Opset::ios15, {{"x", kFloat, 'T'}, {"epsilon", kFloat, 'T', kOptional | kConst, fallback}}},
          {Opset::ios17, {{"x", kFloat, 'T'}, {"epsilon", kFloat, 'U', kOptional | kConst, fallback}}}};
}

const std::vector<Param> kClip = {
    {"x", kFloat, 'T'}, {"alpha", kFloat, 'T', kConst}, {"beta", kFloat, 'T', kConst}};

const Op kOps[] = {
    {"abs", kNumbers, "|x|", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x) { return absolute(x); }); }},
    {"acos", kFloats, "the inverse cosine", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::acos(x); }); }},
    {"asin", kFloats, "the inverse sine", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::asin(x); }); }},
    {"atan", kFloats, "the inverse tangent", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::atan(x); }); }},
    {"atanh", kFloats, "the inverse hyperbolic tangent", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::atanh(x); }); }},
    {"cast",
     {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"dtype", kString, 0, kConst}}},
      {Opset::ios17, {{"x", kWideOrBool, 'T'}, {"dtype", kString, 0, kConst}}}},
     "x in another element type; floats become integers toward zero, and true where they are not 0",
     infer_cast,
     run_cast},
    {"ceil", kFloats, "rounded up", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::ceil(x); }); }},
    {"clip",
     {{Opset::ios15, kClip}, {Opset::ios17, kClip}},
     "x held between alpha and beta",
     infer_clip,
     run_clip},
    {"cos", kFloats, "the cosine", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::cos(x); }); }},
    {"cosh", kFloats, "the hyperbolic cosine", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::cosh(x); }); }},
    {"erf", kFloats, "the Gauss error function", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::erf(x); }); }},
    {"exp", kFloats, "e to the power of x", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::exp(x); }); }},
    {"exp2", kNumbers, "2 to the power of x", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x) { return exp2(x); }); }},
    {"floor", kFloats, "rounded down", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::floor(x); }); }},
    {"inverse", with_epsilon(1e-4), "1 / (x + epsilon)", infer_same,
     [](const OpCall& c) { map_float(c, "x", [e = epsilon(c)](float x) { return 1 / (x + e); }); }},
    {"log", with_epsilon(1e-45), "the natural logarithm of x + epsilon", infer_same,
     [](const OpCall& c) { map_float(c, "x", [e = epsilon(c)](float x) { return std::log(x + e); }); }},
    {"logical_not",
     {{Opset::ios15, {{"x", kBool, 'T'}}}},
     "not x",
     infer_same,
     [](const OpCall& c) {
       map(c, c.ints("x"), c.out_ints(), c.out_type().size(), [](int32_t x) { return int32_t{x == 0}; });
     }},
    {"round", kFloats, "the nearest whole number, halves to the even one", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::nearbyint(x); }); }},
    {"rsqrt", with_epsilon(1e-12), "1 / sqrt(x + epsilon)", infer_same,
     [](const OpCall& c) { map_float(c, "x", [e = epsilon(c)](float x) { return 1 / std::sqrt(x + e); }); }},
    {"sign", kNumbers, "-1, 0 or 1", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x) { return sign(x); }); }},
    {"sin", kFloats, "the sine", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::sin(x); }); }},
    {"sinh", kFloats, "the hyperbolic sine", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::sinh(x); }); }},
    {"sqrt", kFloats, "the square root", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::sqrt(x); }); }},
    {"square", kNumbers, "x * x", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x) { return square(x); }); }},
    {"tan", kFloats, "the tangent", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::tan(x); }); }},
    {"tanh", kFloats, "the hyperbolic tangent", infer_same,
     [](const OpCall& c) { map_float(c, "x", [](float x) { return std::tanh(x); }); }},
    {"threshold",
     {{Opset::ios15, {{"x", kNumber, 'T'}, {"alpha", kNumber, 'T', kConst}}}},
     "the larger of x and alpha",
     infer_same,
     run_threshold},
};

}  // namespace

std::span<const Op> ops_elementwise_unary() { return kOps; }

}  // namespace anemone::ops
