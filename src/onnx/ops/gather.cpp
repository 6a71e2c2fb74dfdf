// Parts of tensors: slices, splits, joins, gathers and scatters.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

void concat(OnnxCall& n) {
  std::vector<Value*> values;
  for (size_t k = 0; k < n.count(); ++k) {
    Value* v = n.in(k);
    // A part without elements adds nothing.
    if (v->type.fixed() && v->type.size() == 0 && n.count() > 1) continue;
    values.push_back(v);
  }
  if (values.empty()) values.push_back(n.in(0));
  if (values.size() == 1) return n.out_operand(0, OnnxOperand{values[0], n.type(0), nullptr});
  const int64_t along = n.axis(n.node.integer("axis", 0), values[0]->type.rank());
  n.out(n.concat(values, along));
}

void split(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.node.integer("axis", 0), x->type.rank());
  const auto given = n.ints_or_attribute(1, "split");
  std::vector<int64_t> sizes;
  if (given) {
    sizes = *given;
  } else {
    const int64_t parts = n.node.integer("num_outputs", static_cast<int64_t>(n.node.outputs.size()));
    const Dim dim = x->type.dim(static_cast<int>(along));
    if (!dim.known()) throw errorf("the dimension that is split has no fixed size");
    const int64_t chunk = (dim.size() + parts - 1) / parts;
    for (int64_t k = 0; k < parts; ++k)
      sizes.push_back(std::min(chunk, dim.size() - std::min(dim.size(), k * chunk)));
  }
  int64_t at = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (n.wants(k)) n.out(k, n.slice(x, along, at, at + sizes[k]), n.type(0));
    at += sizes[k];
  }
}

// Begin, end and step along one axis, as numpy reads them, in terms that MIL takes: open ends are masks.
struct Cut {
  int64_t begin, end, step;
  bool open_begin = false, open_end = false;
};

Cut cut_of(int64_t begin, int64_t end, int64_t step, Dim dim) {
  Cut c{begin, end, step};
  if (step == 0) throw errorf("a slice has step 0");
  if (!dim.known()) {
    constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
    c.open_begin = step > 0 ? begin == 0 : begin >= kFar || begin == -1;
    c.open_end = step > 0 ? end >= kFar : end <= -kFar;
    return c;
  }
  const int64_t size = dim.size();
  const auto place = [&](int64_t at) { return at < 0 ? at + size : at; };
  if (step > 0) {
    c.begin = std::clamp<int64_t>(place(begin), 0, size);
    c.end = std::clamp<int64_t>(place(end), 0, size);
    c.open_end = c.end == size;
  } else {
    c.begin = std::clamp<int64_t>(place(begin), -1, size - 1);
    c.end = std::clamp<int64_t>(place(end), -1, size - 1);
    c.open_end = c.end < 0;
  }
  return c;
}

struct SliceParts {
  std::vector<int64_t> starts, ends, axes, steps;
};

std::optional<SliceParts> slice_parts(OnnxCall& n, int rank) {
  SliceParts p;
  if (n.node.version < 10) {
    p.starts = n.node.integers("starts");
    p.ends = n.node.integers("ends");
    p.axes = n.node.integers("axes");
  } else {
    const auto starts = n.find_ints(1), ends = n.find_ints(2);
    if (!starts || !ends) return std::nullopt;
    p.starts = *starts;
    p.ends = *ends;
    if (n.has(3)) p.axes = n.ints(3);
    if (n.has(4)) p.steps = n.ints(4);
  }
  if (p.axes.empty())
    for (size_t k = 0; k < p.starts.size(); ++k) p.axes.push_back(static_cast<int64_t>(k));
  if (p.steps.empty()) p.steps.assign(p.starts.size(), 1);
  if (p.ends.size() != p.starts.size() || p.axes.size() != p.starts.size() ||
      p.steps.size() != p.starts.size())
    throw errorf("starts, ends, axes and steps have different lengths");
  for (int64_t& a : p.axes) a = n.axis(a, rank);
  return p;
}

// Starts or ends are computed: the ends are cut to the size, as MIL does not do that.
void slice_at_run_time(OnnxCall& n) {
  Value* x = n.in(0);
  const auto rank = static_cast<size_t>(x->type.rank());
  const size_t count = n.dims(n.in(1)).at(0) > 0 ? static_cast<size_t>(n.dims(n.in(1)).at(0)) : 0;
  std::vector<int64_t> axes, steps(rank, 1);
  if (n.has(3))
    axes = n.ints(3);
  else
    for (size_t k = 0; k < count; ++k) axes.push_back(static_cast<int64_t>(k));
  if (n.has(4)) {
    const std::vector<int64_t> given = n.ints(4);
    for (size_t k = 0; k < axes.size(); ++k)
      steps[static_cast<size_t>(n.axis(axes[k], x->type.rank()))] = given[k];
  }
  for (const int64_t s : steps)
    if (s < 1) throw n.refused("Slice with computed ends and a negative step");
  Value* sizes = n.unary("shape", x);
  const auto place = [&](size_t input) {
    Value* at = n.in(input);
    std::vector<Value*> all;
    for (size_t d = 0; d < rank; ++d) {
      const auto it = std::find_if(axes.begin(), axes.end(), [&](int64_t a) {
        return n.axis(a, static_cast<int64_t>(rank)) == static_cast<int64_t>(d);
      });
      Value* size = n.slice(sizes, 0, static_cast<int64_t>(d), static_cast<int64_t>(d) + 1);
      if (it == axes.end()) {
        all.push_back(input == 1 ? n.int_values({0}, {1}) : size);
        continue;
      }
      const int64_t k = it - axes.begin();
      Value* given = n.slice(at, 0, k, k + 1);
      Value* from_end = n.add(n.op("maximum", {{"x", given}, {"y", n.mul(size, n.i(-1))}}), size);
      Value* counted = n.select(n.op("less", {{"x", given}, {"y", n.i(0)}}), from_end, given);
      all.push_back(n.op("minimum", {{"x", counted}, {"y", size}}));
    }
    return n.concat(all, 0);
  };
  Value* begin = place(1);
  Value* end = place(2);
  n.out(
      n.op("slice_by_index", {{"x", x}, {"begin", begin}, {"end", end}, {"stride", Constant::ints(steps)}}));
}

void slice(OnnxCall& n) {
  Value* x = n.in(0);
  const auto rank = static_cast<size_t>(x->type.rank());
  const auto parts = slice_parts(n, x->type.rank());
  if (!parts) return slice_at_run_time(n);
  std::vector<int64_t> begin(rank, 0), end(rank, 0), stride(rank, 1);
  std::vector<uint8_t> open_begin(rank, 1), open_end(rank, 1);
  bool empty = false, whole = true;
  std::vector<int64_t> out_dims = x->type.fixed() ? x->type.dims() : std::vector<int64_t>(rank, 1);
  for (size_t k = 0; k < parts->axes.size(); ++k) {
    const auto d = static_cast<size_t>(parts->axes[k]);
    const Dim dim = x->type.dim(static_cast<int>(d));
    const Cut c = cut_of(parts->starts[k], parts->ends[k], parts->steps[k], dim);
    begin[d] = c.begin;
    end[d] = c.end;
    stride[d] = c.step;
    open_begin[d] = c.open_begin;
    open_end[d] = c.open_end;
    if (dim.known()) {
      const int64_t span = c.step > 0 ? c.end - c.begin + c.step - 1 : c.begin - c.end - c.step - 1;
      out_dims[d] = std::max<int64_t>(0, span / (c.step > 0 ? c.step : -c.step));
      empty = empty || out_dims[d] == 0;
      whole = whole && out_dims[d] == dim.size() && c.step == 1;
    } else {
      whole = whole && c.open_begin && c.open_end && c.step == 1;
    }
  }
  if (whole) return n.out_operand(0, n.operand(0));
  if (empty && x->type.fixed()) return n.out(n.filled(out_dims, 0, x->type.dtype));
  const auto mask = [](const std::vector<uint8_t>& bits) {
    return Constant::booleans(std::span(reinterpret_cast<const bool*>(bits.data()), bits.size()));
  };
  n.out(n.op("slice_by_index", {{"x", x},
                                {"begin", Constant::ints(begin)},
                                {"end", Constant::ints(end)},
                                {"stride", Constant::ints(stride)},
                                {"begin_mask", mask(open_begin)},
                                {"end_mask", mask(open_end)}}));
}

// Negative indices count from the end. Core ML's gather takes them as they are only in part, so they are made positive
// where they are computed.
Value* positive(OnnxCall& n, Value* indices, Value* x, int64_t along) {
  const Dim dim = x->type.dim(static_cast<int>(along));
  if (const auto known = known_ints(indices); known && dim.known()) {
    if (std::all_of(known->begin(), known->end(), [](int64_t at) { return at >= 0; })) return indices;
  }
  Value* size = dim.known() ? n.constant(n.i(dim.size()))
                            : n.squeeze(n.slice(n.unary("shape", x), 0, along, along + 1), {0});
  return n.select(n.op("less", {{"x", indices}, {"y", n.i(0)}}), n.add(indices, size), indices);
}

void gather(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.node.integer("axis", 0), x->type.rank());
  Value* indices = positive(n, n.in(1), x, along);
  n.out(n.op("gather", {{"x", x}, {"indices", indices}, {"axis", n.i(along)}}));
}

void gather_elements(OnnxCall& n) {
  Value* x = n.in(0);
  const int64_t along = n.axis(n.node.integer("axis", 0), x->type.rank());
  Value* indices = positive(n, n.in(1), x, along);
  // ONNX lets the indices have fewer elements than x along the other axes; MIL does not.
  std::vector<int64_t> have = n.dims(x);
  const std::vector<int64_t> wanted = n.dims(indices);
  for (size_t d = 0; d < have.size(); ++d)
    if (static_cast<int64_t>(d) != along && have[d] != wanted[d])
      x = n.slice(x, static_cast<int64_t>(d), 0, wanted[d]);
  n.out(n.op("gather_along_axis", {{"x", x}, {"indices", indices}, {"axis", n.i(along)}}));
}

// Tuples of indices: each entry counts along its own axis.
Value* positive_tuples(OnnxCall& n, Value* indices, Value* x, int64_t first) {
  const std::vector<int64_t> dims = n.dims(x);
  if (n.dims(indices).empty()) throw errorf("indices must have a dimension");
  const int64_t length = n.dims(indices).back();
  std::vector<int64_t> sizes;
  for (int64_t k = 0; k < length; ++k) sizes.push_back(dims.at(static_cast<size_t>(first + k)));
  if (const auto known = known_ints(indices);
      known && std::all_of(known->begin(), known->end(), [](int64_t at) { return at >= 0; }))
    return indices;
  Value* size = n.int_values(sizes, {length});
  return n.select(n.op("less", {{"x", indices}, {"y", n.i(0)}}), n.add(indices, size), indices);
}

void gather_nd(OnnxCall& n) {
  const int64_t batch = n.node.integer("batch_dims", 0);
  Value* x = n.in(0);
  Value* indices = positive_tuples(n, n.in(1), x, batch);
  n.out(n.op("gather_nd", {{"x", x}, {"indices", indices}, {"batch_dims", n.i(batch)}}));
}

std::string scatter_mode(OnnxCall& n) {
  const std::string_view kind = n.node.text("reduction", "none");
  if (kind == "none") return "update";
  if (kind == "add" || kind == "mul" || kind == "min" || kind == "max") return std::string(kind);
  throw n.refused(fmt::format("the reduction '{}'", onnx_printable(kind)));
}

// Scatter works on numbers: truth values go through int32.
struct Scattered {
  Value *data, *updates;
};

Scattered numbers(OnnxCall& n, Value* data, Value* updates) {
  if (data->type.dtype != DType::boolean) return {data, updates};
  return {n.cast(data, DType::int32), n.cast(updates, DType::int32)};
}

void out_numbers(OnnxCall& n, Value* y) {
  if (n.type(0) == OnnxType::boolean) y = n.op("not_equal", {{"x", y}, {"y", n.i(0)}});
  n.out(y);
}

void scatter_elements(OnnxCall& n) {
  const auto [data, updates] = numbers(n, n.in(0), n.in(2));
  const int64_t along = n.axis(n.node.integer("axis", 0), data->type.rank());
  Value* indices = positive(n, n.in(1), data, along);
  const std::vector<int64_t> have = n.dims(data), given = n.dims(indices);
  if (have.size() != given.size())
    throw errorf("indices {} do not fit {}", shape_text(given), shape_text(have));
  bool same = true;
  for (size_t d = 0; d < have.size(); ++d)
    same = same && (static_cast<int64_t>(d) == along || have[d] == given[d]);
  if (same)
    return out_numbers(n, n.op("scatter_along_axis", {{"data", data},
                                                      {"indices", indices},
                                                      {"updates", updates},
                                                      {"axis", n.i(along)},
                                                      {"mode", n.text(scatter_mode(n))}}));
  // Fewer indices along other axes: as tuples.
  const int64_t count = element_count(given);
  std::vector<Value*> columns;
  for (size_t d = 0; d < have.size(); ++d) {
    if (static_cast<int64_t>(d) == along) {
      columns.push_back(n.reshape(indices, {count, 1}));
      continue;
    }
    std::vector<int64_t> places(static_cast<size_t>(count));
    int64_t inner = 1;
    for (size_t k = d + 1; k < given.size(); ++k) inner *= given[k];
    for (int64_t e = 0; e < count; ++e) places[static_cast<size_t>(e)] = e / inner % given[d];
    columns.push_back(n.int_values(places, {count, 1}));
  }
  out_numbers(n, n.op("scatter_nd", {{"data", data},
                                     {"indices", n.concat(columns, 1)},
                                     {"updates", n.reshape(updates, {count})},
                                     {"mode", n.text(scatter_mode(n))}}));
}

void scatter_nd(OnnxCall& n) {
  const auto [data, updates] = numbers(n, n.in(0), n.in(2));
  Value* indices = positive_tuples(n, n.in(1), data, 0);
  out_numbers(
      n,
      n.op("scatter_nd",
           {{"data", data}, {"indices", indices}, {"updates", updates}, {"mode", n.text(scatter_mode(n))}}));
}

void one_hot(OnnxCall& n) {
  Value* indices = n.in(0);
  const int64_t depth = n.find_floats(1) ? static_cast<int64_t>(n.floats(1).at(0)) : n.ints(1).at(0);
  const int64_t along = n.axis(n.node.integer("axis", -1), indices->type.rank() + 1);
  indices = n.cast(indices, DType::int32);
  indices = n.select(n.op("less", {{"x", indices}, {"y", n.i(0)}}), n.add(indices, n.i(depth)), indices);
  Value* hot = n.op("one_hot", {{"indices", indices},
                                {"one_hot_vector_size", n.i(depth)},
                                {"axis", n.i(along)},
                                {"on_value", n.i(1)},
                                {"off_value", n.i(0)}});
  Value* values = n.in(2);
  const auto entry = [&](int64_t k) { return n.squeeze(n.slice(values, 0, k, k + 1), {0}); };
  Value* is_hot = n.op("equal", {{"x", hot}, {"y", n.i(1)}});
  n.out(0, n.select(is_hot, entry(1), entry(0)), n.type(2));
}

void non_zero(OnnxCall& n) {
  Value* x = n.in(0);
  n.out(0, n.transpose(n.unary("non_zero", x), {1, 0}), OnnxType::int64);
}

void compress(OnnxCall& n) {
  Value* x = n.in(0);
  const bool whole = !n.node.attribute("axis");
  const int64_t along = whole ? 0 : n.axis(n.node.integer("axis", 0), x->type.rank());
  if (whole) x = n.reshape(x, {element_count(n.dims(x))});
  Value* chosen = n.squeeze(n.unary("non_zero", n.in(1)), {1});
  n.out(n.op("gather", {{"x", x}, {"indices", chosen}, {"axis", n.i(along)}}));
}

void reverse_sequence(OnnxCall& n) {
  const int64_t time = n.node.integer("time_axis", 0), batch = n.node.integer("batch_axis", 1);
  n.out(n.op("reverse_sequence",
             {{"x", n.in(0)}, {"lengths", n.in(1)}, {"seq_axis", n.i(time)}, {"batch_axis", n.i(batch)}}));
}

const OnnxOp kOps[] = {
    {"Concat", concat},
    {"Split", split},
    {"Slice", slice},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"OneHot", one_hot},
    {"NonZero", non_zero},
    {"Compress", compress},
    {"ReverseSequence", reverse_sequence},
};

}  // namespace

std::span<const OnnxOp> onnx_gather() { return kOps; }

}  // namespace anemone::onnx_ops
