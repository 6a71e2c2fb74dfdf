// OnnxCall: what lowerings of operators use.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone {

Opset OnnxCall::opset() const { return lowering_.function().opset; }

const OnnxOperand& OnnxCall::operand(size_t i) {
  if (!has(i)) throw errorf("input {} is missing", i);
  for (OnnxScope* s = &scope_; s; s = s->outer)
    if (const auto it = s->names.find(node.input(i)); it != s->names.end()) return it->second;
  lowering_.find(scope_, node.input(i));  // throws
  return scope_.names.begin()->second;
}

Value* OnnxCall::in(size_t i) { return lowering_.value(scope_, operand(i), node.input(i)); }

std::optional<std::vector<int64_t>> OnnxCall::find_ints(size_t i) {
  const OnnxOperand& given = operand(i);
  if (given.tensor) return given.tensor->ints();
  return known_ints(given.value);
}

std::optional<std::vector<float>> OnnxCall::find_floats(size_t i) {
  const OnnxOperand& given = operand(i);
  if (given.tensor) return given.tensor->floats();
  if (auto ints = known_ints(given.value)) return std::vector<float>(ints->begin(), ints->end());
  return known_floats(given.value);
}

std::vector<int64_t> OnnxCall::ints(size_t i) {
  if (auto found = find_ints(i)) return *found;
  throw errorf("the input '{}' must be known", onnx_printable(node.input(i)))
      .expected("a constant")
      .hint("if it is an input of the model, give its value with --constant");
}

std::vector<float> OnnxCall::floats(size_t i) {
  if (auto found = find_floats(i)) return *found;
  throw errorf("the input '{}' must be known", onnx_printable(node.input(i)))
      .expected("a constant")
      .hint("if it is an input of the model, give its value with --constant");
}

std::optional<std::vector<int64_t>> OnnxCall::ints_or_attribute(size_t i, std::string_view name) {
  if (has(i)) return ints(i);
  if (node.attribute(name)) return node.integers(name);
  return std::nullopt;
}

std::string OnnxCall::base_name() const {
  for (const std::string_view name : node.outputs)
    if (!name.empty()) return std::string(name);
  return std::string(node.op);
}

std::vector<Value*> OnnxCall::emit(std::string_view type, Args args) {
  std::vector<Value*> out =
      lowering_.emit(scope_, type, args, fmt::format("{}_{}_{}", base_name(), type, lowering_.next()));
  made_.insert(made_.end(), out.begin(), out.end());
  return out;
}

Value* OnnxCall::op(std::string_view type, Args args) { return emit(type, args)[0]; }

std::vector<Value*> OnnxCall::ops(std::string_view type, Args args) { return emit(type, args); }

Value* OnnxCall::constant(Constant value) {
  Value* made =
      scope_.builder->constant(std::move(value), fmt::format("{}_const_{}", base_name(), lowering_.next()));
  made_.push_back(made);
  return made;
}

Constant OnnxCall::one(DType dtype, double value) const {
  if (dtype == DType::int32) return i(static_cast<int64_t>(value));
  if (dtype == DType::boolean) return flag(value != 0);
  return f(static_cast<float>(value));
}

Value* OnnxCall::cast(Value* x, DType dtype) {
  if (x->type.dtype == dtype) return x;
  return op("cast", {{"x", x}, {"dtype", text(dtype_name(dtype))}});
}

Value* OnnxCall::reshape(Value* x, std::vector<int64_t> wanted) {
  if (x->type.fixed() && x->type.dims() == wanted) return x;
  if (wanted.empty()) {
    if (x->type.rank() == 0) return x;
    return op("squeeze", {{"x", x}});  // all of its dimensions are 1
  }
  return op("reshape", {{"x", x}, {"shape", Constant::ints(wanted)}});
}

Value* OnnxCall::transpose(Value* x, std::vector<int64_t> perm) {
  std::vector<int64_t> plain(static_cast<size_t>(x->type.rank()));
  std::iota(plain.begin(), plain.end(), 0);
  if (perm == plain) return x;
  if (!x->constant()) return op("transpose", {{"x", x}, {"perm", Constant::ints(perm)}});
  // A weight that many nodes turn around, such as the rounds of a loop, is turned once.
  auto& known = scope_.home().transposed;
  if (const auto it = known.find({x, perm}); it != known.end()) return it->second;
  Value* turned = op("transpose", {{"x", x}, {"perm", Constant::ints(perm)}});
  known.emplace(std::pair<const Value*, std::vector<int64_t>>{x, perm}, turned);
  return turned;
}

Value* OnnxCall::expand(Value* x, std::vector<int64_t> axes) {
  return axes.empty() ? x : op("expand_dims", {{"x", x}, {"axes", Constant::ints(axes)}});
}

Value* OnnxCall::squeeze(Value* x, std::vector<int64_t> axes) {
  return axes.empty() ? x : op("squeeze", {{"x", x}, {"axes", Constant::ints(axes)}});
}

Value* OnnxCall::concat(std::vector<Value*> values, int64_t along) {
  if (values.size() == 1) return values[0];
  return op("concat", {{"values", std::move(values)}, {"axis", i(along)}});
}

Value* OnnxCall::slice(Value* x, int64_t along, int64_t begin, int64_t end) {
  const auto rank = static_cast<size_t>(x->type.rank());
  std::vector<int64_t> from(rank, 0), to(rank, 0);
  std::vector<char> open(rank, 1);
  const auto at = static_cast<size_t>(along);
  from.at(at) = begin;
  to.at(at) = end;
  open.at(at) = 0;
  const std::span<const bool> mask(reinterpret_cast<const bool*>(open.data()), rank);
  return op("slice_by_index", {{"x", x},
                               {"begin", Constant::ints(from)},
                               {"end", Constant::ints(to)},
                               {"begin_mask", Constant::booleans(mask)},
                               {"end_mask", Constant::booleans(mask)}});
}

Value* OnnxCall::matmul(Value* x, Value* y, bool tx, bool ty) {
  return op("matmul", {{"x", x}, {"y", y}, {"transpose_x", flag(tx)}, {"transpose_y", flag(ty)}});
}

Value* OnnxCall::broadcast_to(Value* x, const std::vector<int64_t>& wanted) {
  const std::vector<int64_t> have = dims(x);
  if (have == wanted) return x;
  if (have.size() > wanted.size())
    throw errorf("a tensor of rank {} cannot become one of {}", have.size(), wanted.size());
  std::vector<int64_t> padded(wanted.size() - have.size(), 1);
  padded.insert(padded.end(), have.begin(), have.end());
  std::vector<int64_t> reps(wanted.size(), 1);
  for (size_t d = 0; d < wanted.size(); ++d)
    if (padded[d] != wanted[d]) {
      if (padded[d] != 1)
        throw errorf("shape {} does not broadcast to {}", shape_text(have), shape_text(wanted));
      reps[d] = wanted[d];
    }
  return op("tile", {{"x", reshape(x, padded)}, {"reps", Constant::ints(reps)}});
}

Value* OnnxCall::reduce(std::string_view kind, Value* x, std::vector<int64_t> axes, bool keep) {
  if (axes.empty()) return x;
  return op(fmt::format("reduce_{}", kind),
            {{"x", x}, {"axes", Constant::ints(axes)}, {"keep_dims", flag(keep)}});
}

Value* OnnxCall::filled(const std::vector<int64_t>& shape, double value, DType dtype) {
  if (shape.empty()) return constant(one(dtype, value));
  return op("fill", {{"shape", Constant::ints(shape)}, {"value", one(dtype, value)}});
}

Value* OnnxCall::float_values(std::vector<float> values, std::vector<int64_t> shape) {
  return constant(Constant::numbers(values, DType::fp32, to_shape(shape)));
}

Value* OnnxCall::int_values(std::vector<int64_t> values, std::vector<int64_t> shape) {
  Constant c = Constant::ints(values);
  c.type.shape = to_shape(shape);
  return constant(std::move(c));
}

Value* OnnxCall::wrap(Value* x, OnnxType type) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  if (!info.integer || type == OnnxType::boolean || info.bits >= 32) return x;
  const int64_t size = int64_t{1} << info.bits, low = info.is_signed ? size / 2 : 0;
  Value* shifted = low ? add(x, i(low)) : x;
  Value* rest = op("mod", {{"x", shifted}, {"y", i(size)}});
  return low ? sub(rest, i(low)) : rest;
}

std::vector<int64_t> OnnxCall::dims(Value* x) const {
  if (!x->type.fixed())
    throw errorf("the shape of '{}' is not fixed", x->name)
        .found(x->type.text())
        .hint("give the inputs fixed shapes with --shape");
  return x->type.dims();
}

int64_t OnnxCall::axis(int64_t value, int64_t rank) const {
  if (value < -rank || value >= rank) throw errorf("the axis {} is outside of rank {}", value, rank);
  return value < 0 ? value + rank : value;
}

bool OnnxCall::wants(size_t index) const { return !node.output(index).empty(); }

void OnnxCall::out(size_t index, Value* value, OnnxType type) {
  if (!wants(index)) return;
  // The last operation of a node is called like its output, so that values can be found again.
  const auto own = std::find(made_.begin(), made_.end(), value);
  if (own != made_.end() && value->producer->outputs.size() == 1)
    scope_.builder->rename(value, node.output(index));
  out_operand(index, OnnxOperand{value, type, nullptr});
}

void OnnxCall::out_operand(size_t index, OnnxOperand given) {
  if (wants(index)) scope_.names.insert_or_assign(node.output(index), std::move(given));
}

Error OnnxCall::refused(std::string why) const { return errorf("{} is not supported", why); }

}  // namespace anemone
