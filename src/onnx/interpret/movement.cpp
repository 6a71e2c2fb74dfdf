// Shapes, parts and joins.
#include <algorithm>
#include <numeric>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

OnnxArray ints(std::vector<int64_t> values) {
  OnnxArray y = made(OnnxType::int64, {static_cast<int64_t>(values.size())});
  for (size_t k = 0; k < values.size(); ++k) y.data[k] = static_cast<double>(values[k]);
  return y;
}

OnnxArray with_dims(OnnxArray x, std::vector<int64_t> dims) {
  if (element_count(dims) != x.size()) throw errorf("{} elements do not fit {}", x.size(), shape_text(dims));
  x.dims = std::move(dims);
  return x;
}

Arrays shape(const Context& c) {
  const int64_t rank = c[0].rank();
  const auto fit = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t begin = fit(c.node.integer("start", 0)), end = fit(c.node.integer("end", rank));
  std::vector<int64_t> out;
  for (int64_t d = begin; d < end; ++d) out.push_back(c[0].dims[static_cast<size_t>(d)]);
  return {ints(out)};
}

Arrays size(const Context& c) {
  OnnxArray y = made(OnnxType::int64, {});
  y.data[0] = static_cast<double>(c[0].size());
  return {y};
}

Arrays reshape(const Context& c) {
  std::vector<int64_t> dims = c.ints(1);
  int64_t known = 1, open = -1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0 && c.node.integer("allowzero", 0) == 0) dims[d] = c[0].dims.at(d);
    if (dims[d] < -1 || dims[d] > most_elements()) throw errorf("a size would be {}", dims[d]);
    if (dims[d] == -1)
      open = static_cast<int64_t>(d);
    else
      known = std::min(known * dims[d], most_elements() + 1);
  }
  if (open >= 0) dims[static_cast<size_t>(open)] = known ? c[0].size() / known : 0;
  return {with_dims(c[0], dims)};
}

Arrays flatten(const Context& c) {
  const int64_t rank = c[0].rank();
  int64_t axis = c.node.integer("axis", 1);
  if (axis < -rank || axis > rank) throw errorf("the axis {} is outside of rank {}", axis, rank);
  if (axis < 0) axis += rank;
  int64_t rows = 1;
  for (int64_t d = 0; d < axis; ++d) rows *= c[0].dims[static_cast<size_t>(d)];
  return {with_dims(c[0], {rows, rows ? c[0].size() / rows : 0})};
}

std::vector<int64_t> axes_of(const Context& c, size_t input) {
  return c.has(input) ? c.ints(input) : c.node.integers("axes");
}

Arrays squeeze(const Context& c) {
  std::vector<int64_t> axes = axes_of(c, 1), out;
  for (int64_t& a : axes) a = at_axis(a, c[0].rank());
  for (int64_t d = 0; d < c[0].rank(); ++d) {
    const int64_t size_here = c[0].dims[static_cast<size_t>(d)];
    const bool named = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (axes.empty() ? size_here != 1 : !named) out.push_back(size_here);
  }
  return {with_dims(c[0], out)};
}

Arrays unsqueeze(const Context& c) {
  std::vector<int64_t> axes = axes_of(c, 1), out = c[0].dims;
  const int64_t rank = c[0].rank() + static_cast<int64_t>(axes.size());
  for (int64_t& a : axes) a = at_axis(a, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) throw errorf("an axis is named twice");
  for (const int64_t a : axes) out.insert(out.begin() + a, 1);
  return {with_dims(c[0], out)};
}

OnnxArray transposed(const OnnxArray& x, const std::vector<int64_t>& perm) {
  std::vector<int64_t> dims;
  for (const int64_t p : perm) dims.push_back(x.dims.at(static_cast<size_t>(p)));
  OnnxArray y = made(x.type, dims);
  const std::vector<int64_t> strides = strides_of(x.dims);
  size_t k = 0;
  each_place(dims, [&](const std::vector<int64_t>& at) {
    int64_t from = 0;
    for (size_t d = 0; d < perm.size(); ++d) from += at[d] * strides[static_cast<size_t>(perm[d])];
    y.data[k++] = x.data[static_cast<size_t>(from)];
  });
  return y;
}

Arrays transpose(const Context& c) {
  std::vector<int64_t> perm = c.node.integers("perm");
  if (perm.empty())
    for (int64_t d = c[0].rank() - 1; d >= 0; --d) perm.push_back(d);
  std::vector<int64_t> all = perm, axes(c[0].dims.size());
  std::sort(all.begin(), all.end());
  std::iota(axes.begin(), axes.end(), 0);
  if (all != axes) throw Error("'perm' does not name each axis once");
  return {transposed(c[0], perm)};
}

Arrays expand(const Context& c) {
  OnnxArray y = made(c[0].type, broadcast_dims(c[0].dims, c.ints(1)));
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    y.data[k++] = c[0].data[static_cast<size_t>(broadcast_at(at, c[0].dims))];
  });
  return {y};
}

Arrays tile(const Context& c) {
  std::vector<int64_t> dims = c[0].dims, reps = c.ints(1);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (reps.at(d) < 0 || reps[d] > most_elements()) throw errorf("{} repetitions", reps[d]);
    dims[d] *= reps[d];
  }
  OnnxArray y = made(c[0].type, dims);
  const std::vector<int64_t> strides = strides_of(c[0].dims);
  size_t k = 0;
  each_place(dims, [&](const std::vector<int64_t>& at) {
    int64_t from = 0;
    for (size_t d = 0; d < at.size(); ++d) from += at[d] % c[0].dims[d] * strides[d];
    y.data[k++] = c[0].data[static_cast<size_t>(from)];
  });
  return {y};
}

Arrays concat(const Context& c) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", 0), c[0].rank()));
  std::vector<int64_t> dims = c[0].dims;
  dims[axis] = 0;
  for (const OnnxArray* part : c.in) {
    if (!part || part->rank() != c[0].rank()) throw errorf("the parts have different ranks");
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != axis && part->dims[d] != dims[d])
        throw errorf("{} and {} cannot be joined", shape_text(c[0].dims), shape_text(part->dims));
    dims[axis] += part->dims[axis];
  }
  OnnxArray y = made(c[0].type, dims);
  int64_t outer = 1;
  for (size_t d = 0; d < axis; ++d) outer *= dims[d];
  auto out = y.data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (const OnnxArray* part : c.in) {
      const int64_t run = part->size() / std::max<int64_t>(1, outer);
      out = std::copy_n(part->data.begin() + o * run, run, out);
    }
  return {y};
}

OnnxArray sliced(const OnnxArray& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& step,
                 const std::vector<int64_t>& dims) {
  OnnxArray y = made(x.type, dims);
  const std::vector<int64_t> strides = strides_of(x.dims);
  size_t k = 0;
  each_place(dims, [&](const std::vector<int64_t>& at) {
    int64_t from = 0;
    for (size_t d = 0; d < at.size(); ++d) from += (begin[d] + at[d] * step[d]) * strides[d];
    y.data[k++] = x.data[static_cast<size_t>(from)];
  });
  return y;
}

Arrays slice(const Context& c) {
  const bool old = c.node.version < 10;
  const std::vector<int64_t> starts = old ? c.node.integers("starts") : c.ints(1),
                             ends = old ? c.node.integers("ends") : c.ints(2);
  std::vector<int64_t> axes = old ? c.node.integers("axes") : c.has(3) ? c.ints(3) : std::vector<int64_t>();
  const std::vector<int64_t> steps = !old && c.has(4) ? c.ints(4) : std::vector<int64_t>(starts.size(), 1);
  if (axes.empty())
    for (size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw errorf("starts, ends, axes and steps have different lengths");
  std::vector<int64_t> begin(c[0].dims.size(), 0), step(c[0].dims.size(), 1), dims = c[0].dims;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(at_axis(axes[k], c[0].rank()));
    const int64_t n = c[0].dims[d];
    // Steps beyond all sizes are as good as the size.
    const int64_t s = std::clamp<int64_t>(steps[k], -n - 1, n + 1);
    if (s == 0) throw errorf("a step is zero");
    const auto place = [&](int64_t v, int64_t low, int64_t high) {
      return std::clamp(v < 0 ? v + n : v, low, high);
    };
    const int64_t from = s > 0 ? place(starts[k], 0, n) : place(starts[k], -1, n - 1);
    const int64_t to = s > 0 ? place(ends[k], 0, n) : place(ends[k], -1, n - 1);
    begin[d] = from;
    step[d] = s;
    dims[d] = std::max<int64_t>(0, s > 0 ? (to - from + s - 1) / s : (from - to - s - 1) / -s);
  }
  return {sliced(c[0], begin, step, dims)};
}

Arrays split(const Context& c) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", 0), c[0].rank()));
  std::vector<int64_t> sizes = c.has(1) ? c.ints(1) : c.node.integers("split");
  if (sizes.empty()) {
    const auto parts = static_cast<int64_t>(c.node.outputs.size());
    const int64_t n = c[0].dims[axis], chunk = (n + parts - 1) / parts;
    for (int64_t k = 0; k < parts; ++k) sizes.push_back(std::max<int64_t>(0, std::min(chunk, n - k * chunk)));
  }
  int64_t rest = c[0].dims[axis];
  for (const int64_t part : sizes) {
    if (part < 0 || part > rest) throw errorf("the parts do not fit {}", shape_text(c[0].dims));
    rest -= part;
  }
  Arrays out;
  std::vector<int64_t> begin(c[0].dims.size(), 0);
  for (const int64_t part : sizes) {
    std::vector<int64_t> dims = c[0].dims;
    dims[axis] = part;
    out.push_back(sliced(c[0], begin, std::vector<int64_t>(dims.size(), 1), dims));
    begin[axis] += part;
  }
  return out;
}

Arrays gather(const Context& c) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", 0), c[0].rank()));
  const std::vector<int64_t>& d = c[0].dims;
  std::vector<int64_t> dims(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), c[1].dims.begin(), c[1].dims.end());
  dims.insert(dims.end(), d.begin() + static_cast<std::ptrdiff_t>(axis) + 1, d.end());
  OnnxArray y = made(c[0].type, dims);
  int64_t outer = 1, inner = 1;
  for (size_t k = 0; k < axis; ++k) outer *= d[k];
  for (size_t k = axis + 1; k < d.size(); ++k) inner *= d[k];
  auto out = y.data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (const double raw : c[1].data) {
      const auto i = at_axis(whole(raw), d[axis]);
      out = std::copy_n(c[0].data.begin() + (o * d[axis] + i) * inner, inner, out);
    }
  return {y};
}

// Indices that name places of x along an axis lie within x along all others.
void expect_within(const OnnxArray& x, const OnnxArray& indices, size_t axis) {
  bool fits = x.rank() == indices.rank();
  for (size_t d = 0; fits && d < x.dims.size(); ++d) fits = d == axis || indices.dims[d] <= x.dims[d];
  if (!fits) throw errorf("indices {} do not fit {}", shape_text(indices.dims), shape_text(x.dims));
}

Arrays gather_elements(const Context& c) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", 0), c[0].rank()));
  expect_within(c[0], c[1], axis);
  OnnxArray y = made(c[0].type, c[1].dims);
  const std::vector<int64_t> strides = strides_of(c[0].dims);
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    int64_t from = 0;
    for (size_t d = 0; d < at.size(); ++d)
      from += (d == axis ? at_axis(whole(c[1].data[k]), c[0].dims[axis]) : at[d]) * strides[d];
    y.data[k++] = c[0].data[static_cast<size_t>(from)];
  });
  return {y};
}

// The place of a slice that a tuple of indices names, behind `skip` batch dimensions, and the size of the slice.
struct Slices {
  std::vector<int64_t> strides;
  int64_t width = 1, parts = 0, first = 0;

  Slices(const OnnxArray& x, const OnnxArray& indices, int64_t skip)
      : strides(strides_of(x.dims)), first(skip) {
    if (indices.rank() < 1) throw errorf("indices must have a dimension");
    parts = indices.dims.back();
    if (parts < 0 || skip < 0 || skip + parts > x.rank() || skip >= indices.rank())
      throw errorf("{} indices do not fit rank {}", parts, x.rank());
    for (size_t d = static_cast<size_t>(skip + parts); d < x.dims.size(); ++d) width *= x.dims[d];
  }

  int64_t at(const OnnxArray& x, const OnnxArray& indices, int64_t tuple) const {
    int64_t place = 0;
    for (int64_t k = 0; k < parts; ++k) {
      const auto axis = static_cast<size_t>(first + k);
      const auto index = whole(indices.data[static_cast<size_t>(tuple * parts + k)]);
      place += at_axis(index, x.dims[axis]) * strides[axis];
    }
    return place;
  }
};

Arrays gather_nd(const Context& c) {
  const int64_t skip = c.node.integer("batch_dims", 0);
  const Slices slices(c[0], c[1], skip);
  std::vector<int64_t> dims(c[1].dims.begin(), c[1].dims.end() - 1);
  dims.insert(dims.end(), c[0].dims.begin() + (skip + slices.parts), c[0].dims.end());
  OnnxArray y = made(c[0].type, std::move(dims));
  int64_t batches = 1, batch_size = 1;
  for (int64_t d = 0; d < skip; ++d) batches *= c[0].dims[static_cast<size_t>(d)];
  for (size_t d = static_cast<size_t>(skip); d < c[0].dims.size(); ++d) batch_size *= c[0].dims[d];
  const int64_t tuples = slices.width ? y.size() / slices.width : 0;
  for (int64_t t = 0; t < tuples; ++t) {
    const int64_t from = t / std::max<int64_t>(1, tuples / batches) * batch_size + slices.at(c[0], c[1], t);
    std::copy_n(c[0].data.begin() + from, slices.width, y.data.begin() + t * slices.width);
  }
  return {y};
}

// What becomes of an element when `update` comes to its place.
double scattered(double old, double update, std::string_view reduction) {
  if (reduction == "add") return old + update;
  if (reduction == "mul") return old * update;
  if (reduction == "max") return std::max(old, update);
  if (reduction == "min") return std::min(old, update);
  return update;
}

Arrays scatter_nd(const Context& c) {
  const std::string_view reduction = c.node.text("reduction", "none");
  const Slices slices(c[0], c[1], 0);
  OnnxArray y = c[0];
  const int64_t tuples = slices.parts ? c[1].size() / slices.parts : 0;
  if (c[2].size() != tuples * slices.width)
    throw errorf("{} updates do not fit {} slices of {}", c[2].size(), tuples, slices.width);
  for (int64_t t = 0; t < tuples; ++t) {
    const int64_t to = slices.at(c[0], c[1], t);
    for (int64_t k = 0; k < slices.width; ++k) {
      double& v = y.data[static_cast<size_t>(to + k)];
      v = scattered(v, c[2].data[static_cast<size_t>(t * slices.width + k)], reduction);
    }
  }
  return {y};
}

Arrays trilu(const Context& c) {
  OnnxArray y = c[0];
  if (y.rank() < 2) throw errorf("a matrix is needed");
  const int64_t k = c.has(1) ? c.ints(1).at(0) : 0, rows = y.dims[y.dims.size() - 2], columns = y.dims.back();
  const bool upper = c.node.integer("upper", 1) != 0;
  for (int64_t at = 0; at < y.size(); ++at) {
    const int64_t row = at / columns % rows, column = at % columns;
    if (upper ? column - row < k : column - row > k) y.data[static_cast<size_t>(at)] = 0;
  }
  return {y};
}

Arrays scatter_elements(const Context& c) {
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", 0), c[0].rank()));
  const std::string_view mode = c.node.text("reduction", "none");
  expect_within(c[0], c[1], axis);
  OnnxArray y = c[0];
  const std::vector<int64_t> strides = strides_of(y.dims);
  size_t k = 0;
  each_place(c[1].dims, [&](const std::vector<int64_t>& at) {
    int64_t to = 0;
    for (size_t d = 0; d < at.size(); ++d)
      to += (d == axis ? at_axis(whole(c[1].data[k]), y.dims[axis]) : at[d]) * strides[d];
    double& v = y.data[static_cast<size_t>(to)];
    v = scattered(v, c[2].data.at(k++), mode);
  });
  return {y};
}

Arrays constant(const Context& c) {
  OnnxArray y;
  if (const OnnxTensor* t = c.node.tensor("value")) {
    y = made(t->type(), t->dims());
    t->read(0, t->elements(), std::span<double>(y.data));
    return {y};
  }
  if (c.node.attribute("value_float")) {
    y = made(OnnxType::float32, {});
    y.data[0] = static_cast<double>(c.node.number("value_float", 0));
    return {y};
  }
  if (c.node.attribute("value_ints")) return {ints(c.node.integers("value_ints"))};
  if (!c.node.attribute("value_int")) throw errorf("a constant of this kind is not supported");
  y = made(OnnxType::int64, {});
  y.data[0] = static_cast<double>(c.node.integer("value_int", 0));
  return {y};
}

Arrays constant_of_shape(const Context& c) {
  const OnnxTensor* t = c.node.tensor("value");
  OnnxArray y = made(t ? t->type() : OnnxType::float32, c.ints(0));
  double value = 0;
  if (t) t->read(0, 1, std::span<double>(&value, 1));
  std::fill(y.data.begin(), y.data.end(), value);
  return {y};
}

Arrays range(const Context& c) {
  const double start = c[0].data.at(0), end = c[1].data.at(0), step = c[2].data.at(0);
  const auto count = whole(std::max(0.0, std::ceil((end - start) / step)));
  OnnxArray y = made(c[0].type, {count});
  for (int64_t k = 0; k < count; ++k) y.data[static_cast<size_t>(k)] = start + static_cast<double>(k) * step;
  return {y};
}

Arrays pad(const Context& c) {
  const std::vector<int64_t> pads = c.node.version < 11 ? c.node.integers("pads") : c.ints(1);
  const std::string_view mode = c.node.text("mode", "constant");
  const double value = c.node.version < 11 ? static_cast<double>(c.node.number("value", 0))
                       : c.has(2)          ? c[2].data.at(0)
                                           : 0;
  std::vector<int64_t> axes(c[0].dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.ints(3);
  std::vector<int64_t> before(c[0].dims.size(), 0), dims = c[0].dims;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(at_axis(axes[k], c[0].rank()));
    for (const int64_t pad_here : {pads.at(k), pads.at(k + axes.size())})
      if (pad_here < -most_elements() || pad_here > most_elements()) throw errorf("a pad is {}", pad_here);
    before[d] = pads.at(k);
    dims[d] += pads[k] + pads.at(k + axes.size());
  }
  const bool known = mode == "constant" || mode == "edge" || mode == "wrap" || mode == "reflect";
  if (!known || (mode != "constant" && c[0].size() == 0))
    throw errorf("{} cannot be padded with the mode '{}'", shape_text(c[0].dims), onnx_printable(mode));
  OnnxArray y = made(c[0].type, dims);
  const std::vector<int64_t> strides = strides_of(c[0].dims);
  size_t k = 0;
  each_place(dims, [&](const std::vector<int64_t>& at) {
    int64_t from = 0;
    bool outside = false;
    for (size_t d = 0; d < at.size(); ++d) {
      int64_t i = at[d] - before[d];
      const int64_t n = c[0].dims[d];
      if (i < 0 || i >= n) {
        outside = outside || mode == "constant";
        if (mode == "edge") i = std::clamp<int64_t>(i, 0, n - 1);
        if (mode == "wrap") i = ((i % n) + n) % n;
        while (mode == "reflect" && (i < 0 || i >= n)) i = n == 1 ? 0 : i < 0 ? -i : 2 * (n - 1) - i;
      }
      from += i * strides[d];
    }
    y.data[k++] = outside ? value : c[0].data[static_cast<size_t>(from)];
  });
  return {y};
}

Arrays reverse_sequence(const Context& c) {
  const auto time = static_cast<size_t>(at_axis(c.node.integer("time_axis", 0), c[0].rank())),
             batch = static_cast<size_t>(at_axis(c.node.integer("batch_axis", 1), c[0].rank()));
  OnnxArray y = c[0];
  const std::vector<int64_t> strides = strides_of(y.dims);
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    const int64_t length = std::min(whole(c[1].data.at(static_cast<size_t>(at[batch]))), y.dims[time]);
    int64_t from = static_cast<int64_t>(k);
    if (at[time] < length) from += (length - 1 - 2 * at[time]) * strides[time];
    y.data[k++] = c[0].data[static_cast<size_t>(from)];
  });
  return {y};
}

}  // namespace

void add_movement(Table& t) {
  t["Shape"] = shape;
  t["Size"] = size;
  t["Reshape"] = reshape;
  t["Flatten"] = flatten;
  t["Squeeze"] = squeeze;
  t["Unsqueeze"] = unsqueeze;
  t["Transpose"] = transpose;
  t["Expand"] = expand;
  t["Tile"] = tile;
  t["Concat"] = concat;
  t["Slice"] = slice;
  t["Split"] = split;
  t["Gather"] = gather;
  t["GatherElements"] = gather_elements;
  t["GatherND"] = gather_nd;
  t["ScatterND"] = scatter_nd;
  t["Trilu"] = trilu;
  t["ScatterElements"] = scatter_elements;
  t["Scatter"] = scatter_elements;
  t["Constant"] = constant;
  t["ConstantOfShape"] = constant_of_shape;
  t["Range"] = range;
  t["Pad"] = pad;
  t["ReverseSequence"] = reverse_sequence;
}

}  // namespace anemone::interpret
