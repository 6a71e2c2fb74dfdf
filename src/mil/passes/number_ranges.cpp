#include "mil/passes/number_ranges.h"

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "mil/stored.h"

namespace anemone {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kPiece = int64_t{1} << 16;  // elements that are read at once

// Their results are some of the numbers of these inputs.
const std::set<std::string_view> kChoices = {
    "concat",         "expand_dims",       "flatten2d",
    "gather",         "gather_along_axis", "gather_nd",
    "identity",       "max_pool",          "maximum",
    "minimum",        "pixel_shuffle",     "reduce_max",
    "reduce_min",     "reshape",           "reverse",
    "select",         "slice_by_index",    "slice_by_size",
    "space_to_depth", "depth_to_space",    "sliding_windows",
    "split",          "squeeze",           "stack",
    "tile",           "transpose",         "upsample_nearest_neighbor"};
const std::set<std::string_view> kData = {"x", "y", "a", "b", "values"};

NumberRange of_type(const Type& type) {
  if (!type.is_tensor() || type.is_float()) return {};
  if (type.dtype == DType::boolean) return {0, 1, true, true};
  return {INT32_MIN, INT32_MAX, true, true};
}

NumberRange between(double low, double high, const NumberRange& of) {
  if (std::isnan(low) || std::isnan(high)) return {-kInfinite, kInfinite, of.whole, of.counted};
  return {low, high, of.whole, of.counted};
}

bool says_nothing(const NumberRange& r) { return !r.whole && r.low == -kInfinite && r.high == kInfinite; }

NumberRange joined(const NumberRange& a, const NumberRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.whole && b.whole, a.counted || b.counted};
}

NumberRange both(const NumberRange& a, const NumberRange& b) {
  return {0, 0, a.whole && b.whole, a.counted || b.counted};
}

// 0 times anything is 0 here: a bound that is infinite stands for numbers that are not.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

NumberRange multiplied(const NumberRange& a, const NumberRange& b) {
  const double corners[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low),
                            times(a.high, b.high)};
  return between(*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4),
                 both(a, b));
}

// How many elements of x go into one element of the result.
double gathered(const Value* x, const Operation& op) {
  if (!x || !x->type.fixed() || !op.outputs[0]->type.fixed() || op.outputs[0]->type.size() == 0)
    return kInfinite;
  return static_cast<double>(x->type.size()) / static_cast<double>(op.outputs[0]->type.size());
}

// How many products go into one element of the result.
double terms(const Operation& op) {
  const Value *x = op.value("x"), *weight = op.value("weight");
  if (op.type != "matmul") {
    if (!weight || !weight->type.fixed() || weight->type.rank() < 2 || weight->type.size() == 0)
      return kInfinite;
    return static_cast<double>(weight->type.size() / weight->type.dims()[0]);
  }
  if (!x || !x->type.fixed() || x->type.rank() < 2) return kInfinite;
  const std::vector<int64_t> dims = x->type.dims();  // either of the two, where it is not said which
  return static_cast<double>(std::max(dims[dims.size() - 1], dims[dims.size() - 2]));
}

template <class T>
void look_at(const std::vector<T>& piece, int64_t count, ConstantNumbers& out, bool& any) {
  for (int64_t k = 0; k < count; ++k) {
    const auto v = static_cast<double>(piece[static_cast<size_t>(k)]);
    if (!std::isfinite(v)) {
      out.finite = out.whole = false;
      continue;
    }
    out.low = any ? std::min(out.low, v) : v;
    out.high = any ? std::max(out.high, v) : v;
    out.whole = out.whole && v == std::trunc(v);
    any = true;
  }
}

ConstantNumbers read_numbers(const Constant& constant) {
  ConstantNumbers out;
  if (!constant.type.is_tensor() || constant.type.dtype == DType::string || !constant.type.fixed())
    return {-kInfinite, kInfinite, false, false};
  const auto stored = stored_constant(constant);
  const int64_t size = constant.type.size();
  // Whole rows: a source makes rows, and those at the edge of a piece would be made twice.
  const int64_t row = constant.type.rank() > 0 && size > 0 ? size / constant.type.dim(0).size() : 1;
  const int64_t step = std::max<int64_t>(kPiece / row, 1) * row;
  const auto largest = static_cast<size_t>(std::min(size, step));
  std::vector<float> floats(constant.type.is_float() ? largest : 0);
  std::vector<int32_t> ints(constant.type.is_float() ? 0 : largest);
  bool any = false;
  for (int64_t at = 0; at < size; at += step) {
    const int64_t end = std::min(size, at + step);
    stored->read(at, end, constant.type.is_float() ? static_cast<void*>(floats.data()) : ints.data());
    constant.type.is_float() ? look_at(floats, end - at, out, any) : look_at(ints, end - at, out, any);
  }
  return out;
}

}  // namespace

bool only_chooses(std::string_view type) { return kChoices.contains(type); }

NumberRanges::NumberRanges(const Function& function) {
  for_each_op(function.body, [&](const Operation& op) {
    if (op.type == "const" || op.outputs.empty()) return;
    NumberRange r = result(op);
    for (const auto& output : op.outputs) {
      const NumberRange own = of_type(output->type);
      if (says_nothing(r) && says_nothing(own)) continue;
      if (!output->type.is_tensor()) continue;
      if (!output->type.is_float()) {  // whole numbers wrap around where they do not fit
        const bool fits = r.low >= own.low && r.high <= own.high;
        ranges_.emplace(output.get(), fits ? NumberRange{r.low, r.high, true, true} : own);
      } else {
        ranges_.emplace(output.get(), r);
      }
    }
  });
}

const ConstantNumbers& NumberRanges::numbers(const Constant& constant) const {
  const auto it = numbers_.find(&constant);
  return it != numbers_.end() ? it->second
                              : numbers_.emplace(&constant, read_numbers(constant)).first->second;
}

NumberRange NumberRanges::of(const Value* value) const {
  if (!value) return {};
  if (const Constant* constant = value->constant()) {
    const ConstantNumbers& n = numbers(*constant);
    if (!n.finite) return {};
    return {n.low, n.high, n.whole, !value->type.is_float()};
  }
  const auto it = ranges_.find(value);
  return it == ranges_.end() ? of_type(value->type) : it->second;
}

NumberRange NumberRanges::of(const Binding& binding) const {
  if (binding.value) return of(binding.value);
  if (!binding.literal) return {};
  const ConstantNumbers& n = numbers(*binding.literal);
  return n.finite ? NumberRange{n.low, n.high, n.whole, !binding.literal->type.is_float()} : NumberRange{};
}

NumberRange NumberRanges::input(const Operation& op, std::string_view name) const {
  const Input* given = op.input(name);
  return given && given->bindings.size() == 1 ? of(given->bindings[0]) : NumberRange{};
}

NumberRange NumberRanges::product(const Operation& op) const {
  const char* second = op.type == "matmul" ? "y" : "weight";
  const Value *x = op.value("x"), *y = op.value(second);
  // What is computed is looked at first: constants are only read where they matter.
  for (const Value* v : {x, y})
    if (!v || (!v->constant() && says_nothing(of(v)))) return {};
  const NumberRange a = of(x), b = of(y);
  if (says_nothing(b) || says_nothing(a)) return {};
  NumberRange out = both(a, b);
  out.high = times(terms(op), times(a.most(), b.most()));
  if (op.input("bias")) {
    const NumberRange bias = input(op, "bias");
    out.high += bias.most();
    out.whole = out.whole && bias.whole;
  }
  out.low = -out.high;
  return out;
}

NumberRange NumberRanges::binary(const Operation& op) const {
  for (const char* name : {"x", "y"})
    if (const Value* v = op.value(name); v && !v->constant() && says_nothing(of(v))) return {};
  const NumberRange a = input(op, "x"), b = input(op, "y");
  if (op.type == "add") return between(a.low + b.low, a.high + b.high, both(a, b));
  if (op.type == "sub") return between(a.low - b.high, a.high - b.low, both(a, b));
  if (op.type == "mod") return between(-b.most(), b.most(), both(a, b));
  NumberRange out = multiplied(a, b);
  if (op.value("x") == op.value("y")) out.low = std::max(out.low, 0.0);
  return out;
}

NumberRange NumberRanges::result(const Operation& op) const {
  const std::string& type = op.type;
  if (type == "add" || type == "sub" || type == "mul" || type == "mod") return binary(op);
  if (type == "matmul" || type == "linear" || type == "conv") return product(op);
  if (type == "sigmoid" || type == "softmax") return {0, 1, false, false};
  if (type == "tanh" || type == "sin" || type == "cos" || type == "erf") return {-1, 1, false, false};
  if (only_chooses(type)) {
    std::optional<NumberRange> out;
    for (const Input& in : op.inputs)
      if (kData.contains(in.name))
        for (const Binding& b : in.bindings) {
          const NumberRange r = of(b);
          if (says_nothing(r)) return {};
          out = out ? joined(*out, r) : r;
        }
    return out.value_or(NumberRange{});
  }
  const NumberRange x = input(op, "x");
  if (type == "cast") return x;
  if (type == "clip") {
    const NumberRange low = input(op, "alpha"), high = input(op, "beta");
    const bool whole = x.whole && low.whole && high.whole;
    return {std::max(x.low, low.low), std::min(x.high, high.high), whole, x.counted};
  }
  if (type == "round" || type == "floor" || type == "ceil")
    return {std::floor(x.low), std::ceil(x.high), true, x.counted};
  if (type == "abs") return {x.low > 0 ? x.low : 0, x.most(), x.whole, x.counted};
  if (type == "relu") return {std::max(x.low, 0.0), std::max(x.high, 0.0), x.whole, x.counted};
  if (type == "square") return {0, times(x.most(), x.most()), x.whole, x.counted};
  if (type == "pad")
    return joined(x, op.input("constant_val") ? input(op, "constant_val") : NumberRange{0, 0, true, false});
  if (type == "reduce_sum") {
    const double count = gathered(op.value("x"), op);
    return between(times(std::min(x.low, 0.0), count), times(std::max(x.high, 0.0), count), x);
  }
  return {};
}

}  // namespace anemone
