// Quantized forms: codes are whole numbers, and products of them are computed in fp32, which is exact below 2^24.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/window.h"

namespace anemone::onnx_ops {
namespace {

struct Limits {
  float low, high;
};

Limits limits(OnnxType type) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  if (!info.integer || info.bits > 16) throw errorf("codes of type {} are not supported", info.name);
  const float size = std::ldexp(1.0f, info.bits);
  return info.is_signed ? Limits{-size / 2, size / 2 - 1} : Limits{0, size - 1};
}

// A scale or zero point laid out along the axis of x, or repeated for its blocks.
Value* along(OnnxCall& n, Value* v, Value* x, int64_t axis, int64_t block) {
  if (v->type.rank() == 0) return v;
  if (v->type.rank() == 1 && v->type.size() == 1 && block == 0) return n.squeeze(v, {0});
  const std::vector<int64_t> dims = n.dims(x);
  if (block > 0) {
    std::vector<int64_t> shape = n.dims(v), reps;
    if (shape.size() != dims.size())
      throw errorf("the scales of blocks have another rank than the values")
          .found(shape_text(shape))
          .expected(fmt::format("one for each block of {}", shape_text(dims)));
    const int64_t count = shape[static_cast<size_t>(axis)];
    shape.insert(shape.begin() + axis + 1, 1);
    reps.assign(shape.size(), 1);
    reps[static_cast<size_t>(axis) + 1] = block;
    Value* repeated = n.op("tile", {{"x", n.reshape(v, shape)}, {"reps", Constant::ints(reps)}});
    std::vector<int64_t> flat = n.dims(v);
    flat[static_cast<size_t>(axis)] = count * block;
    repeated = n.reshape(repeated, flat);
    const int64_t size = dims[static_cast<size_t>(axis)];
    return size < count * block ? n.slice(repeated, axis, 0, size) : repeated;
  }
  std::vector<int64_t> shape(dims.size(), 1);
  shape[static_cast<size_t>(axis)] = n.dims(v).at(0);
  return n.reshape(v, shape);
}

int64_t axis_of(OnnxCall& n, Value* x) {
  const int64_t rank = std::max(1, x->type.rank());
  int64_t axis = n.node.integer("axis", 1);
  if (axis >= rank) axis = rank - 1;
  return n.axis(axis, rank);
}

Value* codes(OnnxCall& n, Value* x, Value* scale, Value* zero, OnnxType type) {
  const Limits l = limits(type);
  Value* q = n.unary("round", n.div(x, scale));
  if (zero) q = n.add(q, n.cast(zero, DType::fp32));
  q = n.op("clip", {{"x", q}, {"alpha", n.f(l.low)}, {"beta", n.f(l.high)}});
  return n.cast(q, DType::int32);
}

void quantize(OnnxCall& n) {
  Value* x = n.cast(n.in(0), DType::fp32);
  OnnxType type = OnnxType::uint8;
  if (n.has(2))
    type = n.type(2);
  else if (n.node.attribute("output_dtype") && n.node.integer("output_dtype", 0) != 0)
    type = onnx_type_from_code(n.node.integer("output_dtype", 0));
  const int64_t axis = axis_of(n, x), block = n.node.integer("block_size", 0);
  Value* scale = along(n, n.cast(n.in(1), DType::fp32), x, axis, block);
  Value* zero = n.has(2) ? along(n, n.cast(n.in(2), DType::fp32), x, axis, block) : nullptr;
  n.out(0, codes(n, x, scale, zero, type), type);
}

void dequantize(OnnxCall& n) {
  Value* x = n.cast(n.in(0), DType::fp32);
  const int64_t axis = axis_of(n, x), block = n.node.integer("block_size", 0);
  Value* scale = along(n, n.cast(n.in(1), DType::fp32), x, axis, block);
  if (n.has(2)) x = n.sub(x, along(n, n.cast(n.in(2), DType::fp32), x, axis, block));
  n.out(0, n.mul(x, scale), n.type(1));
}

void dynamic_quantize(OnnxCall& n) {
  Value* x = n.in(0);
  std::vector<int64_t> all;
  for (int64_t d = 0; d < x->type.rank(); ++d) all.push_back(d);
  Value* high = n.op("maximum", {{"x", n.reduce("max", x, all, false)}, {"y", n.f(0)}});
  Value* low = n.op("minimum", {{"x", n.reduce("min", x, all, false)}, {"y", n.f(0)}});
  Value* scale = n.div(n.sub(high, low), n.f(255));
  Value* zero = n.unary("round", n.div(n.sub(n.f(0), low), scale));
  zero = n.op("clip", {{"x", zero}, {"alpha", n.f(0)}, {"beta", n.f(255)}});
  n.out(0, codes(n, x, scale, zero, OnnxType::uint8), OnnxType::uint8);
  n.out(1, scale, OnnxType::float32);
  // As a float it is a step on the way to output 2, and called so.
  if (n.wants(2) && !zero->constant())
    n.scope().builder->rename(zero, fmt::format("{}_float", n.node.output(2)));
  n.out(2, n.cast(zero, DType::int32), OnnxType::uint8);
}

// x - zero, as floats; a zero point per row or column is broadcast.
Value* centered(OnnxCall& n, size_t input, size_t zero, bool by_row) {
  Value* x = n.cast(n.in(input), DType::fp32);
  if (!n.has(zero)) return x;
  Value* z = n.cast(n.in(zero), DType::fp32);
  if (z->type.rank() == 1 && z->type.size() == 1) z = n.squeeze(z, {0});
  if (z->type.rank() == 1 && by_row) z = n.expand(z, {1});
  return n.sub(x, z);
}

void matmul_integer(OnnxCall& n) {
  Value* a = centered(n, 0, 2, true);
  Value* b = centered(n, 1, 3, false);
  n.out(0, n.cast(n.matmul(a, b), DType::int32), OnnxType::int32);
}

void qlinear_matmul(OnnxCall& n) {
  Value* a = centered(n, 0, 2, true);
  Value* b = centered(n, 3, 5, false);
  const auto scale_of = [&](size_t input, bool by_row) {
    Value* s = n.cast(n.in(input), DType::fp32);
    if (s->type.rank() == 1 && s->type.size() == 1) s = n.squeeze(s, {0});
    return s->type.rank() == 1 && by_row ? n.expand(s, {1}) : s;
  };
  Value* y = n.mul(n.mul(n.matmul(a, b), scale_of(1, true)), scale_of(4, false));
  n.out(0, codes(n, y, scale_of(6, true), n.in(7), n.type(7)), n.type(7));
}

void qlinear_conv(OnnxCall& n) {
  const auto scalar = [&](size_t input) {
    Value* s = n.cast(n.in(input), DType::fp32);
    return s->type.rank() == 1 && s->type.size() == 1 ? n.squeeze(s, {0}) : s;
  };
  Value* x = n.mul(n.sub(n.cast(n.in(0), DType::fp32), scalar(2)), scalar(1));
  Value* w = n.cast(n.in(3), DType::fp32);
  const auto by_channel = [&](Value* v) {
    if (v->type.rank() == 0) return v;
    std::vector<int64_t> shape(static_cast<size_t>(w->type.rank()), 1);
    shape[0] = n.dims(v).at(0);
    return n.reshape(v, shape);
  };
  Value* weight_scale = scalar(4);
  w = n.mul(n.sub(w, by_channel(scalar(5))), by_channel(weight_scale));
  const std::vector<int64_t> dims = n.dims(x), all = n.dims(w);
  if (dims.size() < 3 || all.size() != dims.size())
    throw errorf("{} cannot be convolved with {}", shape_text(dims), shape_text(all));
  const std::vector<int64_t> sizes(dims.begin() + 2, dims.end()), kernel(all.begin() + 2, all.end());
  const OnnxWindow window = onnx_window(n, sizes, n.node.integers("kernel_shape", kernel));
  Value* bias = nullptr;
  if (n.has(8)) bias = n.mul(n.mul(n.cast(n.in(8), DType::fp32), weight_scale), scalar(1));
  Value* y = n.op("conv", {{"x", x},
                           {"weight", w},
                           {"strides", Constant::ints(window.strides)},
                           {"pad_type", n.text("custom")},
                           {"pad", Constant::ints(window.pads())},
                           {"dilations", Constant::ints(window.dilations)},
                           {"groups", n.i(n.node.integer("group", 1))},
                           {"bias", bias}});
  n.out(0, codes(n, y, scalar(6), scalar(7), n.type(7)), n.type(7));
}

// com.microsoft: weights of 2, 4 or 8 bits in blocks along K; unpacked here.
void matmul_nbits(OnnxCall& n) {
  const int64_t k = n.node.integer("K", 0), rows = n.node.integer("N", 0), bits = n.node.integer("bits", 4),
                block = n.node.integer("block_size", 32);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || k < 1 || rows < 1)
    throw n.refused(fmt::format("MatMulNBits with {} bits in blocks of {}", bits, block));
  if (n.has(4)) throw n.refused("MatMulNBits with g_idx");
  const int64_t blocks = (k + block - 1) / block, per_byte = 8 / bits;
  const std::vector<int64_t> packed = n.ints(1);
  const std::vector<float> scales = n.floats(2);
  if (static_cast<int64_t>(packed.size()) != rows * blocks * block / per_byte ||
      static_cast<int64_t>(scales.size()) != rows * blocks)
    throw errorf("the weight or its scales do not have the size that K, N and block_size say");
  std::vector<float> zeros(scales.size(), static_cast<float>(1 << (bits - 1)));
  if (n.has(3) && onnx_type_info(n.type(3)).floating) {
    zeros = n.floats(3);
  } else if (n.has(3)) {
    const std::vector<int64_t> bytes = n.ints(3);
    const int64_t row_bytes = (blocks * bits + 7) / 8;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t byte = bytes.at(static_cast<size_t>(r * row_bytes + b / per_byte));
        zeros[static_cast<size_t>(r * blocks + b)] =
            static_cast<float>(byte >> (b % per_byte * bits) & ((1 << bits) - 1));
      }
  }
  std::vector<float> weight(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < k; ++c) {
      const int64_t b = r * blocks + c / block, at = c % block;
      const int64_t byte = packed[static_cast<size_t>(b * (block / per_byte) + at / per_byte)];
      const auto code = static_cast<float>(byte >> (at % per_byte * bits) & ((1 << bits) - 1));
      weight[static_cast<size_t>(r * k + c)] =
          (code - zeros[static_cast<size_t>(b)]) * scales[static_cast<size_t>(b)];
    }
  Value* y = n.op("linear", {{"x", n.in(0)}, {"weight", n.float_values(std::move(weight), {rows, k})}});
  n.out(n.has(5) ? n.add(y, n.in(5)) : y);
}

const OnnxOp kOps[] = {
    {"QuantizeLinear", quantize},
    {"DequantizeLinear", dequantize},
    {"QuantizeLinear", quantize, "com.microsoft"},
    {"DequantizeLinear", dequantize, "com.microsoft"},
    {"DynamicQuantizeLinear", dynamic_quantize},
    {"MatMulInteger", matmul_integer},
    {"QLinearMatMul", qlinear_matmul},
    {"QLinearConv", qlinear_conv},
    {"MatMulNBits", matmul_nbits, "com.microsoft"},
};

}  // namespace

std::span<const OnnxOp> onnx_quantize() { return kOps; }

}  // namespace anemone::onnx_ops
