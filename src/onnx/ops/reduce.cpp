// Sums, extremes and other results over axes; running sums; the largest elements.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

struct Reduction {
  std::vector<int64_t> axes;
  bool keep = true;
  bool nothing = false;  // no axes, and that means none
};

Reduction reduction(OnnxCall& n, int64_t axes_as_input) {
  Reduction r;
  Value* x = n.in(0);
  r.keep = n.node.integer("keepdims", 1) != 0;
  const bool input = n.node.version >= axes_as_input;
  const auto given = input
                         ? (n.has(1) ? std::optional(n.ints(1)) : std::nullopt)
                         : (n.node.attribute("axes") ? std::optional(n.node.integers("axes")) : std::nullopt);
  if (given && !given->empty()) {
    for (const int64_t a : *given) r.axes.push_back(n.axis(a, x->type.rank()));
  } else if (input && n.node.integer("noop_with_empty_axes", 0) != 0) {
    r.nothing = true;
  } else {
    r.axes.resize(static_cast<size_t>(x->type.rank()));
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  return r;
}

bool is_empty(const Value* x) { return x->type.fixed() && x->type.size() == 0; }

// What a reduction of no elements gives.
double neutral(std::string_view kind, DType dtype) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const bool whole = dtype == DType::int32;
  if (kind == "max") return whole ? std::numeric_limits<int32_t>::min() : -kInf;
  if (kind == "min") return whole ? std::numeric_limits<int32_t>::max() : kInf;
  if (kind == "prod") return 1;
  return kind == "log_sum" || kind == "log_sum_exp" ? -kInf : 0;
}

void reduce_to(OnnxCall& n, std::string_view kind, int64_t axes_as_input) {
  const Reduction r = reduction(n, axes_as_input);
  Value* x = n.in(0);
  const bool truth = x->type.dtype == DType::boolean;
  if (truth) x = n.cast(x, DType::int32);
  std::string_view inner = kind;
  if (kind == "sum_square") {
    x = n.mul(x, x);
    inner = "sum";
  } else if (kind == "l1_norm") {
    x = n.unary("abs", x);
    inner = "sum";
  } else if (kind == "l2_norm") {
    x = n.cast(n.mul(x, x), DType::fp32);
    inner = "sum";
  } else if (kind == "log_sum") {
    x = n.cast(x, DType::fp32);
    inner = "sum";
  } else if (kind == "log_sum_exp") {
    x = n.cast(x, DType::fp32);
  }
  Value* y = nullptr;
  if (r.nothing) {
    y = kind == "log_sum_exp" ? x : x;
  } else if (is_empty(x)) {
    std::vector<int64_t> dims = n.dims(x), out;
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool reduced = std::find(r.axes.begin(), r.axes.end(), static_cast<int64_t>(d)) != r.axes.end();
      if (!reduced || r.keep) out.push_back(reduced ? 1 : dims[d]);
    }
    const double none =
        truth ? (kind == "min" ? 1 : 0) : neutral(kind == "log_sum" ? "sum" : kind, x->type.dtype);
    y = n.filled(out, none, x->type.dtype);
  } else if (r.axes.empty()) {
    y = x;
  } else {
    y = n.reduce(inner, x, r.axes, r.keep);
  }
  if (kind == "l2_norm") y = n.cast(n.unary("sqrt", y), mil_dtype(n.type(0)));
  if (kind == "log_sum") y = n.op("log", {{"x", y}, {"epsilon", n.f(0)}});
  if (truth) y = n.op("not_equal", {{"x", y}, {"y", n.i(0)}});
  if (y == n.in(0)) return n.out_operand(0, n.operand(0));
  n.out(y);
}

void reduce_max(OnnxCall& n) { reduce_to(n, "max", 18); }
void reduce_min(OnnxCall& n) { reduce_to(n, "min", 18); }
void reduce_mean(OnnxCall& n) { reduce_to(n, "mean", 18); }
void reduce_prod(OnnxCall& n) { reduce_to(n, "prod", 18); }
void reduce_sum(OnnxCall& n) { reduce_to(n, "sum", 13); }
void reduce_l1(OnnxCall& n) { reduce_to(n, "l1_norm", 18); }
void reduce_l2(OnnxCall& n) { reduce_to(n, "l2_norm", 18); }
void reduce_log_sum(OnnxCall& n) { reduce_to(n, "log_sum", 18); }
void reduce_log_sum_exp(OnnxCall& n) { reduce_to(n, "log_sum_exp", 18); }
void reduce_sum_square(OnnxCall& n) { reduce_to(n, "sum_square", 18); }

void arg(OnnxCall& n, std::string_view kind) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.node.integer("axis", 0), x->type.rank());
  const bool keep = n.node.integer("keepdims", 1) != 0;
  const bool last = n.node.integer("select_last_index", 0) != 0;
  if (last) x = n.op("reverse", {{"x", x}, {"axes", Constant::ints({along})}});
  Value* y = n.op(kind, {{"x", x}, {"axis", n.i(along)}, {"keep_dims", n.flag(keep)}});
  if (last) {
    const int64_t size = n.dims(x)[static_cast<size_t>(along)];
    y = n.sub(n.i(size - 1), y);
  }
  n.out(0, y, OnnxType::int64);
}

void arg_max(OnnxCall& n) { arg(n, "reduce_argmax"); }
void arg_min(OnnxCall& n) { arg(n, "reduce_argmin"); }

void cum_sum(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.ints(1).at(0), x->type.rank());
  n.out(n.op("cumsum", {{"x", x},
                        {"axis", n.i(along)},
                        {"exclusive", n.flag(n.node.integer("exclusive", 0) != 0)},
                        {"reverse", n.flag(n.node.integer("reverse", 0) != 0)}}));
}

// One product after the other: MIL has no running product.
void cum_prod(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.ints(1).at(0), x->type.rank());
  const bool exclusive = n.node.integer("exclusive", 0) != 0, reverse = n.node.integer("reverse", 0) != 0;
  const int64_t size = n.dims(x)[static_cast<size_t>(along)];
  std::vector<Value*> parts(static_cast<size_t>(size));
  Value* so_far = nullptr;
  for (int64_t k = 0; k < size; ++k) {
    const int64_t at = reverse ? size - 1 - k : k;
    Value* here = n.slice(x, along, at, at + 1);
    Value* before = so_far ? so_far : n.add(n.mul(here, n.one(x->type.dtype, 0)), n.one(x->type.dtype, 1));
    so_far = so_far ? n.mul(so_far, here) : here;
    parts[static_cast<size_t>(at)] = exclusive ? before : so_far;
  }
  n.out(n.concat(parts, along));
}

void top_k(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.node.integer("axis", -1), x->type.rank());
  const int64_t k = n.node.version < 10 ? n.node.integer("k", 1) : n.ints(1).at(0);
  const bool largest = n.node.integer("largest", 1) != 0;
  const std::vector<Value*> both =
      n.ops("topk", {{"x", x}, {"k", n.i(k)}, {"axis", n.i(along)}, {"ascending", n.flag(!largest)}});
  n.out(0, both[0], n.type(0));
  n.out(1, both[1], OnnxType::int64);
}

const OnnxOp kOps[] = {
    {"ReduceMax", reduce_max},
    {"ReduceMin", reduce_min},
    {"ReduceMean", reduce_mean},
    {"ReduceProd", reduce_prod},
    {"ReduceSum", reduce_sum},
    {"ReduceL1", reduce_l1},
    {"ReduceL2", reduce_l2},
    {"ReduceLogSum", reduce_log_sum},
    {"ReduceLogSumExp", reduce_log_sum_exp},
    {"ReduceSumSquare", reduce_sum_square},
    {"ArgMax", arg_max},
    {"ArgMin", arg_min},
    {"CumSum", cum_sum},
    {"CumProd", cum_prod},
    {"TopK", top_k},
};

}  // namespace

std::span<const OnnxOp> onnx_reduce() { return kOps; }

}  // namespace anemone::onnx_ops
