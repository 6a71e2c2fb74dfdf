// Order along an axis: the largest or smallest elements and where they were.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/shape.h"
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// The lines along an axis: element i of line (outer, inner) is at (outer * size + i) * inner_count + inner.
struct Lines {
  int64_t outer = 1, size = 1, inner = 1;
};

Lines lines_along(const std::vector<int64_t>& dims, int axis) {
  const auto a = static_cast<size_t>(axis);
  return {element_count(std::span(dims).first(a)), dims[a], element_count(std::span(dims).subspan(a + 1))};
}

bool is_nan(float x) { return std::isnan(x); }
bool is_nan(int32_t) { return false; }

// For each line the places of its first k elements in order. Equal elements keep their order; NaN comes last.
template <class T, class F>
void order_lines(const OpCall& c, const Lines& l, int64_t k, bool ascending, F f) {
  if (l.size > INT32_MAX) throw errorf("{} elements cannot be numbered in 32 bits", l.size);
  const T* x = static_cast<const T*>(c.data("x"));
  const int64_t grain = std::max<int64_t>(1, kMapGrain / std::max<int64_t>(1, l.size));
  c.pool().parallel_for(l.outer * l.inner, grain, [&](int64_t begin, int64_t end) {
    std::vector<T> line(static_cast<size_t>(l.size));
    std::vector<int32_t> order(line.size());
    const auto before = [&](int32_t a, int32_t b) {
      const T va = line[static_cast<size_t>(a)], vb = line[static_cast<size_t>(b)];
      if (is_nan(va) || is_nan(vb)) return is_nan(va) == is_nan(vb) ? a < b : is_nan(vb);
      if (va == vb) return a < b;
      return ascending ? va < vb : va > vb;
    };
    for (int64_t r = begin; r < end; ++r) {
      const int64_t outer = r / l.inner, inner = r % l.inner;
      for (int64_t i = 0; i < l.size; ++i)
        line[static_cast<size_t>(i)] = x[(outer * l.size + i) * l.inner + inner];
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
      for (int64_t i = 0; i < k; ++i) {
        const int32_t at = order[static_cast<size_t>(i)];
        f((outer * k + i) * l.inner + inner, at, line[static_cast<size_t>(at)]);
      }
    }
  });
}

Types infer_argsort(const OpCall& c) {
  normal_axis(c.integer("axis"), c.type("x").rank(), "axis");
  return {Type::tensor(DType::int32, c.type("x").shape)};
}

void run_argsort(const OpCall& c) {
  const Type& x = c.type("x");
  const Lines l = lines_along(x.dims(), normal_axis(c.integer("axis"), x.rank(), "axis"));
  int32_t* out = c.out_ints();
  const auto write = [out](int64_t to, int32_t at, auto) { out[to] = at; };
  if (x.is_float())
    order_lines<float>(c, l, l.size, c.flag("ascending"), write);
  else
    order_lines<int32_t>(c, l, l.size, c.flag("ascending"), write);
}

bool wants_indices(const OpCall& c) { return c.since() < Opset::ios16 || c.flag("return_indices"); }

DType indices_dtype(const OpCall& c) {
  if (c.since() < Opset::ios17) return DType::int32;
  const std::string_view name = c.text("output_indices_dtype");
  if (name == "int32") return DType::int32;
  if (name == "uint16") return DType::uint16;
  throw errorf("unknown output_indices_dtype '{}'", name).expected("int32 or uint16");
}

Types infer_topk(const OpCall& c) {
  const Type& x = c.type("x");
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  const int64_t k = c.integer("k");
  const Dim size = x.dim(axis);
  if (k < -1 || (size.known() && k > size.size()))
    throw errorf("'k' is outside dimension {} of size {}", axis, size.text()).found(fmt::format("{}", k));
  Type values = x;
  if (k >= 0) values.shape[static_cast<size_t>(axis)] = k;  // -1: all
  if (!wants_indices(c)) return {values};
  return {values, Type::tensor(indices_dtype(c), values.shape)};
}

template <class T>
void run_topk_of(const OpCall& c) {
  const Type& x = c.type("x");
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  const Lines l = lines_along(x.dims(), axis);
  T* values = static_cast<T*>(c.out(0));
  int32_t* indices = wants_indices(c) ? c.out_ints(1) : nullptr;
  order_lines<T>(c, l, c.out_type().dim(axis).size(), c.flag("ascending"),
                 [=](int64_t to, int32_t at, T value) {
                   values[to] = value;
                   if (indices) indices[to] = at;
                 });
}

// The elements come in order whatever `sort` says: without it any order is allowed.
void run_topk(const OpCall& c) {
  if (c.type("x").is_float())
    run_topk_of<float>(c);
  else
    run_topk_of<int32_t>(c);
}

std::vector<Param> topk_params(Opset since) {
  const bool wide = since >= Opset::ios17;
  std::vector<Param> out = {{"x", wide ? kWide : kNumber, 'T'},
                            {"k", wide ? kInt32 | only(DType::int8) | only(DType::int16) : kInt32, 'K',
                             kOptional | kConst, int64_t{1}},
                            {"axis", kInt32, 0, kOptional | kConst, int64_t{-1}},
                            {"ascending", kBool, 0, kOptional | kConst, false}};
  if (since >= Opset::ios16) {
    out.push_back({"sort", kBool, 0, kOptional | kConst, true});
    out.push_back({"return_indices", kBool, 0, kOptional | kConst, true});
  }
  if (wide) out.push_back({"output_indices_dtype", kString, 0, kOptional | kConst, "int32"});
  return out;
}

const Op kOps[] = {
    {"argsort",
     {{Opset::ios15,
       {{"x", kNumber, 'T'},
        {"axis", kInt32, 0, kOptional | kConst, int64_t{-1}},
        {"ascending", kBool, 0, kOptional | kConst, false}}}},
     "where the elements of x would go if sorted along an axis, the largest first unless ascending",
     infer_argsort,
     run_argsort},
    {"topk",
     {{Opset::ios15, topk_params(Opset::ios15)},
      {Opset::ios16, topk_params(Opset::ios16)},
      {Opset::ios17, topk_params(Opset::ios17)}},
     "the k largest elements along an axis (the smallest, if ascending) and their indices",
     infer_topk,
     run_topk},
};

}  // namespace

std::span<const Op> ops_sort() { return kOps; }

}  // namespace anemone::ops
