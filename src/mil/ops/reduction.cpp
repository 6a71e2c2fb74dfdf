// Reductions over axes: sums, products, norms, extremes and their places.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "mil/reduce.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Type reduced(const Type& x, DType dtype, std::span<const int> axes, bool keep) {
  Shape out;
  size_t next = 0;
  for (int i = 0; i < x.rank(); ++i) {
    const bool drop = next < axes.size() && axes[next] == i;
    if (drop) ++next;
    if (!drop) out.push_back(x.dim(i));
    if (drop && keep) out.push_back(1);
  }
  return Type::tensor(dtype, out);
}

Types infer(const OpCall& c) {
  const Type& x = c.type("x");
  return {reduced(x, x.dtype, axes_or_all(c), c.flag("keep_dims"))};
}

// Integer sums wrap around.
int32_t wrap(int64_t value) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(value)));
}

// How a fractional result of a reduction of integers is converted: toward zero, within the range, 0 for NaN.
int32_t to_int(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(INT32_MIN)) return INT32_MIN;
  if (value >= static_cast<double>(INT32_MAX)) return INT32_MAX;
  return static_cast<int32_t>(value);
}

Reduction reduction_of(const OpCall& c) { return Reduction(c.type("x").dims(), axes_or_all(c)); }

// A sum of `term` over the elements, in double or in wrapping integers, then `finish` of it.
template <class Term, class Finish>
void run_sum(const OpCall& c, Term term, Finish finish) {
  const Reduction reduction = reduction_of(c);
  const auto n = static_cast<double>(reduction.count());
  const auto add = [=](double sum, auto x, int64_t) { return sum + term(static_cast<double>(x)); };
  if (c.type("x").is_float())
    reduction.reduce(c.pool(), c.floats("x"), c.out_floats(), 0.0, add,
                     [=](double sum) { return static_cast<float>(finish(sum, n)); });
  else
    reduction.reduce(c.pool(), c.ints("x"), c.out_ints(), 0.0, add,
                     [=](double sum) { return to_int(finish(sum, n)); });
}

// The same where integers stay integers.
template <class Term>
void run_whole_sum(const OpCall& c, Term term) {
  if (c.type("x").is_float()) return run_sum(c, term, [](double sum, double) { return sum; });
  reduction_of(c).reduce(
      c.pool(), c.ints("x"), c.out_ints(), uint64_t{0},
      [=](uint64_t sum, int32_t x, int64_t) { return sum + static_cast<uint64_t>(term(int64_t{x})); },
      [](uint64_t sum) { return wrap(static_cast<int64_t>(sum)); });
}

void run_prod(const OpCall& c) {
  if (c.type("x").is_float())
    return reduction_of(c).reduce(
        c.pool(), c.floats("x"), c.out_floats(), 1.0,
        [](double product, float x, int64_t) { return product * static_cast<double>(x); },
        [](double product) { return static_cast<float>(product); });
  reduction_of(c).reduce(
      c.pool(), c.ints("x"), c.out_ints(), uint32_t{1},
      [](uint32_t product, int32_t x, int64_t) { return product * static_cast<uint32_t>(x); },
      [](uint32_t product) { return static_cast<int32_t>(product); });
}

// better(x, best): x replaces best. A NaN stays once it is found.
template <class Better>
void run_extreme(const OpCall& c, float worst, int32_t worst_int, Better better) {
  const auto keep = [](auto x) { return x; };
  if (c.type("x").is_float())
    return reduction_of(c).reduce(
        c.pool(), c.floats("x"), c.out_floats(), worst,
        [=](float best, float x, int64_t) { return better(x, best) || std::isnan(x) ? x : best; }, keep);
  reduction_of(c).reduce(
      c.pool(), c.ints("x"), c.out_ints(), worst_int,
      [=](int32_t best, int32_t x, int64_t) { return better(x, best) ? x : best; }, keep);
}

// log(sum of e^x) in one pass: the sum is kept relative to the largest element so far.
struct LogSum {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
};

LogSum add_exp(LogSum a, double x) {
  if (x == a.largest && std::isinf(x)) return x < 0 ? a : LogSum{x, a.sum + 1};
  if (x > a.largest) return {x, a.sum * std::exp(a.largest - x) + 1};
  return {a.largest, a.sum + std::exp(x - a.largest)};
}

void run_log_sum_exp(const OpCall& c) {
  const auto add = [](const LogSum& a, auto x, int64_t) { return add_exp(a, static_cast<double>(x)); };
  const auto value = [](const LogSum& a) { return a.largest + std::log(a.sum); };
  if (c.type("x").is_float())
    reduction_of(c).reduce(c.pool(), c.floats("x"), c.out_floats(), LogSum{}, add,
                           [=](const LogSum& a) { return static_cast<float>(value(a)); });
  else
    reduction_of(c).reduce(c.pool(), c.ints("x"), c.out_ints(), LogSum{}, add,
                           [=](const LogSum& a) { return to_int(value(a)); });
}

Types infer_arg(const OpCall& c) {
  const Type& x = c.type("x");
  const int axis[] = {normal_axis(c.integer("axis"), x.rank(), "axis")};
  if (x.dim(axis[0]) == Dim(0)) throw errorf("an axis without elements has no largest or smallest one");
  const std::string_view dtype = c.since() >= Opset::ios17 ? c.text("output_dtype") : "int32";
  if (dtype != "int32" && dtype != "uint16")
    throw errorf("'output_dtype' cannot be '{}'", dtype).expected("int32 or uint16");
  return {reduced(x, dtype_from_name(dtype), axis, c.flag("keep_dims"))};
}

template <class T>
struct Best {
  T value;
  int32_t index;  // -1 before the first element
};

// The first of equal elements wins; the first NaN wins over all.
template <class T, class Better>
void run_arg_of(const OpCall& c, const T* x, Better better) {
  const int axis[] = {normal_axis(c.integer("axis"), c.type("x").rank(), "axis")};
  Reduction(c.type("x").dims(), axis)
      .reduce(
          c.pool(), x, c.out_ints(), Best<T>{T{}, -1},
          [=](const Best<T>& best, T value, int64_t index) {
            const bool first_nan = value != value && best.value == best.value;
            const bool take = best.index < 0 || better(value, best.value) || first_nan;
            return take ? Best<T>{value, static_cast<int32_t>(index)} : best;
          },
          [](const Best<T>& best) { return best.index; });
}

template <class Better>
void run_arg(const OpCall& c, Better better) {
  if (c.type("x").is_float())
    run_arg_of(c, c.floats("x"), better);
  else
    run_arg_of(c, c.ints("x"), better);
}

const std::vector<OpVersion> kAxes = {{Opset::ios15,
                                       {{"x", kNumber, 'T'},
                                        {"axes", kInt32, 0, kOptional | kConst},
                                        {"keep_dims", kBool, 0, kOptional | kConst, false}}}};
const std::vector<OpVersion> kArg = {{Opset::ios15,
                                      {{"x", kNumber, 'T'},
                                       {"axis", kInt32, 0, kOptional | kConst, int64_t{-1}},
                                       {"keep_dims", kBool, 0, kOptional | kConst, false}}},
                                     {Opset::ios17,
                                      {{"x", kNumber, 'T'},
                                       {"axis", kInt32, 0, kOptional | kConst, int64_t{-1}},
                                       {"keep_dims", kBool, 0, kOptional | kConst, false},
                                       {"output_dtype", kString, 0, kOptional | kConst, "int32"}}}};

constexpr float kInf = std::numeric_limits<float>::infinity();

const Op kOps[] = {
    {"reduce_argmax", kArg, "the place of the largest element along the axis", infer_arg,
     [](const OpCall& c) { run_arg(c, [](auto x, auto best) { return x > best; }); }},
    {"reduce_argmin", kArg, "the place of the smallest element along the axis", infer_arg,
     [](const OpCall& c) { run_arg(c, [](auto x, auto best) { return x < best; }); }},
    {"reduce_l1_norm", kAxes, "the sum of |x|", infer,
     [](const OpCall& c) { run_whole_sum(c, [](auto x) { return x < 0 ? -x : x; }); }},
    {"reduce_l2_norm", kAxes, "the square root of the sum of x^2", infer,
     [](const OpCall& c) {
       run_sum(c, [](double x) { return x * x; }, [](double sum, double) { return std::sqrt(sum); });
     }},
    {"reduce_log_sum", kAxes, "the logarithm of the sum", infer,
     [](const OpCall& c) {
       run_sum(c, [](double x) { return x; }, [](double sum, double) { return std::log(sum); });
     }},
    {"reduce_log_sum_exp", kAxes, "the logarithm of the sum of e^x", infer, run_log_sum_exp},
    {"reduce_max", kAxes, "the largest element", infer,
     [](const OpCall& c) { run_extreme(c, -kInf, INT32_MIN, [](auto x, auto best) { return x > best; }); }},
    {"reduce_mean", kAxes, "the mean", infer,
     [](const OpCall& c) {
       run_sum(c, [](double x) { return x; }, [](double sum, double n) { return sum / n; });
     }},
    {"reduce_min", kAxes, "the smallest element", infer,
     [](const OpCall& c) { run_extreme(c, kInf, INT32_MAX, [](auto x, auto best) { return x < best; }); }},
    {"reduce_prod", kAxes, "the product", infer, run_prod},
    {"reduce_sum", kAxes, "the sum", infer,
     [](const OpCall& c) { run_whole_sum(c, [](auto x) { return x; }); }},
    {"reduce_sum_square", kAxes, "the sum of x^2", infer,
     [](const OpCall& c) { run_whole_sum(c, [](auto x) { return x * x; }); }},
};

}  // namespace

std::span<const Op> ops_reduction() { return kOps; }

}  // namespace anemone::ops
