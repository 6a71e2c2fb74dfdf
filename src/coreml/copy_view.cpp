#include "coreml/copy_view.h"

#include <array>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

constexpr size_t kMostAxes = 16;

int64_t bytes_of(DType dtype) { return dtype_bits(dtype) / 8; }

double read_one(DType dtype, const std::byte* at) {
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::fp16: return half_to_float(as(uint16_t{}));
    case DType::fp32: return as(float{});
    case DType::fp64: return as(double{});
    case DType::int8: return as(int8_t{});
    case DType::int32: return as(int32_t{});
    default: throw errorf("elements of type {} cannot be copied", dtype_name(dtype));
  }
}

void write_one(DType dtype, std::byte* at, double value) {
  const auto as = [&](auto converted) { std::memcpy(at, &converted, sizeof(converted)); };
  switch (dtype) {
    case DType::fp16: return as(half_from_float(static_cast<float>(value)));
    case DType::fp32: return as(static_cast<float>(value));
    case DType::fp64: return as(value);
    case DType::int8: return as(static_cast<int8_t>(value));
    case DType::int32: return as(static_cast<int32_t>(value));
    default: throw errorf("elements of type {} cannot be copied", dtype_name(dtype));
  }
}

// One row: `count` elements, each side with its own distance between them.
void copy_row(const TensorView& from, const TensorView& to, const std::byte* source, std::byte* target,
              int64_t count, int64_t from_step, int64_t to_step) {
  const bool dense = from_step == 1 && to_step == 1;
  if (dense && from.dtype == to.dtype) {
    std::memcpy(target, source, static_cast<size_t>(count * bytes_of(from.dtype)));
  } else if (dense && from.dtype == DType::fp16 && to.dtype == DType::fp32) {
    halves_to_floats(source, count, reinterpret_cast<float*>(target));
  } else if (dense && from.dtype == DType::fp32 && to.dtype == DType::fp16) {
    floats_to_halves(reinterpret_cast<const float*>(source), count, reinterpret_cast<uint16_t*>(target));
  } else if (from.dtype == DType::fp16 && to.dtype == DType::fp16) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(target + i * to_step * 2, source + i * from_step * 2, 2);
  } else {
    const int64_t a = from_step * bytes_of(from.dtype), b = to_step * bytes_of(to.dtype);
    for (int64_t i = 0; i < count; ++i)
      write_one(to.dtype, target + i * b, read_one(from.dtype, source + i * a));
  }
}

// Axes of several elements, those of both views that lie behind each other joined: long rows are copied faster.
struct Axes {
  std::array<int64_t, kMostAxes> size{}, from{}, to{};
  size_t count = 0;
};

Axes joined_axes(const TensorView& from, const TensorView& to) {
  Axes out;
  for (size_t i = 0; i < from.shape.size(); ++i) {
    if (from.shape[i] == 1) continue;
    const size_t last = out.count - 1;
    if (out.count > 0 && out.from[last] == from.strides[i] * from.shape[i] &&
        out.to[last] == to.strides[i] * to.shape[i]) {
      out.size[last] *= from.shape[i];
      out.from[last] = from.strides[i];
      out.to[last] = to.strides[i];
      continue;
    }
    if (out.count == kMostAxes) throw errorf("a view has more than {} axes", kMostAxes);
    out.size[out.count] = from.shape[i];
    out.from[out.count] = from.strides[i];
    out.to[out.count++] = to.strides[i];
  }
  if (out.count == 0) out = {{1}, {1}, {1}, 1};
  return out;
}

}  // namespace

void copy_view(const TensorView& from, const TensorView& to) {
  if (from.shape != to.shape)
    throw errorf("views of different shapes").found(shape_text(from.shape)).expected(shape_text(to.shape));
  if (from.size() == 0) return;
  const Axes axes = joined_axes(from, to);
  const size_t row = axes.count - 1;
  const auto* source = static_cast<const std::byte*>(from.data);
  auto* target = static_cast<std::byte*>(to.data);
  std::array<int64_t, kMostAxes> at{};
  int64_t a = 0, b = 0;
  while (true) {
    copy_row(from, to, source + a * bytes_of(from.dtype), target + b * bytes_of(to.dtype), axes.size[row],
             axes.from[row], axes.to[row]);
    size_t axis = row;
    for (; axis-- > 0;) {
      a += axes.from[axis];
      b += axes.to[axis];
      if (++at[axis] < axes.size[axis]) break;
      a -= at[axis] * axes.from[axis];
      b -= at[axis] * axes.to[axis];
      at[axis] = 0;
    }
    if (axis >= row) return;
  }
}

void clear_view(const TensorView& view) {
  static constexpr double kZero = 0;
  TensorView zero = view;
  zero.dtype = DType::fp64;
  for (int64_t& stride : zero.strides) stride = 0;
  zero.data = const_cast<double*>(&kZero);
  copy_view(zero, view);
}

}  // namespace anemone
