// Shapes as values, and tensors made from a shape or a range.
#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer_shape(const OpCall& c) { return {Type::tensor(DType::int32, {Dim(c.type("x").rank())})}; }

void run_shape(const OpCall& c) {  // only the type of x is looked at
  int32_t* out = c.out_ints();
  for (const int64_t size : c.type("x").dims()) {
    if (size > INT32_MAX) throw errorf("the dimension {} does not fit in 32 bits", size);
    *out++ = static_cast<int32_t>(size);
  }
}

DType value_dtype(const OpCall& c) { return c.has("value") ? c.type("value").dtype : DType::fp32; }

Types infer_fill(const OpCall& c) {
  const Type& shape = c.type("shape");
  if (shape.rank() != 1 || !shape.dim(0).known())
    throw errorf("'shape' must be a vector of fixed length").found(shape.text());
  Shape out(static_cast<size_t>(shape.dim(0).size()), Dim::unknown());
  if (c.known("shape")) {
    const std::vector<int64_t> sizes = c.integers("shape");
    for (const int64_t size : sizes)
      if (size < 0) throw errorf("'shape' has a negative entry").found(fmt::format("{}", size));
    out = to_shape(sizes);
  }
  return {Type::tensor(value_dtype(c), out)};
}

void run_fill(const OpCall& c) {
  uint32_t value = 0;  // the bits of 0 in every type
  if (c.has("value")) {
    if (c.type("value").size() != 1) throw errorf("'value' must be one number").found(c.type("value").text());
    value = *static_cast<const uint32_t*>(c.data("value"));
  }
  auto* out = static_cast<uint32_t*>(c.out());
  c.pool().parallel_for(c.out_type().size(), kMapGrain,
                        [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
}

Types infer_fill_like(const OpCall& c) { return {Type::tensor(value_dtype(c), c.type("ref_tensor").shape)}; }

// The number of steps, in the arithmetic of the element type, as numpy counts them.
int64_t range_length(const OpCall& c) {
  const Type& type = c.type("start");
  const double start = c.number("start"), end = c.number("end"), step = c.number("step");
  if (step == 0) throw errorf("'step' must not be 0");
  double steps = (end - start) / step;
  if (type.is_float()) {
    const auto round = [&](double v) {
      const auto f = static_cast<float>(v);
      return type.dtype == DType::fp16 ? round_to_half(f) : f;
    };
    steps = static_cast<double>(round(static_cast<double>(round(end - start)) / step));
  }
  if (std::isnan(steps) || steps > 2147483647.0)
    throw errorf("the range from {} to {} by {} is too long", start, end, step);
  return std::max<int64_t>(0, static_cast<int64_t>(std::ceil(std::max(steps, -1.0))));
}

Types infer_range(const OpCall& c) {
  const bool known = c.known("start") && c.known("end") && c.known("step");
  return {Type::tensor(c.type("start").dtype, {known ? Dim(range_length(c)) : Dim::unknown()})};
}

void run_range(const OpCall& c) {
  const int64_t count = c.out_type().size();
  if (c.out_type().is_float()) {
    const float start = *c.floats("start"), step = *c.floats("step");
    for (int64_t i = 0; i < count; ++i) c.out_floats()[i] = start + static_cast<float>(i) * step;
  } else {
    const int64_t start = *c.ints("start"), step = *c.ints("step");
    for (int64_t i = 0; i < count; ++i) c.out_ints()[i] = static_cast<int32_t>(start + i * step);
  }
}

const Op kOps[] = {
    {.name = "shape",
     .versions = {{Opset::ios15, {{"x", kNumberOrBool, 'T'}}}, {Opset::ios17, {{"x", kWideOrBool, 'T'}}}},
     .doc = "the sizes of the dimensions of x",
     .infer = infer_shape,
     .run = run_shape,
     .value_from_type = true},
    {"fill",
     {{Opset::ios15, {{"shape", kInt32}, {"value", kNumberOrBool, 'T', kOptional | kConst}}}},
     "a tensor of the shape given, filled with one value",
     infer_fill,
     run_fill},
    {"fill_like",
     {{Opset::ios16,
       {{"ref_tensor", kNumberOrBool, 'T'}, {"value", kNumberOrBool, 'U', kOptional | kConst}}}},
     "a tensor of the shape of another, filled with one value",
     infer_fill_like,
     run_fill},
    {"range_1d",
     {{Opset::ios15, {{"end", kNumber, 'T'}, {"start", kNumber, 'T'}, {"step", kNumber, 'T'}}}},
     "start, start + step, … up to but not including end",
     infer_range,
     run_range},
};

}  // namespace

std::span<const Op> ops_shape() { return kOps; }

}  // namespace anemone::ops
