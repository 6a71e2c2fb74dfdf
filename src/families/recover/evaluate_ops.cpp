// Elementwise operators, reductions, products: each does what ONNX says, in double.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/shape.h"
#include "families/recover/evaluate.h"

namespace anemone::recover {
namespace {

using Arrays = std::vector<Array>;

template <class F>
Arrays unary(const Call& c, F f) {
  Array out = c.at(0);
  for (double& v : out.data) v = f(v);
  return {std::move(out)};
}

template <class F>
Arrays binary(const Call& c, F f, bool truth = false) {
  const Array &a = c.at(0), &b = c.at(1);
  const std::vector<int64_t> dims = broadcast_dims(a.dims, b.dims);
  Array out = broadcast(a, dims);
  const Array other = broadcast(b, dims);
  out.whole = truth || (a.whole && b.whole);
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = f(out.data[i], other.data[i]);
  return {std::move(out)};
}

template <class F>
Arrays variadic(const Call& c, F f) {
  Array out = c.at(0);
  for (size_t i = 1; i < c.in.size(); ++i) {
    const std::vector<int64_t> dims = broadcast_dims(out.dims, c.at(i).dims);
    out = broadcast(out, dims);
    const Array other = broadcast(c.at(i), dims);
    for (size_t k = 0; k < out.data.size(); ++k) out.data[k] = f(out.data[k], other.data[k]);
  }
  return {std::move(out)};
}

Arrays divide(const Call& c) {
  const bool whole = c.at(0).whole && c.at(1).whole;
  if (whole && std::count(c.at(1).data.begin(), c.at(1).data.end(), 0.0) > 0) throw Error("divides by zero");
  return binary(c, [whole](double a, double b) { return whole ? std::trunc(a / b) : a / b; });
}

Arrays modulo(const Call& c) {
  const bool like_c = c.op.node->integer("fmod", 0) != 0;
  return binary(
      c, [like_c](double a, double b) { return like_c ? std::fmod(a, b) : a - std::floor(a / b) * b; });
}

Arrays where(const Call& c) {
  const std::vector<int64_t> dims = broadcast_dims(broadcast_dims(c.at(0).dims, c.at(1).dims), c.at(2).dims);
  const Array condition = broadcast(c.at(0), dims), otherwise = broadcast(c.at(2), dims);
  Array out = broadcast(c.at(1), dims);
  out.whole = c.at(1).whole && c.at(2).whole;
  for (size_t i = 0; i < out.data.size(); ++i)
    if (condition.data[i] == 0) out.data[i] = otherwise.data[i];
  return {std::move(out)};
}

Arrays cast(const Call& c) {
  const OnnxTypeInfo& to = onnx_type_info(onnx_type_from_code(c.op.node->integer("to", 1)));
  Array out = c.at(0);
  out.whole = to.integer;
  for (double& v : out.data) {
    if (to.type == OnnxType::boolean) v = v != 0;
    if (to.integer && to.type != OnnxType::boolean) v = std::trunc(v);
    if (to.type == OnnxType::float32) v = static_cast<double>(static_cast<float>(v));
  }
  return {std::move(out)};
}

Arrays clip(const Call& c) {
  const OnnxNode& node = *c.op.node;
  const double least = c.find(1) ? c.at(1).data.at(0) : node.number("min", -INFINITY);
  const double most = c.find(2) ? c.at(2).data.at(0) : node.number("max", INFINITY);
  return unary(c, [=](double v) { return std::min(std::max(v, least), most); });
}

// Every axis of a reduction, from the input or the attribute.
std::vector<bool> reduced_axes(const Call& c, size_t rank) {
  std::vector<int64_t> axes = c.op.node->integers("axes");
  if (axes.empty() && c.find(1)) axes = integers_of(c.at(1));
  std::vector<bool> out(rank, axes.empty() && c.op.node->integer("noop_with_empty_axes", 0) == 0);
  for (const int64_t axis : axes) out[static_cast<size_t>(wrapped(axis, static_cast<int64_t>(rank)))] = true;
  return out;
}

template <class F>
Arrays reduce(const Call& c, double start, F f, bool mean = false) {
  const Array& x = c.at(0);
  const std::vector<bool> gone = reduced_axes(c, x.dims.size());
  const bool keep = c.op.node->integer("keepdims", 1) != 0;
  std::vector<int64_t> dims, strides(x.dims.size(), 0);
  int64_t results = 1, each = 1;
  for (size_t d = x.dims.size(); d-- > 0;) {
    if (gone[d]) {
      each *= x.dims[d];
    } else {
      strides[d] = results;
      results *= x.dims[d];
    }
  }
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (!gone[d] || keep) dims.push_back(gone[d] ? 1 : x.dims[d]);
  Array out = Array::filled(std::move(dims), start, x.whole);
  size_t at = 0;
  for_each_offset(x.dims, strides, [&](int64_t to) {
    double& sum = out.data[static_cast<size_t>(to)];
    sum = f(sum, x.data[at++]);
  });
  if (mean)
    for (double& v : out.data) v /= static_cast<double>(std::max<int64_t>(1, each));
  return {std::move(out)};
}

Arrays softmax(const Call& c) {
  Array out = c.at(0);
  const auto rank = static_cast<int64_t>(out.dims.size());
  if (rank == 0 || wrapped(c.op.node->integer("axis", -1), rank) != rank - 1)
    throw Error("a softmax over another axis than the last");
  const auto width = static_cast<size_t>(out.dims.back());
  for (size_t row = 0; width > 0 && row < out.data.size(); row += width) {
    double* v = out.data.data() + row;
    const double most = *std::max_element(v, v + width);
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += v[i] = std::exp(v[i] - most);
    for (size_t i = 0; i < width; ++i) v[i] /= sum;
  }
  return {std::move(out)};
}

Arrays matmul(const Call& c) {
  Array a = c.at(0), b = c.at(1);
  if (a.dims.size() < 2 || b.dims.size() < 2) throw Error("a product of vectors");
  const int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  if (b.dims[b.dims.size() - 2] != k)
    throw errorf("matrices that do not fit").found(shape_text(a.dims) + " and " + shape_text(b.dims));
  const std::vector<int64_t> batch =
      broadcast_dims({a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2});
  std::vector<int64_t> dims = batch, da = batch, db = batch;
  dims.insert(dims.end(), {m, n});
  da.insert(da.end(), {m, k});
  db.insert(db.end(), {k, n});
  a = broadcast(a, da);
  b = broadcast(b, db);
  Array out = Array::filled(std::move(dims), 0);
  const int64_t count = element_count(batch);
  if (count * m * n > kMostElements || (k > 0 && count * m * n > (int64_t{1} << 32) / k))
    throw Error("a product that is too large to be looked at");
  for (int64_t g = 0; g < count; ++g)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = 0; p < k; ++p) {
        const double x = a.data[static_cast<size_t>((g * m + i) * k + p)];
        for (int64_t j = 0; j < n; ++j)
          out.data[static_cast<size_t>((g * m + i) * n + j)] +=
              x * b.data[static_cast<size_t>((g * k + p) * n + j)];
      }
  return {std::move(out)};
}

double gelu(double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }
double gelu_tanh(double v) {
  return 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
}

using OpTable = std::map<std::string_view, Compute>;

OpTable unary_table() {
  return {
      {"Neg", [](const Call& c) { return unary(c, [](double v) { return -v; }); }},
      {"Abs", [](const Call& c) { return unary(c, [](double v) { return std::abs(v); }); }},
      {"Sqrt", [](const Call& c) { return unary(c, [](double v) { return std::sqrt(v); }); }},
      {"Exp", [](const Call& c) { return unary(c, [](double v) { return std::exp(v); }); }},
      {"Log", [](const Call& c) { return unary(c, [](double v) { return std::log(v); }); }},
      {"Reciprocal", [](const Call& c) { return unary(c, [](double v) { return 1 / v; }); }},
      {"Sin", [](const Call& c) { return unary(c, [](double v) { return std::sin(v); }); }},
      {"Cos", [](const Call& c) { return unary(c, [](double v) { return std::cos(v); }); }},
      {"Tanh", [](const Call& c) { return unary(c, [](double v) { return std::tanh(v); }); }},
      {"Erf", [](const Call& c) { return unary(c, [](double v) { return std::erf(v); }); }},
      {"Floor", [](const Call& c) { return unary(c, [](double v) { return std::floor(v); }); }},
      {"Ceil", [](const Call& c) { return unary(c, [](double v) { return std::ceil(v); }); }},
      {"Not", [](const Call& c) { return unary(c, [](double v) { return v == 0 ? 1.0 : 0.0; }); }},
      {"IsNaN", [](const Call& c) { return unary(c, [](double v) { return std::isnan(v) ? 1.0 : 0.0; }); }},
      {"IsInf", [](const Call& c) { return unary(c, [](double v) { return std::isinf(v) ? 1.0 : 0.0; }); }},
      {"Sigmoid", [](const Call& c) { return unary(c, [](double v) { return 1 / (1 + std::exp(-v)); }); }},
      {"ms.FastGelu", [](const Call& c) { return unary(c, gelu_tanh); }},
      {"ms.BiasGelu", [](const Call& c) { return unary(c, gelu); }},
      {"ms.Gelu", [](const Call& c) { return unary(c, gelu); }},
      {"Gelu",
       [](const Call& c) {
         return unary(c, c.op.node->text("approximate", "none") == "tanh" ? gelu_tanh : gelu);
       }},
      {"ms.QuickGelu",
       [](const Call& c) {
         const double a = c.op.node->number("alpha", 1.702f);
         return unary(c, [a](double v) { return v / (1 + std::exp(-a * v)); });
       }},
      {"Swish",
       [](const Call& c) {
         const double a = c.op.node->number("alpha", 1);
         return unary(c, [a](double v) { return v / (1 + std::exp(-a * v)); });
       }},
      {"Identity", [](const Call& c) { return Arrays{c.at(0)}; }},
      {"Dropout", [](const Call& c) { return Arrays{c.at(0)}; }},
      {"CastLike", [](const Call& c) { return Arrays{{c.at(0).dims, c.at(0).data, c.at(1).whole}}; }},
  };
}

OpTable binary_table() {
  return {
      {"Add", [](const Call& c) { return binary(c, [](double a, double b) { return a + b; }); }},
      {"Sub", [](const Call& c) { return binary(c, [](double a, double b) { return a - b; }); }},
      {"Mul", [](const Call& c) { return binary(c, [](double a, double b) { return a * b; }); }},
      {"Pow", [](const Call& c) { return binary(c, [](double a, double b) { return std::pow(a, b); }); }},
      {"Equal",
       [](const Call& c) { return binary(c, [](double a, double b) { return double(a == b); }, true); }},
      {"Less",
       [](const Call& c) { return binary(c, [](double a, double b) { return double(a < b); }, true); }},
      {"Greater",
       [](const Call& c) { return binary(c, [](double a, double b) { return double(a > b); }, true); }},
      {"LessOrEqual",
       [](const Call& c) { return binary(c, [](double a, double b) { return double(a <= b); }, true); }},
      {"GreaterOrEqual",
       [](const Call& c) { return binary(c, [](double a, double b) { return double(a >= b); }, true); }},
      {"And",
       [](const Call& c) {
         return binary(c, [](double a, double b) { return double(a != 0 && b != 0); }, true);
       }},
      {"Or",
       [](const Call& c) {
         return binary(c, [](double a, double b) { return double(a != 0 || b != 0); }, true);
       }},
      {"Xor",
       [](const Call& c) {
         return binary(c, [](double a, double b) { return double((a != 0) != (b != 0)); }, true);
       }},
      {"Max", [](const Call& c) { return variadic(c, [](double a, double b) { return std::max(a, b); }); }},
      {"Min", [](const Call& c) { return variadic(c, [](double a, double b) { return std::min(a, b); }); }},
      {"Div", divide},
      {"Mod", modulo},
      {"Where", where},
      {"Cast", cast},
      {"Clip", clip},
      {"Softmax", softmax},
      {"MatMul", matmul},
      {"ReduceSum", [](const Call& c) { return reduce(c, 0, [](double a, double b) { return a + b; }); }},
      {"ReduceMean",
       [](const Call& c) { return reduce(c, 0, [](double a, double b) { return a + b; }, true); }},
      {"ReduceMax",
       [](const Call& c) { return reduce(c, -INFINITY, [](double a, double b) { return std::max(a, b); }); }},
      {"ReduceMin",
       [](const Call& c) { return reduce(c, INFINITY, [](double a, double b) { return std::min(a, b); }); }},
      {"ReduceProd", [](const Call& c) { return reduce(c, 1, [](double a, double b) { return a * b; }); }},
  };
}

}  // namespace

const Array& Call::at(size_t i) const {
  if (i >= in.size() || !in[i]) throw errorf("input {} is left out", i);
  return *in[i];
}

std::vector<int64_t> broadcast_dims(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw errorf("shapes that do not fit").found(shape_text(a) + " and " + shape_text(b));
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Array broadcast(const Array& array, const std::vector<int64_t>& dims) {
  if (array.dims == dims) return array;
  Array out = Array::filled(dims, 0, array.whole);
  std::vector<int64_t> strides(dims.size(), 0);
  int64_t step = 1;
  for (size_t i = 0; i < array.dims.size(); ++i) {
    const size_t from = array.dims.size() - 1 - i, to = dims.size() - 1 - i;
    if (array.dims[from] != 1) strides[to] = step;
    step *= array.dims[from];
  }
  size_t at = 0;
  for_each_offset(dims, strides,
                  [&](int64_t from) { out.data[at++] = array.data[static_cast<size_t>(from)]; });
  return out;
}

Compute find_compute(std::string_view type) {
  static const OpTable one = unary_table(), two = binary_table();
  if (const auto at = one.find(type); at != one.end()) return at->second;
  if (const auto at = two.find(type); at != two.end()) return at->second;
  if (const Compute found = find_layout_compute(type)) return found;
  return find_block_compute(type);
}

}  // namespace anemone::recover
