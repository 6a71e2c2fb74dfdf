// Elements added at the edges, taken from the edges, or cut away.
#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

constexpr int64_t kMostEdge = int64_t{1} << 31;    // elements that are added or cut away
constexpr int64_t kMostPlaces = int64_t{1} << 24;  // of one dimension, where each is written down

struct Edges {
  std::vector<int64_t> before, after;
};

Edges edges_of(OnnxCall& n, int64_t rank) {
  const std::vector<int64_t> pads = n.node.version < 11 ? n.node.integers("pads") : n.ints(1);
  std::vector<int64_t> axes;
  if (n.has(3))
    axes = n.ints(3);
  else
    for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
  if (pads.size() != 2 * axes.size())
    throw errorf("pads must have two entries for each dimension").found(fmt::format("{}", pads.size()));
  for (const int64_t pad : pads)
    if (pad < -kMostEdge || pad > kMostEdge) throw n.refused(fmt::format("an edge of {} elements", pad));
  Edges e{std::vector<int64_t>(static_cast<size_t>(rank), 0),
          std::vector<int64_t>(static_cast<size_t>(rank), 0)};
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(n.axis(axes[k], rank));
    e.before[d] = pads[k];
    e.after[d] = pads[k + axes.size()];
  }
  return e;
}

// Negative entries cut.
Value* cut(OnnxCall& n, Value* x, Edges& e) {
  const std::vector<int64_t> dims = n.dims(x);
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t begin = std::max<int64_t>(0, -e.before[d]),
                  end = dims[d] - std::max<int64_t>(0, -e.after[d]);
    if (begin > 0 || end < dims[d]) x = n.slice(x, static_cast<int64_t>(d), begin, end);
    e.before[d] = std::max<int64_t>(0, e.before[d]);
    e.after[d] = std::max<int64_t>(0, e.after[d]);
  }
  return x;
}

// Rows from elsewhere in the dimension: for each place of the result the place that it is taken from.
int64_t source(std::string_view mode, int64_t at, int64_t size) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, size - 1);
  if (mode == "wrap") return ((at % size) + size) % size;
  const int64_t period = std::max<int64_t>(1, 2 * (size - 1));
  const int64_t place = ((at % period) + period) % period;
  return place < size ? place : period - place;
}

Value* pad_by_gather(OnnxCall& n, Value* x, const Edges& e, std::string_view mode) {
  const std::vector<int64_t> dims = n.dims(x);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!e.before[d] && !e.after[d]) continue;
    if (const int64_t size = e.before[d] + dims[d] + e.after[d]; size > kMostPlaces || dims[d] < 1)
      throw n.refused(fmt::format("{} elements taken from {}", size, dims[d]));
    std::vector<int64_t> places;
    for (int64_t at = -e.before[d]; at < dims[d] + e.after[d]; ++at)
      places.push_back(source(mode, at, dims[d]));
    Value* indices = n.int_values(places, {static_cast<int64_t>(places.size())});
    x = n.op("gather", {{"x", x}, {"indices", indices}, {"axis", n.i(static_cast<int64_t>(d))}});
  }
  return x;
}

// A constant of any value and type: tensors of it are joined on.
Value* pad_by_concat(OnnxCall& n, Value* x, const Edges& e, Value* value) {
  for (size_t d = 0; d < e.before.size(); ++d) {
    std::vector<Value*> parts;
    const auto part = [&](int64_t size) {
      std::vector<int64_t> dims = n.dims(x);
      dims[d] = size;
      const std::vector<int64_t> ones(dims.size(), 1);
      return n.broadcast_to(n.reshape(value, ones), dims);
    };
    if (e.before[d]) parts.push_back(part(e.before[d]));
    parts.push_back(x);
    if (e.after[d]) parts.push_back(part(e.after[d]));
    x = n.concat(parts, static_cast<int64_t>(d));
  }
  return x;
}

void pad(OnnxCall& n) {
  Value* x = n.in(0);
  const auto rank = static_cast<int64_t>(x->type.rank());
  const std::string_view mode = n.node.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    throw n.refused(fmt::format("the mode '{}'", onnx_printable(mode)));
  Edges e = edges_of(n, rank);
  x = cut(n, x, e);
  const auto none = [](const std::vector<int64_t>& v) {
    return std::all_of(v.begin(), v.end(), [](int64_t p) { return p == 0; });
  };
  if (none(e.before) && none(e.after)) {
    if (x == n.in(0)) return n.out_operand(0, n.operand(0));
    return n.out(x);
  }
  if (mode != "constant") return n.out(pad_by_gather(n, x, e, mode));
  Value* value = nullptr;
  if (n.node.version < 11)
    value = n.constant(n.f(n.node.number("value", 0)));
  else
    value = n.has(2) ? n.in(2) : n.constant(n.one(x->type.dtype, 0));
  const auto known = known_floats(value);
  if (!known || x->type.dtype != DType::fp32) return n.out(pad_by_concat(n, x, e, value));
  std::vector<int64_t> pairs;
  size_t first = 0;  // MIL pads the last dimensions that are named
  while (first < e.before.size() && !e.before[first] && !e.after[first]) ++first;
  for (size_t d = first; d < e.before.size(); ++d) {
    pairs.push_back(e.before[d]);
    pairs.push_back(e.after[d]);
  }
  n.out(n.op("pad", {{"x", x},
                     {"pad", Constant::ints(pairs)},
                     {"mode", n.text("constant")},
                     {"constant_val", n.f(known->at(0))}}));
}

// Cut around the center, or padded with zeros, to the sizes given.
void center_crop_pad(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> dims = n.dims(x), sizes = n.ints(1);
  std::vector<int64_t> axes = n.node.integers("axes");
  if (axes.empty())
    for (int64_t d = 0; d < x->type.rank(); ++d) axes.push_back(d);
  if (sizes.size() != axes.size())
    throw errorf("CenterCropPad needs a size for each of its axes")
        .found(fmt::format("{} sizes for {} axes", sizes.size(), axes.size()));
  Edges e{std::vector<int64_t>(dims.size(), 0), std::vector<int64_t>(dims.size(), 0)};
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(n.axis(axes[k], x->type.rank()));
    if (sizes[k] < 0 || sizes[k] > kMostEdge) throw n.refused(fmt::format("a size of {}", sizes[k]));
    const int64_t more = sizes[k] - dims[d];
    const int64_t size = more < 0 ? -more : more;
    e.before[d] = more < 0 ? -(size / 2) : size / 2;
    e.after[d] = more - e.before[d];
  }
  x = cut(n, x, e);
  Value* y = pad_by_concat(n, x, e, n.constant(n.one(x->type.dtype, 0)));
  if (y == n.in(0)) return n.out_operand(0, n.operand(0));
  n.out(y);
}

const OnnxOp kOps[] = {{"Pad", pad}, {"CenterCropPad", center_crop_pad}};

}  // namespace

std::span<const OnnxOp> onnx_pad() { return kOps; }

}  // namespace anemone::onnx_ops
