// Shapes of tensors, and tensors made from shapes.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

void shape(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t rank = x->type.rank();
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t begin = clamp(n.node.integer("start", 0)), end = clamp(n.node.integer("end", rank));
  std::vector<int64_t> sizes;
  bool fixed = true;
  for (int64_t d = begin; d < end; ++d) {
    const Dim dim = x->type.dim(static_cast<int>(d));
    fixed = fixed && dim.known();
    sizes.push_back(dim.known() ? dim.size() : 0);
  }
  if (fixed) return n.out(0, n.int_values(sizes, {static_cast<int64_t>(sizes.size())}), OnnxType::int64);
  Value* all = n.unary("shape", x);
  if (end - begin < rank) all = n.slice(all, 0, begin, end);
  n.out(0, all, OnnxType::int64);
}

void size(OnnxCall& n) {
  Value* x = n.in(0);
  if (x->type.fixed()) return n.out(0, n.constant(n.i(x->type.size())), OnnxType::int64);
  n.out(0, n.reduce("prod", n.unary("shape", x), {0}, false), OnnxType::int64);
}

void reshape(OnnxCall& n) {
  Value* x = n.in(0);
  const auto wanted = n.node.version < 5 ? std::optional(n.node.integers("shape")) : n.find_ints(1);
  if (!wanted) return n.out(n.op("reshape", {{"x", x}, {"shape", n.in(1)}}));
  std::vector<int64_t> dims = *wanted;
  const bool zeros = n.node.integer("allowzero", 0) != 0;
  int64_t known = 1, open = -1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0 && !zeros) {
      if (static_cast<int>(d) >= x->type.rank())
        throw errorf("the shape copies dimension {}, which is not there", d);
      const Dim copied = x->type.dim(static_cast<int>(d));
      dims[d] = copied.known() ? copied.size() : -1;
      if (!copied.known() && open < 0 && std::find(wanted->begin(), wanted->end(), -1) != wanted->end())
        return n.out(n.op("reshape", {{"x", x}, {"shape", n.in(1)}}));
    }
    if (dims[d] == -1)
      open = static_cast<int64_t>(d);
    else if (dims[d] < 0 || __builtin_mul_overflow(known, dims[d], &known))
      throw errorf("the shape {} is none that a value can have", shape_text(*wanted));
  }
  if (open >= 0 && x->type.fixed()) {
    if (known == 0 || x->type.size() % known)
      throw errorf("{} elements do not fit shape {}", x->type.size(), shape_text(*wanted));
    dims[static_cast<size_t>(open)] = x->type.size() / known;
  }
  Value* y = n.reshape(x, dims);
  if (y == x) return n.out_operand(0, n.operand(0));
  n.out(y);
}

void flatten(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> dims = n.dims(x);
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t along = n.node.integer("axis", 1);
  if (along < -rank || along > rank) throw errorf("the axis {} is outside of rank {}", along, rank);
  if (along < 0) along += rank;
  const auto mid = dims.begin() + along;
  const int64_t rows = std::accumulate(dims.begin(), mid, int64_t{1}, std::multiplies<>());
  const int64_t columns = std::accumulate(mid, dims.end(), int64_t{1}, std::multiplies<>());
  Value* y = n.reshape(x, {rows, columns});
  if (y == x) return n.out_operand(0, n.operand(0));
  n.out(y);
}

void squeeze(OnnxCall& n) {
  Value* x = n.in(0);
  const auto given = n.ints_or_attribute(1, "axes");
  std::vector<int64_t> axes;
  if (given)
    for (const int64_t a : *given) axes.push_back(n.axis(a, x->type.rank()));
  else
    for (int d = 0; d < x->type.rank(); ++d)
      if (x->type.dim(d) == Dim(1)) axes.push_back(d);
  for (const int64_t a : axes)
    if (x->type.dim(static_cast<int>(a)).known() && x->type.dim(static_cast<int>(a)) != Dim(1))
      throw errorf("dimension {} has size {} and cannot be removed", a,
                   x->type.dim(static_cast<int>(a)).text());
  if (axes.empty()) return n.out_operand(0, n.operand(0));
  n.out(n.squeeze(x, axes));
}

void unsqueeze(OnnxCall& n) {
  Value* x = n.in(0);
  std::vector<int64_t> axes = n.ints_or_attribute(1, "axes").value_or(std::vector<int64_t>{});
  const int64_t rank = x->type.rank() + static_cast<int64_t>(axes.size());
  for (int64_t& a : axes) a = n.axis(a, rank);
  std::sort(axes.begin(), axes.end());
  if (axes.empty()) return n.out_operand(0, n.operand(0));
  n.out(n.expand(x, axes));
}

void transpose(OnnxCall& n) {
  Value* x = n.in(0);
  std::vector<int64_t> perm = n.node.integers("perm");
  if (perm.empty())
    for (int64_t d = x->type.rank() - 1; d >= 0; --d) perm.push_back(d);
  Value* y = n.transpose(x, perm);
  if (y == x) return n.out_operand(0, n.operand(0));
  n.out(y);
}

void expand(OnnxCall& n) {
  Value* x = n.in(0);
  const DType dtype = x->type.dtype;
  if (const auto wanted = n.find_ints(1); wanted && x->type.fixed()) {
    std::vector<int64_t> have = x->type.dims(), dims = *wanted;
    if (dims.size() < have.size()) dims.insert(dims.begin(), have.size() - dims.size(), 1);
    for (size_t d = 0; d < have.size(); ++d) {
      int64_t& size = dims[dims.size() - have.size() + d];
      if (size == 1) size = have[d];
    }
    Value* y = n.broadcast_to(x, dims);
    if (y == x) return n.out_operand(0, n.operand(0));
    return n.out(y);
  }
  // The shape is computed: a tensor of ones of that shape, and a broadcasting product.
  if (dtype == DType::boolean) {
    Value* ones = n.op("fill", {{"shape", n.in(1)}, {"value", n.flag(true)}});
    return n.out(n.op("logical_and", {{"x", x}, {"y", ones}}));
  }
  n.out(n.mul(x, n.op("fill", {{"shape", n.in(1)}, {"value", n.one(dtype, 1)}})));
}

void tile(OnnxCall& n) { n.out(n.op("tile", {{"x", n.in(0)}, {"reps", n.in(1)}})); }

void constant(OnnxCall& n) {
  if (const OnnxTensor* tensor = n.node.tensor("value"))
    return n.out_operand(0, OnnxOperand{nullptr, tensor->type(), tensor});
  if (n.node.attribute("value_float"))
    return n.out(0, n.constant(n.f(n.node.number("value_float", 0))), OnnxType::float32);
  if (n.node.attribute("value_int"))
    return n.out(0, n.constant(n.i(n.node.integer("value_int", 0))), OnnxType::int64);
  if (n.node.attribute("value_floats")) {
    const std::vector<float> values = n.node.numbers("value_floats");
    return n.out(0, n.float_values(values, {static_cast<int64_t>(values.size())}), OnnxType::float32);
  }
  if (n.node.attribute("value_ints")) {
    const std::vector<int64_t> values = n.node.integers("value_ints");
    return n.out(0, n.int_values(values, {static_cast<int64_t>(values.size())}), OnnxType::int64);
  }
  throw n.refused("a constant that is a string or sparse");
}

void constant_of_shape(OnnxCall& n) {
  const OnnxTensor* tensor = n.node.tensor("value");
  const OnnxType type = tensor ? tensor->type() : OnnxType::float32;
  const DType dtype = mil_dtype(type);
  double value = 0;
  if (tensor) tensor->read(0, 1, std::span<double>(&value, 1));
  if (const auto dims = n.find_ints(0)) return n.out(0, n.filled(*dims, value, dtype), type);
  n.out(0, n.op("fill", {{"shape", n.in(0)}, {"value", n.one(dtype, value)}}), type);
}

void range(OnnxCall& n) {
  const auto scalar = [&](size_t k) {
    Value* v = n.in(k);
    return v->type.rank() ? n.squeeze(v, {0}) : v;
  };
  n.out(n.op("range_1d", {{"end", scalar(1)}, {"start", scalar(0)}, {"step", scalar(2)}}));
}

void eye_like(OnnxCall& n) {
  const std::vector<int64_t> dims = n.dims(n.in(0));
  if (dims.size() != 2) throw errorf("EyeLike takes a matrix").found(shape_text(dims));
  const OnnxType type =
      n.node.attribute("dtype") ? onnx_type_from_code(n.node.integer("dtype", 1)) : n.type(0);
  const int64_t k = n.node.integer("k", 0);
  const DType dtype = mil_dtype(type);
  std::vector<float> values(static_cast<size_t>(dims[0] * dims[1]));
  for (int64_t r = 0; r < dims[0]; ++r)
    if (r + k >= 0 && r + k < dims[1]) values[static_cast<size_t>(r * dims[1] + r + k)] = 1;
  n.out(0, n.cast(n.float_values(values, dims), dtype), type);
}

const OnnxOp kOps[] = {
    {"Shape", shape},
    {"Size", size},
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Transpose", transpose},
    {"Expand", expand},
    {"Tile", tile},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Range", range},
    {"EyeLike", eye_like},
};

}  // namespace

std::span<const OnnxOp> onnx_shape() { return kOps; }

}  // namespace anemone::onnx_ops
