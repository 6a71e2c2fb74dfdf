// Over axes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "onnx/interpret/context.h"

namespace anemone::interpret {

std::vector<int64_t> reduced_axes(const Context& c, size_t input) {
  std::vector<int64_t> axes = c.has(input) ? c.ints(input) : c.node.integers("axes");
  if (axes.empty() && c.node.integer("noop_with_empty_axes", 0) == 0) {
    axes.resize(c[0].dims.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& a : axes) a = at_axis(a, c[0].rank());
  return axes;
}

namespace {

struct Sum {
  double start;
  double (*add)(double, double);
  double (*end)(double, double);  // the result, from the sum and the number of elements
};

Arrays reduced(const Context& c, const Sum& s) {
  const std::vector<int64_t> axes = reduced_axes(c, 1);
  const bool keep = c.node.integer("keepdims", 1) != 0;
  std::vector<int64_t> kept = c[0].dims, dims;
  double count = 1;
  for (const int64_t a : axes) {
    count *= static_cast<double>(kept[static_cast<size_t>(a)]);
    kept[static_cast<size_t>(a)] = 1;
  }
  for (size_t d = 0; d < kept.size(); ++d)
    if (keep || std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end())
      dims.push_back(kept[d]);
  OnnxArray y = made(c[0].type, kept);
  std::fill(y.data.begin(), y.data.end(), s.start);
  size_t k = 0;
  each_place(c[0].dims, [&](const std::vector<int64_t>& at) {
    double& v = y.data[static_cast<size_t>(broadcast_at(at, kept))];
    v = s.add(v, c[0].data[k++]);
  });
  for (double& v : y.data) v = s.end(v, count);
  y.dims = dims;
  return {y};
}

constexpr double kInf = std::numeric_limits<double>::infinity();
double plus(double a, double b) { return a + b; }
double same(double a, double) { return a; }

Arrays sum(const Context& c) { return reduced(c, {0, plus, same}); }
Arrays mean(const Context& c) {
  return reduced(c, {0, plus, [](double a, double n) { return a / n; }});
}
// Nothing at all has the least number of its type, or the largest.
Arrays most(const Context& c) {
  const double low = c[0].type == OnnxType::boolean ? 0 : -kInf;
  return reduced(c, {low, [](double a, double b) { return std::max(a, b); }, same});
}
Arrays least(const Context& c) {
  const double high = c[0].type == OnnxType::boolean ? 1 : kInf;
  return reduced(c, {high, [](double a, double b) { return std::min(a, b); }, same});
}
Arrays product(const Context& c) {
  return reduced(c, {1, [](double a, double b) { return a * b; }, same});
}
Arrays l1(const Context& c) {
  return reduced(c, {0, [](double a, double b) { return a + std::fabs(b); }, same});
}
Arrays l2(const Context& c) {
  return reduced(
      c, {0, [](double a, double b) { return a + b * b; }, [](double a, double) { return std::sqrt(a); }});
}
Arrays squares(const Context& c) {
  return reduced(c, {0, [](double a, double b) { return a + b * b; }, same});
}
Arrays log_sum(const Context& c) {
  return reduced(c, {0, plus, [](double a, double) { return std::log(a); }});
}
Arrays log_sum_exp(const Context& c) {
  return reduced(c, {0, [](double a, double b) { return a + std::exp(b); },
                     [](double a, double) { return std::log(a); }});
}

// f(row, stride, count) for every line along an axis; `row` points at its first element.
template <class F>
void each_line(const OnnxArray& x, size_t axis, F f) {
  const int64_t n = x.dims[axis], stride = strides_of(x.dims)[axis];
  for (int64_t start = 0; start < x.size(); ++start)
    if (start / stride % n == 0) f(start, stride, n);
}

}  // namespace

OnnxArray softmax_of(const OnnxArray& x, size_t axis, bool logarithms) {
  OnnxArray y = x;
  each_line(x, axis, [&](int64_t at, int64_t stride, int64_t n) {
    double best = -kInf, all = 0;
    for (int64_t k = 0; k < n; ++k) best = std::max(best, x.data[static_cast<size_t>(at + k * stride)]);
    for (int64_t k = 0; k < n; ++k) all += std::exp(x.data[static_cast<size_t>(at + k * stride)] - best);
    for (int64_t k = 0; k < n; ++k) {
      const double v = x.data[static_cast<size_t>(at + k * stride)] - best;
      y.data[static_cast<size_t>(at + k * stride)] = logarithms ? v - std::log(all) : std::exp(v) / all;
    }
  });
  return y;
}

namespace {

Arrays arg(const Context& c, bool largest) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", 0), c[0].rank()));
  const bool keep = c.node.integer("keepdims", 1) != 0, last = c.node.integer("select_last_index", 0) != 0;
  std::vector<int64_t> dims = c[0].dims;
  dims[axis] = 1;
  OnnxArray y = made(OnnxType::int64, dims);
  size_t k = 0;
  each_line(c[0], axis, [&](int64_t at, int64_t stride, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) {
      const double a = c[0].data[static_cast<size_t>(at + i * stride)],
                   b = c[0].data[static_cast<size_t>(at + best * stride)];
      if ((largest ? a > b : a < b) || (last && a == b)) best = i;
    }
    y.data[k++] = static_cast<double>(best);
  });
  if (!keep) y.dims.erase(y.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return {y};
}

Arrays arg_max(const Context& c) { return arg(c, true); }
Arrays arg_min(const Context& c) { return arg(c, false); }

Arrays cumulative(const Context& c, double start, double (*join)(double, double)) {
  const auto axis = static_cast<size_t>(at_axis(c.ints(1).at(0), c[0].rank()));
  const bool exclusive = c.node.integer("exclusive", 0) != 0, reverse = c.node.integer("reverse", 0) != 0;
  OnnxArray y = c[0];
  each_line(c[0], axis, [&](int64_t at, int64_t stride, int64_t n) {
    double so_far = start;
    for (int64_t k = 0; k < n; ++k) {
      const auto place = static_cast<size_t>(at + (reverse ? n - 1 - k : k) * stride);
      const double next = join(so_far, c[0].data[place]);
      y.data[place] = exclusive ? so_far : next;
      so_far = next;
    }
  });
  return {y};
}

Arrays cum_sum(const Context& c) { return cumulative(c, 0, plus); }
Arrays cum_prod(const Context& c) {
  return cumulative(c, 1, [](double a, double b) { return a * b; });
}

Arrays top_k(const Context& c) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", -1), c[0].rank()));
  const int64_t count = c.node.version < 10 ? c.node.integer("k", 1) : c.ints(1).at(0);
  const bool largest = c.node.integer("largest", 1) != 0;
  std::vector<int64_t> dims = c[0].dims;
  dims[axis] = count;
  OnnxArray values = made(c[0].type, dims), places = made(OnnxType::int64, dims);
  const int64_t inner = strides_of(c[0].dims)[axis];
  each_line(c[0], axis, [&](int64_t at, int64_t stride, int64_t n) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](int64_t i) { return c[0].data[static_cast<size_t>(at + i * stride)]; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return largest ? value(a) > value(b) : value(a) < value(b);
    });
    const int64_t line = at / (inner * n) * inner * count + at % inner;
    for (int64_t k = 0; k < count; ++k) {
      values.data[static_cast<size_t>(line + k * inner)] = value(order[static_cast<size_t>(k)]);
      places.data[static_cast<size_t>(line + k * inner)] = static_cast<double>(order[static_cast<size_t>(k)]);
    }
  });
  return {values, places};
}

// The input of a softmax and its axis. Before opset 13 all dimensions from the axis on are one.
struct Lines {
  OnnxArray x;
  size_t axis;
};

Lines lines_of(const Context& c) {
  const bool old = c.node.version < 13;
  Lines out{c[0], static_cast<size_t>(at_axis(c.node.integer("axis", old ? 1 : -1), c[0].rank()))};
  if (!old) return out;
  int64_t rows = 1;
  for (size_t d = 0; d < out.axis; ++d) rows *= c[0].dims[d];
  out.x.dims = {rows, c[0].size() / std::max<int64_t>(1, rows)};
  out.axis = 1;
  return out;
}

Arrays soft(const Context& c, bool logs) {
  const Lines lines = lines_of(c);
  OnnxArray y = softmax_of(lines.x, lines.axis, logs);
  y.dims = c[0].dims;
  return {y};
}

// 1 at the first of the largest elements of each line.
Arrays hardmax(const Context& c) {
  const Lines lines = lines_of(c);
  OnnxArray y = made(c[0].type, c[0].dims);
  each_line(lines.x, lines.axis, [&](int64_t at, int64_t stride, int64_t n) {
    int64_t best = at;
    for (int64_t k = 1; k < n; ++k)
      if (c[0].data[static_cast<size_t>(at + k * stride)] > c[0].data[static_cast<size_t>(best)])
        best = at + k * stride;
    if (n > 0) y.data[static_cast<size_t>(best)] = 1;
  });
  return {y};
}

Arrays softmax(const Context& c) { return soft(c, false); }
Arrays log_softmax(const Context& c) { return soft(c, true); }

}  // namespace

void add_reductions(Table& t) {
  t["ReduceSum"] = sum;
  t["ReduceMean"] = mean;
  t["ReduceMax"] = most;
  t["ReduceMin"] = least;
  t["ReduceProd"] = product;
  t["ReduceL1"] = l1;
  t["ReduceL2"] = l2;
  t["ReduceSumSquare"] = squares;
  t["ReduceLogSum"] = log_sum;
  t["ReduceLogSumExp"] = log_sum_exp;
  t["ArgMax"] = arg_max;
  t["ArgMin"] = arg_min;
  t["CumSum"] = cum_sum;
  t["CumProd"] = cum_prod;
  t["TopK"] = top_k;
  t["Hardmax"] = hardmax;
  t["Softmax"] = softmax;
  t["LogSoftmax"] = log_softmax;
}

}  // namespace anemone::interpret
