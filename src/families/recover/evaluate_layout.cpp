// Operators that move data or make it from sizes.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/shape.h"
#include "families/recover/evaluate.h"

namespace anemone::recover {
namespace {

using Arrays = std::vector<Array>;

std::vector<int64_t> row_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> out(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) out[d - 1] = out[d] * dims[d];
  return out;
}

// Axes from input i, or from the attribute of older operators.
std::vector<int64_t> axes_of(const Call& c, size_t i, const char* attribute = "axes") {
  return c.find(i) ? integers_of(c.at(i)) : c.op.node->integers(attribute);
}

Arrays constant(const Call& c) {
  const OnnxNode& node = *c.op.node;
  if (const OnnxTensor* t = node.tensor("value")) {
    Array out{t->dims(), std::vector<double>(static_cast<size_t>(checked_elements(t->dims()))),
              onnx_type_info(t->type()).integer};
    t->read(0, t->elements(), std::span<double>(out.data));
    return {std::move(out)};
  }
  if (node.attribute("value_float")) return {Array{{}, {node.number("value_float", 0)}, false}};
  if (node.attribute("value_int"))
    return {Array{{}, {static_cast<double>(node.integer("value_int", 0))}, true}};
  if (node.attribute("value_ints")) {
    const auto v = node.integers("value_ints");
    return {Array::numbers({v.begin(), v.end()})};
  }
  if (node.attribute("value_floats")) {
    const auto v = node.numbers("value_floats");
    Array out = Array::numbers({v.begin(), v.end()});
    out.whole = false;
    return {std::move(out)};
  }
  throw Error("a constant of a kind that is not supported");
}

Arrays constant_of_shape(const Call& c) {
  double value = 0;
  bool whole = false;
  if (const OnnxTensor* t = c.op.node->tensor("value")) {
    t->read(0, 1, std::span<double>(&value, 1));
    whole = onnx_type_info(t->type()).integer;
  }
  return {Array::filled(integers_of(c.at(0)), value, whole)};
}

Arrays reshape(const Call& c) {
  Array out = c.at(0);
  out.dims = reshaped(out.dims, integers_of(c.at(1)), c.op.node->integer("allowzero", 0) != 0);
  return {std::move(out)};
}

Arrays flatten(const Call& c) {
  Array out = c.at(0);
  const auto rank = static_cast<int64_t>(out.dims.size());
  int64_t axis = c.op.node->integer("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) throw Error("there is no such axis");
  int64_t first = 1;
  for (int64_t d = 0; d < axis; ++d) first *= out.dims[static_cast<size_t>(d)];
  out.dims = {first, first > 0 ? out.size() / first : 0};
  return {std::move(out)};
}

Arrays unsqueeze(const Call& c) {
  Array out = c.at(0);
  std::vector<int64_t> axes = axes_of(c, 1);
  const auto rank = static_cast<int64_t>(out.dims.size() + axes.size());
  for (int64_t& axis : axes) axis = wrapped(axis, rank);
  std::sort(axes.begin(), axes.end());
  for (const int64_t axis : axes) out.dims.insert(out.dims.begin() + axis, 1);
  return {std::move(out)};
}

Arrays squeeze(const Call& c) {
  Array out = c.at(0);
  std::vector<int64_t> axes = axes_of(c, 1), dims;
  for (int64_t& axis : axes) axis = wrapped(axis, static_cast<int64_t>(out.dims.size()));
  for (size_t d = 0; d < out.dims.size(); ++d) {
    const bool named = std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) > 0;
    if (named && out.dims[d] != 1) throw Error("squeezes a dimension that is not 1");
    if (!named && !(axes.empty() && out.dims[d] == 1)) dims.push_back(out.dims[d]);
  }
  out.dims = std::move(dims);
  return {std::move(out)};
}

Arrays transpose(const Call& c) {
  const Array& x = c.at(0);
  std::vector<int64_t> order = c.op.node->integers("perm");
  if (order.empty())
    for (size_t d = x.dims.size(); d-- > 0;) order.push_back(static_cast<int64_t>(d));
  if (order.size() != x.dims.size()) throw Error("a permutation does not fit");
  const std::vector<int64_t> from = row_strides(x.dims);
  std::vector<int64_t> dims, strides;
  std::vector<bool> taken(order.size());
  for (const int64_t d : order) {
    const auto axis = static_cast<size_t>(wrapped(d, static_cast<int64_t>(x.dims.size())));
    if (taken[axis]) throw Error("a permutation names an axis twice");
    taken[axis] = true;
    dims.push_back(x.dims[axis]);
    strides.push_back(from[axis]);
  }
  Array out = Array::filled(dims, 0, x.whole);
  size_t at = 0;
  for_each_offset(dims, strides,
                  [&](int64_t offset) { out.data[at++] = x.data[static_cast<size_t>(offset)]; });
  return {std::move(out)};
}

Arrays expand(const Call& c) {
  return {broadcast(c.at(0), broadcast_dims(c.at(0).dims, integers_of(c.at(1))))};
}

Arrays tile(const Call& c) {
  const Array& x = c.at(0);
  const std::vector<int64_t> times = integers_of(c.at(1)), from = row_strides(x.dims);
  if (times.size() != x.dims.size()) throw Error("repeats do not fit");
  std::vector<int64_t> dims;
  for (size_t d = 0; d < times.size(); ++d) dims.push_back(x.dims[d] * times[d]);
  Array out = Array::filled(dims, 0, x.whole);
  const std::vector<int64_t> to = row_strides(dims);
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < dims.size(); ++d) offset += i / to[d] % dims[d] % x.dims[d] * from[d];
    out.data[static_cast<size_t>(i)] = x.data[static_cast<size_t>(offset)];
  }
  return {std::move(out)};
}

Arrays concat(const Call& c) {
  const Array* first = &c.at(0);
  for (size_t i = 1; i < c.in.size() && first->dims.size() < c.at(i).dims.size(); ++i)
    first = &c.at(i);  // torch joins an empty list of no rank with a cache
  const auto axis =
      static_cast<size_t>(wrapped(c.op.node->integer("axis", 0), static_cast<int64_t>(first->dims.size())));
  std::vector<const Array*> parts;
  std::vector<int64_t> dims = first->dims;
  dims[axis] = 0;
  bool whole = true;
  for (size_t i = 0; i < c.in.size(); ++i) {
    const Array& part = c.at(i);
    if (part.size() == 0 && part.dims.size() != dims.size()) continue;
    if (part.dims.size() != dims.size()) throw Error("joins values of different rank");
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != axis && part.dims[d] != dims[d]) throw Error("joins values that do not fit");
    dims[axis] += part.dims[axis];
    whole = whole && part.whole;
    parts.push_back(&part);
  }
  Array out = Array::filled(dims, 0, whole);
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < axis; ++d) outer *= dims[d];
  for (size_t d = axis + 1; d < dims.size(); ++d) inner *= dims[d];
  auto to = out.data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (const Array* part : parts) {
      const int64_t n = part->dims[axis] * inner;
      to = std::copy_n(part->data.begin() + o * n, n, to);
    }
  return {std::move(out)};
}

// [begin, end) of one axis, with a step.
Array cut(const Array& x, size_t axis, int64_t begin, int64_t count, int64_t step) {
  std::vector<int64_t> dims = x.dims;
  dims[axis] = count;
  Array out = Array::filled(dims, 0, x.whole);
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < axis; ++d) outer *= dims[d];
  for (size_t d = axis + 1; d < dims.size(); ++d) inner *= dims[d];
  auto to = out.data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i)
      to = std::copy_n(x.data.begin() + (o * x.dims[axis] + begin + i * step) * inner, inner, to);
  return out;
}

Arrays slice(const Call& c) {
  Array out = c.at(0);
  const bool old = c.in.size() == 1;
  const std::vector<int64_t> starts = old ? c.op.node->integers("starts") : integers_of(c.at(1));
  const std::vector<int64_t> ends = old ? c.op.node->integers("ends") : integers_of(c.at(2));
  std::vector<int64_t> axes = old         ? c.op.node->integers("axes")
                              : c.find(3) ? integers_of(c.at(3))
                                          : std::vector<int64_t>();
  const std::vector<int64_t> steps =
      c.find(4) ? integers_of(c.at(4)) : std::vector<int64_t>(starts.size(), 1);
  if (axes.empty())
    for (size_t d = 0; d < starts.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw Error("a slice whose parts do not fit");
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<size_t>(wrapped(axes[i], static_cast<int64_t>(out.dims.size())));
    const int64_t n = out.dims[axis], step = steps[i];
    if (step == 0) throw Error("a slice with a step of 0");
    const auto limit = [&](int64_t v) {
      if (v < 0) v = v < -n ? (step < 0 ? -1 : 0) : v + n;
      return std::clamp<int64_t>(v, step < 0 ? -1 : 0, step < 0 ? n - 1 : n);
    };
    const int64_t begin = limit(starts[i]), end = limit(ends[i]);
    const int64_t count =
        std::max<int64_t>(0, step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step);
    out = cut(out, axis, begin, count, step);
  }
  return {std::move(out)};
}

Arrays split(const Call& c) {
  const Array& x = c.at(0);
  const auto axis =
      static_cast<size_t>(wrapped(c.op.node->integer("axis", 0), static_cast<int64_t>(x.dims.size())));
  std::vector<int64_t> sizes = axes_of(c, 1, "split");
  const auto count = static_cast<int64_t>(c.op.outputs.size());
  if (sizes.empty()) {
    const int64_t each = (x.dims[axis] + count - 1) / count;
    for (int64_t i = 0; i < count; ++i)
      sizes.push_back(std::clamp<int64_t>(x.dims[axis] - i * each, 0, each));
  }
  Arrays out;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || at + size > x.dims[axis]) throw Error("a split that does not fit");
    out.push_back(cut(x, axis, at, size, 1));
    at += size;
  }
  return out;
}

Arrays gather(const Call& c) {
  const Array &x = c.at(0), &rows = c.at(1);
  const auto axis =
      static_cast<size_t>(wrapped(c.op.node->integer("axis", 0), static_cast<int64_t>(x.dims.size())));
  std::vector<int64_t> dims(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), rows.dims.begin(), rows.dims.end());
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  Array out = Array::filled(dims, 0, x.whole);
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < axis; ++d) outer *= x.dims[d];
  for (size_t d = axis + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  auto to = out.data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (const double v : rows.data) {
      auto row = static_cast<int64_t>(v);
      if (row < 0) row += x.dims[axis];
      if (row < 0 || row >= x.dims[axis]) throw errorf("there is no row {}", row).found(shape_text(x.dims));
      to = std::copy_n(x.data.begin() + (o * x.dims[axis] + row) * inner, inner, to);
    }
  return {std::move(out)};
}

Arrays gather_nd(const Call& c) {
  const Array &x = c.at(0), &at = c.at(1);
  if (c.op.node->integer("batch_dims", 0) != 0 || at.dims.empty()) throw Error("GatherND with batches");
  const auto depth = static_cast<size_t>(at.dims.back());
  if (depth > x.dims.size()) throw Error("GatherND with too many indices");
  const std::vector<int64_t> strides = row_strides(x.dims);
  std::vector<int64_t> dims(at.dims.begin(), at.dims.end() - 1);
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(depth), x.dims.end());
  int64_t inner = 1;
  for (size_t d = depth; d < x.dims.size(); ++d) inner *= x.dims[d];
  Array out = Array::filled(dims, 0, x.whole);
  auto to = out.data.begin();
  for (size_t i = 0; depth > 0 && i < at.data.size(); i += depth) {
    int64_t offset = 0;
    for (size_t d = 0; d < depth; ++d) {
      auto index = static_cast<int64_t>(at.data[i + d]);
      if (index < 0) index += x.dims[d];
      if (index < 0 || index >= x.dims[d]) throw Error("GatherND outside of the data");
      offset += index * strides[d];
    }
    to = std::copy_n(x.data.begin() + offset, inner, to);
  }
  return {std::move(out)};
}

Arrays range(const Call& c) {
  const double start = c.at(0).data.at(0), limit = c.at(1).data.at(0), step = c.at(2).data.at(0);
  if (step == 0) throw Error("a range with a step of 0");
  const double count = std::max(0.0, std::ceil((limit - start) / step));
  if (!(count <= kMostElements)) throw Error("a range that is too long to be looked at");
  Array out = Array::filled({static_cast<int64_t>(count)}, 0, c.at(0).whole);
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = start + static_cast<double>(i) * step;
  return {std::move(out)};
}

Arrays trilu(const Call& c) {
  Array out = c.at(0);
  if (out.dims.size() < 2) throw Error("Trilu of a vector");
  const int64_t rows = out.dims[out.dims.size() - 2], columns = out.dims.back();
  const int64_t k = c.find(1) ? static_cast<int64_t>(c.at(1).data.at(0)) : 0;
  const bool upper = c.op.node->integer("upper", 1) != 0;
  for (int64_t i = 0; i < out.size(); ++i) {
    const int64_t column = i % columns, row = i / columns % rows;
    if (upper ? column < row + k : column > row + k) out.data[static_cast<size_t>(i)] = 0;
  }
  return {std::move(out)};
}

Arrays cumsum(const Call& c) {
  Array out = c.at(0);
  const auto axis = static_cast<size_t>(
      wrapped(static_cast<int64_t>(c.at(1).data.at(0)), static_cast<int64_t>(out.dims.size())));
  if (c.op.node->integer("exclusive", 0) || c.op.node->integer("reverse", 0))
    throw Error("a sum that runs backwards or leaves itself out");
  const int64_t step = row_strides(out.dims)[axis], n = out.dims[axis];
  for (int64_t i = 0; i < out.size(); ++i)
    if (i / step % n > 0) out.data[static_cast<size_t>(i)] += out.data[static_cast<size_t>(i - step)];
  return {std::move(out)};
}

Arrays scatter_nd(const Call& c) {
  Array out = c.at(0);
  const Array &at = c.at(1), &updates = c.at(2);
  const auto depth = static_cast<size_t>(at.dims.empty() ? 0 : at.dims.back());
  if (depth == 0 || depth > out.dims.size()) throw Error("ScatterND with indices that do not fit");
  const std::vector<int64_t> strides = row_strides(out.dims);
  int64_t inner = 1;
  for (size_t d = depth; d < out.dims.size(); ++d) inner *= out.dims[d];
  if (static_cast<int64_t>(at.data.size() / depth) * inner != updates.size())
    throw Error("updates that do not fit");
  auto from = updates.data.begin();
  for (size_t i = 0; i < at.data.size(); i += depth, from += inner) {
    int64_t offset = 0;
    for (size_t d = 0; d < depth; ++d) {
      auto index = static_cast<int64_t>(at.data[i + d]);
      if (index < 0) index += out.dims[d];
      if (index < 0 || index >= out.dims[d]) throw Error("ScatterND outside of the data");
      offset += index * strides[d];
    }
    std::copy_n(from, inner, out.data.begin() + offset);
  }
  return {std::move(out)};
}

}  // namespace

std::vector<int64_t> reshaped(const std::vector<int64_t>& dims, std::vector<int64_t> sizes,
                              bool zero_is_zero) {
  const int64_t elements = element_count(dims);
  int64_t known = 1, open = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0 && !zero_is_zero) {
      if (d >= dims.size()) throw Error("a shape refers to a dimension that is not there");
      sizes[d] = dims[d];
    }
    if (sizes[d] < -1 || sizes[d] > (int64_t{1} << 40)) throw Error("a shape with an impossible size");
    if (sizes[d] == -1)
      open = static_cast<int64_t>(d);
    else
      known = element_count(std::vector<int64_t>{known, sizes[d]});
  }
  if (open >= 0) sizes[static_cast<size_t>(open)] = known > 0 ? elements / known : 0;
  for (const int64_t size : sizes)
    if (size < 0) throw Error("a shape with two open sizes");
  if (element_count(sizes) != elements)
    throw errorf("a shape does not fit").found(shape_text(dims) + " as " + shape_text(sizes));
  return sizes;
}

Compute find_layout_compute(std::string_view type) {
  static const std::map<std::string_view, Compute> table = {
      {"Constant", constant},   {"ConstantOfShape", constant_of_shape},
      {"Reshape", reshape},     {"Flatten", flatten},
      {"Unsqueeze", unsqueeze}, {"Squeeze", squeeze},
      {"Transpose", transpose}, {"Expand", expand},
      {"Tile", tile},           {"Concat", concat},
      {"Slice", slice},         {"Split", split},
      {"Gather", gather},       {"GatherND", gather_nd},
      {"Range", range},         {"Trilu", trilu},
      {"CumSum", cumsum},       {"ScatterND", scatter_nd},
  };
  const auto at = table.find(type);
  return at == table.end() ? nullptr : at->second;
}

}  // namespace anemone::recover
