// Numbers as codes of few bits, and products of codes.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

struct Limits {
  double low, high;
};

Limits limits_of(OnnxType type) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  if (!info.integer) throw errorf("codes of type {} are not supported here", info.name);
  const double low = info.is_signed ? -std::ldexp(1.0, info.bits - 1) : 0;
  return {low, low + std::ldexp(1.0, info.bits) - 1};
}

// onnxruntime divides in fp32, and so do we: the rounding of halves depends on it.
double code_of(double x, double scale, double zero, const Limits& l, float& unrounded) {
  const float quotient = static_cast<float>(x) / static_cast<float>(scale);
  unrounded = static_cast<float>(std::clamp(static_cast<double>(quotient) + zero, l.low, l.high));
  return std::clamp(static_cast<double>(std::nearbyint(quotient)) + zero, l.low, l.high);
}

// The entry of a scale or zero point that belongs to a place.
double entry(const Context& c, size_t input, const std::vector<int64_t>& at, double fallback) {
  if (!c.has(input)) return fallback;
  const OnnxArray& v = c[input];
  if (v.size() == 1) return v.data[0];
  const auto rank = static_cast<int64_t>(at.size());
  const int64_t axis = at_axis(std::min(c.node.integer("axis", 1), rank - 1), rank);
  const int64_t block = c.node.integer("block_size", 0);
  if (block == 0) return v.data.at(static_cast<size_t>(at[static_cast<size_t>(axis)]));
  std::vector<int64_t> where = at;
  where[static_cast<size_t>(axis)] /= block;
  if (v.dims.size() != at.size()) throw errorf("the scales of blocks have another rank than the values");
  return v.data.at(static_cast<size_t>(broadcast_at(where, v.dims)));
}

Arrays quantize(const Context& c) {
  const int64_t named = c.node.integer("output_dtype", 0);
  const OnnxType type = c.has(2) ? c[2].type : named ? onnx_type_from_code(named) : OnnxType::uint8;
  const Limits l = limits_of(type);
  OnnxArray y = made(type, c[0].dims);
  y.unrounded.resize(y.data.size());
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    y.data[k] = code_of(c[0].data[k], entry(c, 1, at, 1), entry(c, 2, at, 0), l, y.unrounded[k]);
    ++k;
  });
  return {y};
}

Arrays dequantize(const Context& c) {
  OnnxArray y = made(c[1].type, c[0].dims);
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    y.data[k] = (c[0].data[k] - entry(c, 2, at, 0)) * entry(c, 1, at, 1);
    ++k;
  });
  return {y};
}

// The range of the values with zero in it, as 8 bits.
Arrays dynamic_quantize(const Context& c) {
  double low = 0, high = 0;
  for (const double v : c[0].data) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  const float scale = (static_cast<float>(high) - static_cast<float>(low)) / 255.0f;
  OnnxArray y = made(OnnxType::uint8, c[0].dims), s = made(OnnxType::float32, {}),
            zero = made(OnnxType::uint8, {});
  s.data[0] = static_cast<double>(scale);
  if (scale == 0) return {y, s, zero};
  const float start = -static_cast<float>(low) / scale;
  zero.unrounded = {start};
  zero.data[0] = std::clamp(static_cast<double>(std::nearbyint(start)), 0.0, 255.0);
  y.unrounded.resize(y.data.size());
  for (size_t k = 0; k < y.data.size(); ++k)
    y.data[k] = code_of(c[0].data[k], s.data[0], zero.data[0], {0, 255}, y.unrounded[k]);
  return {y, s, zero};
}

// A scale or zero point of a matrix: a number, one for each row or column, or a tensor that broadcasts.
OnnxArray laid_out(OnnxArray v, bool by_row) {
  if (v.size() == 1) v.dims.clear();
  if (v.rank() == 1 && by_row) v.dims.push_back(1);
  return v;
}

template <class F>
OnnxArray combined(const OnnxArray& x, const OnnxArray& v, F f) {
  OnnxArray y = x;
  if (v.rank() > x.rank()) throw errorf("{} does not fit {}", shape_text(v.dims), shape_text(x.dims));
  if (broadcast_dims(x.dims, v.dims) != x.dims)
    throw errorf("{} and {} do not broadcast", shape_text(x.dims), shape_text(v.dims));
  size_t k = 0;
  each_place(x.dims, [&](const std::vector<int64_t>& at) {
    y.data[k] = f(x.data[k], v.data[static_cast<size_t>(broadcast_at(at, v.dims))]);
    ++k;
  });
  return y;
}

double minus(double a, double b) { return a - b; }
double times(double a, double b) { return a * b; }

// x without its zero point.
OnnxArray centered(const Context& c, size_t x, size_t zero, bool by_row) {
  return c.has(zero) ? combined(c[x], laid_out(c[zero], by_row), minus) : c[x];
}

Arrays matmul_integer(const Context& c) {
  OnnxArray y = matmul_of(centered(c, 0, 2, true), centered(c, 1, 3, false));
  y.type = OnnxType::int32;
  return {y};
}

// Codes of y, whose scale and zero point are inputs `scale` and the one behind it.
OnnxArray codes_of(const Context& c, const OnnxArray& y, size_t scale) {
  const OnnxArray s = laid_out(c[scale], true), z = laid_out(c[scale + 1], true);
  const Limits l = limits_of(z.type);
  OnnxArray out = made(z.type, y.dims);
  out.unrounded.resize(out.data.size());
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    out.data[k] = code_of(y.data[k], s.data.at(static_cast<size_t>(broadcast_at(at, s.dims))),
                          z.data.at(static_cast<size_t>(broadcast_at(at, z.dims))), l, out.unrounded[k]);
    ++k;
  });
  return out;
}

Arrays qlinear_matmul(const Context& c) {
  const OnnxArray a = combined(centered(c, 0, 2, true), laid_out(c[1], true), times),
                  b = combined(centered(c, 3, 5, false), laid_out(c[4], false), times);
  return {codes_of(c, matmul_of(a, b), 6)};
}

// A number for each output channel, laid out for weights [M, …] or results [N, M, …].
OnnxArray by_channel(OnnxArray v, size_t behind) {
  if (v.size() == 1) {
    v.dims.clear();
    return v;
  }
  v.dims.resize(1 + behind, 1);
  return v;
}

Arrays conv_integer(const Context& c) {
  OnnxArray x = c.has(2) ? combined(c[0], by_channel(c[2], 0), minus) : c[0], w = c[1];
  if (c.has(3)) w = combined(w, by_channel(c[3], w.dims.size() - 1), minus);
  OnnxArray y = convolved(c, x, w);
  y.type = OnnxType::int32;
  return {y};
}

Arrays qlinear_conv(const Context& c) {
  const size_t behind = c[3].dims.size() - 1;
  const OnnxArray x = combined(combined(c[0], by_channel(c[2], 0), minus), by_channel(c[1], 0), times);
  const OnnxArray w =
      combined(combined(c[3], by_channel(c[5], behind), minus), by_channel(c[4], behind), times);
  OnnxArray y = convolved(c, x, w);
  if (c.has(8)) {  // in steps of both scales
    const int64_t channels = y.dims.at(1), plane = y.size() / std::max<int64_t>(1, y.dims[0] * channels);
    for (int64_t k = 0; k < y.size(); ++k) {
      const auto ch = static_cast<size_t>(k / plane % channels);
      y.data[static_cast<size_t>(k)] +=
          c[8].data.at(ch) * c[1].data.at(0) * (c[4].size() == 1 ? c[4].data[0] : c[4].data.at(ch));
    }
  }
  return {codes_of(c, y, 6)};
}

// Bits of a packed list: element 0 is in the lowest bits of the first byte.
double packed_code(const OnnxArray& bytes, int64_t first_byte, int64_t k, int64_t bits) {
  const auto byte = whole(bytes.data.at(static_cast<size_t>(first_byte + k * bits / 8)));
  return static_cast<double>(byte >> (k * bits % 8) & ((int64_t{1} << bits) - 1));
}

// com.microsoft: x times the transpose of a weight in blocks along K.
Arrays matmul_nbits(const Context& c) {
  const int64_t width = c.node.integer("K", 0), rows = c.node.integer("N", 0),
                bits = c.node.integer("bits", 4), block = c.node.integer("block_size", 0);
  if (width < 1 || rows < 1 || block < 16 || (bits != 2 && bits != 4 && bits != 8))
    throw errorf("MatMulNBits with {} bits in blocks of {} is not supported here", bits, block);
  if (c.has(4) && c.has(3)) throw errorf("g_idx together with zero points is not supported here");
  const int64_t blocks = (width + block - 1) / block, zero_bytes = (blocks * bits + 7) / 8;
  OnnxArray weight = made(c[0].type, {width, rows});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < width; ++k) {
      const auto g = c.has(4) ? whole(c[4].data.at(static_cast<size_t>(k))) : k / block;
      double zero = static_cast<double>(int64_t{1} << (bits - 1));
      if (c.has(3))
        zero = onnx_type_info(c[3].type).floating ? c[3].data.at(static_cast<size_t>(r * blocks + g))
                                                  : packed_code(c[3], r * zero_bytes, g, bits);
      const double code = packed_code(c[1], r * blocks * block * bits / 8, k, bits);
      weight.data[static_cast<size_t>(k * rows + r)] =
          (code - zero) * c[2].data.at(static_cast<size_t>(r * blocks + g));
    }
  OnnxArray y = matmul_of(c[0], weight);
  if (c.has(5)) y = combined(y, c[5], [](double a, double b) { return a + b; });
  return {y};
}

}  // namespace

void add_codes(Table& t) {
  t["QuantizeLinear"] = quantize;
  t["DequantizeLinear"] = dequantize;
  t["DynamicQuantizeLinear"] = dynamic_quantize;
  t["MatMulInteger"] = matmul_integer;
  t["QLinearMatMul"] = qlinear_matmul;
  t["ConvInteger"] = conv_integer;
  t["QLinearConv"] = qlinear_conv;
  t.microsoft("QuantizeLinear") = quantize;
  t.microsoft("DequantizeLinear") = dequantize;
  t.microsoft("MatMulNBits") = matmul_nbits;
}

}  // namespace anemone::interpret
