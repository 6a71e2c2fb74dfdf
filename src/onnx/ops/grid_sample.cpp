// GridSample and AffineGrid: tensors at computed places.
#include <cmath>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

struct Axis {
  int64_t size = 1;
  float low = 0, high = 0;  // borders of reflection
  Value* at = nullptr;      // the place, in elements
  Value* floor = nullptr;
};

Value* clamp(OnnxCall& n, Value* x, float low, float high) {
  return n.op("clip", {{"x", x}, {"alpha", n.f(low)}, {"beta", n.f(high)}});
}

// Back and forth between the borders.
Value* reflect(OnnxCall& n, Value* x, const Axis& a) {
  const float range = a.high - a.low;
  if (range <= 0) return n.mul(x, n.f(0));
  Value* t = n.op("mod", {{"x", n.sub(x, n.f(a.low))}, {"y", n.f(2 * range)}});
  Value* back = n.sub(n.f(2 * range), t);
  return n.add(n.select(n.op("less_equal", {{"x", t}, {"y", n.f(range)}}), t, back), n.f(a.low));
}

// One neighbor along an axis: which element, its weight, and whether it exists.
struct Tap {
  Value *index, *weight, *exists;
};

Value* cubic_weight(OnnxCall& n, Value* x, int k) {
  constexpr float kA = -0.75f;
  const auto poly = [&](Value* t, float c3, float c2, float c1, float c0) {
    Value* y = n.add(n.mul(t, n.f(c3)), n.f(c2));
    y = n.add(n.mul(y, t), n.f(c1));
    return n.add(n.mul(y, t), n.f(c0));
  };
  Value* rest = n.sub(n.f(1), x);
  switch (k) {
    case 0: return poly(n.add(x, n.f(1)), kA, -5 * kA, 8 * kA, -4 * kA);
    case 1: return poly(x, kA + 2, -(kA + 3), 0, 1);
    case 2: return poly(rest, kA + 2, -(kA + 3), 0, 1);
    default: return poly(n.add(rest, n.f(1)), kA, -5 * kA, 8 * kA, -4 * kA);
  }
}

std::vector<Tap> taps(OnnxCall& n, const Axis& a, std::string_view mode, std::string_view padding) {
  std::vector<Tap> out;
  const int first = mode == "cubic" ? -1 : 0, last = mode == "nearest" ? 0 : mode == "cubic" ? 2 : 1;
  Value* part = mode == "nearest" ? nullptr : n.sub(a.at, a.floor);
  for (int k = first; k <= last; ++k) {
    Tap t{};
    Value* place = k ? n.add(a.floor, n.f(static_cast<float>(k))) : a.floor;
    if (mode == "cubic")
      t.weight = cubic_weight(n, part, k + 1);
    else if (mode == "linear")
      t.weight = k ? part : n.sub(n.f(1), part);
    const auto top = static_cast<float>(a.size - 1);
    if (padding == "zeros") {
      Value* low = n.op("greater_equal", {{"x", place}, {"y", n.f(0)}});
      Value* high = n.op("less_equal", {{"x", place}, {"y", n.f(top)}});
      t.exists = n.cast(n.op("logical_and", {{"x", low}, {"y", high}}), DType::fp32);
    } else if (padding == "reflection") {
      place = reflect(n, place, a);
    }
    t.index = n.cast(clamp(n, place, 0, top), DType::int32);
    out.push_back(t);
  }
  return out;
}

Axis axis_of(OnnxCall& n, Value* grid, int64_t at, int64_t size, std::string_view mode,
             std::string_view padding) {
  Axis a;
  a.size = size;
  const bool corners = n.node.integer("align_corners", 0) != 0;
  const auto length = static_cast<float>(size);
  a.low = corners ? 0 : -0.5f;
  a.high = corners ? length - 1 : length - 0.5f;
  const int64_t last = grid->type.rank() - 1;
  Value* g = n.add(n.squeeze(n.slice(grid, last, at, at + 1), {last}), n.f(1));
  Value* x = corners ? n.mul(n.div(g, n.f(2)), n.f(length - 1))
                     : n.div(n.sub(n.mul(g, n.f(length)), n.f(1)), n.f(2));
  if (mode == "nearest") x = n.unary("round", x);
  if (padding == "border") x = clamp(n, x, 0, length - 1);
  if (padding == "reflection") {
    Value* out_low = n.op("less", {{"x", x}, {"y", n.f(a.low)}});
    Value* out_high = n.op("greater", {{"x", x}, {"y", n.f(a.high)}});
    x = n.select(n.op("logical_or", {{"x", out_low}, {"y", out_high}}), reflect(n, x, a), x);
  }
  a.at = x;
  a.floor = mode == "nearest" ? x : n.unary("floor", x);
  return a;
}

void grid_sample(OnnxCall& n) {
  Value *x = n.in(0), *grid = n.in(1);
  const std::vector<int64_t> dims = n.dims(x), places = n.dims(grid);
  if (dims.size() < 3 || places.size() != dims.size())
    throw errorf("a grid {} does not fit {}", shape_text(places), shape_text(dims));
  const size_t rank = dims.size() - 2;
  std::string_view mode = n.node.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string_view padding = n.node.text("padding_mode", "zeros");
  const std::vector<int64_t> outs(places.begin() + 1, places.end() - 1);
  const int64_t count = element_count(outs), plane = element_count(std::span(dims).subspan(2));
  grid = n.reshape(grid, {dims[0], count, static_cast<int64_t>(rank)});
  std::vector<std::vector<Tap>> all;
  for (size_t d = 0; d < rank; ++d)
    all.push_back(taps(n, axis_of(n, grid, static_cast<int64_t>(rank - 1 - d), dims[d + 2], mode, padding),
                       mode, padding));
  Value* flat = n.reshape(x, {dims[0], dims[1], plane});
  Value* sum = nullptr;
  size_t combinations = 1;
  for (const auto& each : all) combinations *= each.size();
  for (size_t c = 0; c < combinations; ++c) {
    Value *index = nullptr, *weight = nullptr;
    size_t rest = c;
    for (size_t d = 0; d < rank; ++d) {
      const Tap& t = all[d][rest % all[d].size()];
      rest /= all[d].size();
      index = index ? n.add(n.mul(index, n.i(dims[d + 2])), t.index) : t.index;
      for (Value* factor : {t.weight, t.exists})
        if (factor) weight = weight ? n.mul(weight, factor) : factor;
    }
    Value* wide = n.broadcast_to(n.expand(index, {1}), {dims[0], dims[1], count});
    Value* here = n.op("gather_along_axis", {{"x", flat}, {"indices", wide}, {"axis", n.i(2)}});
    if (weight) here = n.mul(here, n.expand(weight, {1}));
    sum = sum ? n.add(sum, here) : here;
  }
  std::vector<int64_t> shape = {dims[0], dims[1]};
  shape.insert(shape.end(), outs.begin(), outs.end());
  n.out(n.reshape(sum, shape));
}

// theta [N, 2, 3] or [N, 3, 4] over the places of an image of the size given.
void affine_grid(OnnxCall& n) {
  Value* theta = n.in(0);
  const std::vector<int64_t> size = n.ints(1);
  const bool corners = n.node.integer("align_corners", 0) != 0;
  if (size.size() < 3)
    throw errorf("a size has a batch, channels and at least one length").found(shape_text(size));
  const size_t rank = size.size() - 2;
  std::vector<int64_t> outs(size.begin() + 2, size.end());
  const int64_t count = element_count(outs);
  std::vector<float> base(static_cast<size_t>(count) * (rank + 1), 1.0f);
  for (int64_t e = 0; e < count; ++e) {
    int64_t rest = e;
    for (size_t d = rank; d-- > 0;) {  // x, the last dimension, comes first
      const int64_t at = rest % outs[d];
      rest /= outs[d];
      const auto length = static_cast<float>(outs[d]), place = static_cast<float>(at);
      const float value =
          corners ? (outs[d] > 1 ? -1 + 2 * place / (length - 1) : -1) : -1 + (2 * place + 1) / length;
      base[static_cast<size_t>(e) * (rank + 1) + (rank - 1 - d)] = value;
    }
  }
  Value* points = n.float_values(base, {1, count, static_cast<int64_t>(rank) + 1});
  Value* y = n.matmul(points, theta, false, true);
  std::vector<int64_t> shape = {size[0]};
  shape.insert(shape.end(), outs.begin(), outs.end());
  shape.push_back(static_cast<int64_t>(rank));
  n.out(n.reshape(y, shape));
}

const OnnxOp kOps[] = {{"GridSample", grid_sample}, {"AffineGrid", affine_grid}};

}  // namespace

std::span<const OnnxOp> onnx_grid_sample() { return kOps; }

}  // namespace anemone::onnx_ops
