#include "lower/ops.h"

#include <cmath>

#include "base/error.h"

namespace anemone::lower {
namespace {

std::string sub(std::string_view name, std::string_view part) { return fmt::format("{}_{}", name, part); }

Constant bools(size_t n, bool value) {
  const std::vector<uint8_t> bytes(n, value);
  Constant::Bytes data(n);
  for (size_t i = 0; i < n; ++i) data[i] = static_cast<std::byte>(bytes[i]);
  return Constant::from_bytes(Type::tensor(DType::boolean, {static_cast<int64_t>(n)}), std::move(data));
}

}  // namespace

Constant half(float value) { return Constant::number(value, kHalf); }

Value* add(Builder& b, Value* x, Value* y, std::string_view name) {
  return b.op("add", {{"x", x}, {"y", y}}, name);
}
Value* mul(Builder& b, Value* x, Value* y, std::string_view name) {
  return b.op("mul", {{"x", x}, {"y", y}}, name);
}

Value* scale(Builder& b, Value* x, double factor, std::string_view name) {
  if (factor == 1) return x;
  return b.op("mul", {{"x", x}, {"y", half(static_cast<float>(factor))}}, name);
}

Value* conv1x1(Builder& b, Value* x, Value* weight, Value* bias, std::string_view name) {
  const Constant ones = Constant::ints({1, 1});
  const Constant zeros = Constant::ints({0, 0, 0, 0});
  return b.op("conv",
              {{"x", x},
               {"weight", weight},
               {"bias", bias},
               {"strides", ones},
               {"pad_type", Constant::text("valid")},
               {"pad", zeros},
               {"dilations", ones},
               {"groups", Constant::integer(1)}},
              name);
}

Value* turned(Builder& b, Value* x, std::string_view name) {
  return b.op("transpose", {{"x", x}, {"perm", Constant::ints({0, 3, 2, 1})}}, name);
}

Value* join(Builder& b, std::vector<Value*> values, int axis, std::string_view name) {
  return b.op("concat",
              {{"values", std::move(values)},
               {"axis", Constant::integer(axis)},
               {"interleave", Constant::boolean(false)}},
              name);
}

Value* conv_over_time(Builder& b, Value* x, Value* weight, Value* bias, int64_t groups,
                      std::string_view name) {
  const Constant ones = Constant::ints({1, 1});
  return b.op("conv",
              {{"x", x},
               {"weight", weight},
               {"bias", bias},
               {"strides", ones},
               {"pad_type", Constant::text("valid")},
               {"pad", Constant::ints({0, 0, 0, 0})},
               {"dilations", ones},
               {"groups", Constant::integer(static_cast<int32_t>(groups))}},
              name);
}

Value* rms_norm(Builder& b, Value* x, const NormSpec& spec, std::string_view name) {
  const Constant axes = Constant::ints({spec.axis});
  const Constant keep = Constant::boolean(true);
  Value* magnitude = b.op("abs", {{"x", x}}, sub(name, "abs"));
  Value* largest =
      b.op("reduce_max", {{"x", magnitude}, {"axes", axes}, {"keep_dims", keep}}, sub(name, "max"));
  // Never below 2^-14, the smallest normal fp16 number: a token of zeros stays zeros.
  largest = b.op("maximum", {{"x", largest}, {"y", half(0x1p-14f)}}, sub(name, "floor"));
  Value* scaled = b.op("real_div", {{"x", x}, {"y", largest}}, sub(name, "scaled"));
  Value* square = mul(b, scaled, scaled, sub(name, "square"));
  Value* mean = b.op("reduce_mean", {{"x", square}, {"axes", axes}, {"keep_dims", keep}}, sub(name, "mean"));
  // eps / largest^2 as a square, since largest^2 itself may overflow.
  Value* root = b.op("real_div", {{"x", half(static_cast<float>(std::sqrt(spec.eps)))}, {"y", largest}},
                     sub(name, "root_eps"));
  Value* eps = mul(b, root, root, sub(name, "eps"));
  Value* sum = add(b, mean, eps, sub(name, "sum"));
  Value* inverse = b.op("rsqrt", {{"x", sum}, {"epsilon", half(0)}}, sub(name, "rsqrt"));
  Value* normal = mul(b, scaled, inverse, spec.gain ? std::string_view(sub(name, "normal")) : name);
  return spec.gain ? mul(b, normal, spec.gain, name) : normal;
}

Value* layer_norm(Builder& b, Value* x, const NormSpec& spec, std::string_view name) {
  Value* mean =
      b.op("reduce_mean",
           {{"x", x}, {"axes", Constant::ints({spec.axis})}, {"keep_dims", Constant::boolean(true)}},
           sub(name, "center"));
  Value* centered = b.op("sub", {{"x", x}, {"y", mean}}, sub(name, "centered"));
  Value* normal = rms_norm(b, centered, spec, spec.bias ? std::string_view(sub(name, "scaled_up")) : name);
  return spec.bias ? add(b, normal, spec.bias, name) : normal;
}

Value* slice_axis(Builder& b, Value* x, int axis, int64_t begin, int64_t end, std::string_view name) {
  const size_t rank = x->type.shape.size();
  std::vector<int64_t> from(rank, 0), to(rank, 0);
  Constant mask = bools(rank, true);
  std::get<Constant::Bytes>(mask.data)[static_cast<size_t>(axis)] = std::byte{0};
  from[static_cast<size_t>(axis)] = begin;
  to[static_cast<size_t>(axis)] = end;
  return b.op("slice_by_index",
              {{"x", x},
               {"begin", Constant::ints(from)},
               {"end", Constant::ints(to)},
               {"begin_mask", mask},
               {"end_mask", mask}},
              name);
}

Value* rotate(Builder& b, Value* x, Value* cos, Value* sin, int64_t rotated, std::string_view name) {
  const int64_t dim = x->type.shape[3].size(), pairs = rotated / 2;
  Value* first = slice_axis(b, x, 3, 0, pairs, sub(name, "first"));
  Value* second = slice_axis(b, x, 3, pairs, rotated, sub(name, "second"));
  Value* low = b.op("sub",
                    {{"x", mul(b, first, cos, sub(name, "first_cos"))},
                     {"y", mul(b, second, sin, sub(name, "second_sin"))}},
                    sub(name, "low"));
  // One after the other: compilers differ in which argument of a call they compute first, and so would the packages.
  Value* first_sin = mul(b, first, sin, sub(name, "first_sin"));
  Value* second_cos = mul(b, second, cos, sub(name, "second_cos"));
  Value* high = add(b, second_cos, first_sin, sub(name, "high"));
  std::vector<Value*> parts{low, high};
  if (rotated < dim) parts.push_back(slice_axis(b, x, 3, rotated, dim, sub(name, "rest")));
  return b.op("concat",
              {{"values", parts}, {"axis", Constant::integer(3)}, {"interleave", Constant::boolean(false)}},
              name);
}

Value* reshape(Builder& b, Value* x, std::initializer_list<int64_t> shape, std::string_view name) {
  return b.op("reshape", {{"x", x}, {"shape", Constant::ints(shape)}}, name);
}

namespace {

Value* swap_last(Builder& b, Value* x, std::string_view name) {
  return b.op("transpose", {{"x", x}, {"perm", Constant::ints({0, 1, 3, 2})}}, name);
}

}  // namespace

Value* split_heads(Builder& b, Value* x, int64_t heads, int64_t dim, std::string_view name) {
  return swap_last(b, reshape(b, x, {1, heads, dim, -1}, sub(name, "split")), name);
}

Value* merge_heads(Builder& b, Value* x, int64_t heads, int64_t dim, std::string_view name) {
  return reshape(b, swap_last(b, x, sub(name, "swap")), {1, heads * dim, -1, 1}, name);
}

Value* pad_last(Builder& b, Value* x, int64_t size, std::string_view name) {
  const int64_t have = x->type.shape.back().size();
  if (have == size) return x;
  return b.op("pad",
              {{"x", x},
               {"pad", Constant::ints({0, 0, 0, 0, 0, 0, 0, size - have})},
               {"mode", Constant::text("constant")},
               {"constant_val", half(0)}},
              name);
}

Value* soft_cap(Builder& b, Value* x, double cap, std::string_view name) {
  Value* small = scale(b, x, 1 / cap, sub(name, "small"));
  return scale(b, b.op("tanh", {{"x", small}}, sub(name, "tanh")), cap, name);
}

}  // namespace anemone::lower
