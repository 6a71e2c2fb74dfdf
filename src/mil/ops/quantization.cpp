// Activations to bytes and back: quantize and dequantize, per tensor or per slice along an axis.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

void check(const OpCall& c) {
  const Type& input = c.type("input");
  const Type& scale = c.type("scale");
  if (scale.rank() > 1) throw errorf("'scale' must be one number or a vector").found(scale.text());
  if (c.has("zero_point") && c.type("zero_point").shape != scale.shape)
    throw errorf("'zero_point' must have the shape of 'scale'")
        .found(c.type("zero_point").text())
        .expected(scale.text());
  if (scale.rank() == 0) return;
  if (!c.has("axis")) throw errorf("'axis' is needed when 'scale' is a vector");
  const Dim size = input.dim(normal_axis(c.integer("axis"), input.rank(), "axis"));
  if (size.known() && scale.dim(0) != size)
    throw errorf("'scale' must have one value per slice along the axis")
        .found(scale.text())
        .expected(size.text());
}

// How the input is cut: for each position along the axis, runs of `inner` elements.
struct Slices {
  int64_t count = 1, inner = 1;
};

Slices slices(const OpCall& c) {
  const std::vector<int64_t> dims = c.type("input").dims();
  Slices s;
  if (c.type("scale").rank() == 0) {
    s.inner = c.type("input").size();
    return s;
  }
  const auto axis =
      static_cast<size_t>(normal_axis(c.integer("axis"), static_cast<int>(dims.size()), "axis"));
  s.count = dims[axis];
  for (size_t i = axis + 1; i < dims.size(); ++i) s.inner *= dims[i];
  return s;
}

template <class In, class Out, class F>
void run_slices(const OpCall& c, const In* in, Out* out, F f) {
  const Slices s = slices(c);
  const int64_t total = c.type("input").size();
  if (total == 0) return;
  const float* scale = c.floats("scale");
  const int32_t* zero = c.has("zero_point") ? c.ints("zero_point") : nullptr;
  c.pool().parallel_for(total, kMapGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t slice = begin / s.inner % s.count;
      const int64_t stop = std::min(end, (begin / s.inner + 1) * s.inner);
      const float zero_point = zero ? static_cast<float>(zero[slice]) : 0.0f;
      for (; begin < stop; ++begin) out[begin] = f(in[begin], scale[slice], zero_point);
    }
  });
}

DType output_type(const OpCall& c) {
  const DType dtype = dtype_from_name(c.text("output_dtype"));
  if (dtype != DType::int8 && dtype != DType::uint8)
    throw errorf("'output_dtype' is wrong")
        .found(std::string(c.text("output_dtype")))
        .expected("int8 or uint8");
  return dtype;
}

Types infer_quantize(const OpCall& c) {
  check(c);
  const DType dtype = output_type(c);
  if (c.has("zero_point") && c.type("zero_point").dtype != dtype)
    throw errorf("'zero_point' must have the element type of the output").found(c.type("zero_point").text());
  return {Type::tensor(dtype, c.type("input").shape)};
}

void run_quantize(const OpCall& c) {
  const bool is_signed = output_type(c) == DType::int8;
  const float low = is_signed ? -128.0f : 0.0f, high = is_signed ? 127.0f : 255.0f;
  run_slices(c, c.floats("input"), c.out_ints(), [=](float x, float scale, float zero_point) {
    const float q = std::nearbyint(x / scale) + zero_point;  // halves go to the even neighbour
    return q != q ? 0 : static_cast<int32_t>(std::clamp(q, low, high));
  });
}

Types infer_dequantize(const OpCall& c) {
  check(c);
  return {Type::tensor(c.type("scale").dtype, c.type("input").shape)};
}

void run_dequantize(const OpCall& c) {
  run_slices(c, c.ints("input"), c.out_floats(), [](int32_t q, float scale, float zero_point) {
    return scale * (static_cast<float>(q) - zero_point);
  });
}

const Op kOps[] = {
    {"quantize",
     {{Opset::ios17,
       {{"input", kFloat, 'T'},
        {"zero_point", kInt8, 0, kConst | kOptional},
        {"scale", kFloat, 'T', kConst},
        {"axis", kInt32, 0, kConst | kOptional},
        {"output_dtype", kString, 0, kConst}}}},
     "clip(round(input / scale) + zero_point) as int8 or uint8",
     infer_quantize,
     run_quantize},
    {"dequantize",
     {{Opset::ios17,
       {{"input", kInt8, 'T'},
        {"zero_point", kInt8, 'T', kConst | kOptional},
        {"scale", kFloat, 0, kConst},
        {"axis", kInt32, 0, kConst | kOptional}}}},
     "scale * (input - zero_point)",
     infer_dequantize,
     run_dequantize},
};

}  // namespace

std::span<const Op> ops_quantization() { return kOps; }

}  // namespace anemone::ops
