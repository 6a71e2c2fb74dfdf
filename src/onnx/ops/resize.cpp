// Resize and Upsample. Along each axis a result is a weighted sum of neighbors, whatever the mode: a matrix that is
// known now. Nearest neighbors are a gather; the two forms that Core ML has itself are used where they fit.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

struct Settings {
  std::string_view mode, coordinates, nearest;
  bool antialias = false, exclude_outside = false;
  float cubic_a = -0.75f, extrapolation = 0;
};

struct AxisPlan {
  int64_t in = 1, out = 1;
  double scale = 1, roi_begin = 0, roi_end = 1;
  bool changes() const { return in != out || scale != 1 || roi_begin != 0 || roi_end != 1; }
};

// Where the output's place lies in the input.
double original(const Settings& s, const AxisPlan& a, double x) {
  const double width = a.scale * static_cast<double>(a.in), last = static_cast<double>(a.in - 1);
  if (s.coordinates == "align_corners") return width == 1 ? 0 : x * last / (width - 1);
  if (s.coordinates == "asymmetric") return x / a.scale;
  if (s.coordinates == "tf_crop_and_resize") {
    const double span = a.roi_end - a.roi_begin;
    const double inner = width == 1 ? span * last / 2 : x * span * last / (width - 1);
    return inner + a.roi_begin * last;
  }
  if (s.coordinates == "pytorch_half_pixel" && width == 1) return -0.5;
  double offset = 0;
  if (s.coordinates == "half_pixel_symmetric")
    offset = static_cast<double>(a.in) / 2 * (1 - static_cast<double>(a.out) / width);
  if (s.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  return offset + (x + 0.5) / a.scale - 0.5;
}

double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The weights of the neighbors around a place; `ratio` is its distance from the left one, in (0, 1].
std::vector<double> weights(const Settings& s, double ratio, double scale) {
  if (s.mode == "nearest") {
    bool right = ratio == 1;
    if (s.nearest == "round_prefer_floor") right = right || ratio > 0.5;
    if (s.nearest == "round_prefer_ceil") right = right || ratio >= 0.5;
    if (s.nearest == "ceil") right = true;
    return right ? std::vector<double>{0, 1} : std::vector<double>{1, 0};
  }
  const bool linear = s.mode == "linear";
  if (!s.antialias) {
    if (linear) return {1 - ratio, ratio};
    return {cubic(ratio + 1, s.cubic_a), cubic(ratio, s.cubic_a), cubic(1 - ratio, s.cubic_a),
            cubic(2 - ratio, s.cubic_a)};
  }
  const double narrow = std::min(scale, 1.0);
  const auto start = static_cast<int64_t>(std::floor((linear ? -1 : -2) / narrow) + 1);
  std::vector<double> out;
  double sum = 0;
  for (int64_t k = start; k < 2 - start; ++k) {
    const double at = (static_cast<double>(k) - ratio) * narrow;
    out.push_back(linear ? std::clamp(1 - std::fabs(at), 0.0, 1.0) : cubic(at, s.cubic_a));
    sum += out.back();
  }
  for (double& w : out) w /= sum;
  return out;
}

struct Matrix {
  std::vector<float> values;     // [out, in]
  std::vector<uint8_t> outside;  // by place of the output
  bool any_outside = false;
};

Matrix matrix_of(const Settings& s, const AxisPlan& a) {
  Matrix m{std::vector<float>(static_cast<size_t>(a.in * a.out)),
           std::vector<uint8_t>(static_cast<size_t>(a.out)), false};
  for (int64_t o = 0; o < a.out; ++o) {
    const double x = original(s, a, static_cast<double>(o));
    if (s.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(a.in - 1))) {
      m.outside[static_cast<size_t>(o)] = 1;
      m.any_outside = true;
      continue;
    }
    const bool whole = x == std::floor(x);
    const auto left = static_cast<int64_t>(whole ? x - 1 : std::floor(x));
    std::vector<double> w = weights(s, whole ? 1 : x - std::floor(x), a.scale);
    const auto first = left - (static_cast<int64_t>(w.size()) / 2 - 1);
    if (s.exclude_outside) {
      double sum = 0;
      for (size_t k = 0; k < w.size(); ++k) {
        const int64_t at = first + static_cast<int64_t>(k);
        if (at < 0 || at >= a.in) w[k] = 0;
        sum += w[k];
      }
      for (double& each : w) each /= sum;
    }
    for (size_t k = 0; k < w.size(); ++k) {
      const int64_t at = std::clamp<int64_t>(first + static_cast<int64_t>(k), 0, a.in - 1);
      m.values[static_cast<size_t>(o * a.in + at)] += static_cast<float>(w[k]);
    }
  }
  return m;
}

Value* apply(OnnxCall& n, Value* x, size_t d, const AxisPlan& a, const Matrix& m, bool nearest) {
  if (nearest) {
    std::vector<int64_t> places;
    for (int64_t o = 0; o < a.out; ++o) {
      const float* row = m.values.data() + o * a.in;
      places.push_back(std::max_element(row, row + a.in) - row);
    }
    return n.op(
        "gather",
        {{"x", x}, {"indices", n.int_values(places, {a.out})}, {"axis", n.i(static_cast<int64_t>(d))}});
  }
  // The axis goes last, and comes back.
  std::vector<int64_t> perm;
  for (int64_t k = 0; k < x->type.rank(); ++k)
    if (k != static_cast<int64_t>(d)) perm.push_back(k);
  perm.push_back(static_cast<int64_t>(d));
  std::vector<int64_t> back(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) back[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  Value* weight = n.float_values(m.values, {a.out, a.in});
  Value* last = n.transpose(x, perm);
  if (last->type.rank() == 1) return n.squeeze(n.matmul(n.expand(last, {0}), weight, false, true), {0});
  return n.transpose(n.op("linear", {{"x", last}, {"weight", weight}}), back);
}

// Images that become larger by whole factors, or linearly with the edges that Core ML knows.
Value* by_core_ml(OnnxCall& n, Value* x, const Settings& s, const std::vector<AxisPlan>& plan) {
  if (plan.size() != 4 || plan[0].changes() || plan[1].changes() || x->type.dtype != DType::fp32)
    return nullptr;
  const AxisPlan &h = plan[2], &w = plan[3];
  const auto factor = [](const AxisPlan& a) {
    return a.out % a.in == 0 && a.scale == static_cast<double>(a.out / a.in);
  };
  const bool usual = (s.coordinates == "asymmetric" && s.nearest == "floor") ||
                     (s.coordinates == "half_pixel" && s.nearest == "round_prefer_floor");
  if (s.mode == "nearest" && usual && factor(h) && factor(w))
    return n.op("upsample_nearest_neighbor", {{"x", x},
                                              {"scale_factor_height", n.f(static_cast<float>(h.scale))},
                                              {"scale_factor_width", n.f(static_cast<float>(w.scale))}});
  const auto exact = [](const AxisPlan& a) {
    return a.scale * static_cast<double>(a.in) == static_cast<double>(a.out);
  };
  if (s.mode != "linear" || s.antialias || s.exclude_outside || !exact(h) || !exact(w)) return nullptr;
  const bool half = s.coordinates == "half_pixel",
             corners = s.coordinates == "align_corners" && h.out > 1 && w.out > 1;
  if (!half && !corners) return nullptr;
  return n.op("resize_bilinear",
              {{"x", x},
               {"target_size_height", n.i(h.out)},
               {"target_size_width", n.i(w.out)},
               {"sampling_mode", n.text(half ? "UNALIGN_CORNERS" : "STRICT_ALIGN_CORNERS")}});
}

void resize_to(OnnxCall& n, const Settings& s, const std::vector<AxisPlan>& plan) {
  Value* x = n.in(0);
  constexpr int64_t kMostWeights = int64_t{1} << 27;
  for (const AxisPlan& a : plan)
    if (a.in < 1 || a.out < 1 || a.out > kMostWeights / a.in)
      throw errorf("{} places cannot be resized to {}", a.in, a.out);
  if (Value* y = by_core_ml(n, x, s, plan)) return n.out(y);
  const bool nearest = s.mode == "nearest";
  if (!nearest) x = n.cast(x, DType::fp32);
  Value* outside = nullptr;
  for (size_t d = 0; d < plan.size(); ++d) {
    if (!plan[d].changes()) continue;
    const Matrix m = matrix_of(s, plan[d]);
    x = apply(n, x, d, plan[d], m, nearest);
    if (!m.any_outside) continue;
    std::vector<int64_t> shape(plan.size(), 1), flags(m.outside.begin(), m.outside.end());
    shape[d] = plan[d].out;
    Value* here = n.op("not_equal", {{"x", n.int_values(flags, shape)}, {"y", n.i(0)}});
    outside = outside ? n.op("logical_or", {{"x", outside}, {"y", here}}) : here;
  }
  if (outside) x = n.select(outside, n.one(x->type.dtype, s.extrapolation), x);
  if (x == n.in(0)) return n.out_operand(0, n.operand(0));
  n.out(n.cast(x, mil_dtype(n.type(0))));
}

// Sizes that keep the proportions, where the node asks for that.
void keep_proportions(std::string_view policy, std::vector<AxisPlan*>& axes) {
  if (policy == "stretch") return;
  const bool larger = policy == "not_smaller";
  double scale = axes[0]->scale;
  for (const AxisPlan* a : axes) scale = larger ? std::max(scale, a->scale) : std::min(scale, a->scale);
  for (AxisPlan* a : axes) {
    a->out = static_cast<int64_t>(std::floor(scale * static_cast<double>(a->in) + 0.5));
    a->scale = scale;
  }
}

// A scale that gives a size.
double usable(const AxisPlan& a, float scale) {
  const double size = static_cast<double>(a.in) * static_cast<double>(scale);
  if (!(scale > 0) || !(size < 0x1p31)) throw errorf("a scale of {} for {} places", scale, a.in);
  return static_cast<double>(scale);
}

void resize(OnnxCall& n) {
  Settings s;
  const bool first = n.node.version < 11;
  s.mode = n.node.text("mode", "nearest");
  s.coordinates = n.node.text("coordinate_transformation_mode", first ? "asymmetric" : "half_pixel");
  s.nearest = n.node.text("nearest_mode", first ? "floor" : "round_prefer_floor");
  s.antialias = n.node.integer("antialias", 0) != 0;
  s.exclude_outside = n.node.integer("exclude_outside", 0) != 0;
  s.cubic_a = n.node.number("cubic_coeff_a", -0.75f);
  s.extrapolation = n.node.number("extrapolation_value", 0);
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    throw n.refused(fmt::format("the mode '{}'", onnx_printable(s.mode)));
  const std::vector<int64_t> dims = n.dims(n.in(0));
  std::vector<int64_t> axes = n.node.integers("axes");
  if (axes.empty())
    for (size_t d = 0; d < dims.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  std::vector<AxisPlan> plan(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) plan[d].in = plan[d].out = dims[d];
  const size_t scales_at = first ? 1 : 2;
  const std::vector<float> scales = n.has(scales_at) ? n.floats(scales_at) : std::vector<float>();
  const std::vector<float> roi =
      !first && n.has(1) && s.coordinates == "tf_crop_and_resize" ? n.floats(1) : std::vector<float>();
  std::vector<AxisPlan*> chosen;
  const bool by_size = scales.empty();
  const std::vector<int64_t> sizes = by_size ? n.ints(3) : std::vector<int64_t>();
  for (size_t k = 0; k < axes.size(); ++k) {
    AxisPlan& a = plan[static_cast<size_t>(n.axis(axes[k], static_cast<int64_t>(dims.size())))];
    if (by_size) {
      a.out = sizes.at(k);
      a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
    } else {
      a.scale = usable(a, scales.at(k));
      a.out = static_cast<int64_t>(std::floor(static_cast<double>(a.in) * a.scale));
    }
    if (!roi.empty()) {
      a.roi_begin = static_cast<double>(roi.at(k));
      a.roi_end = static_cast<double>(roi.at(k + axes.size()));
    }
    chosen.push_back(&a);
  }
  if (by_size) keep_proportions(n.node.text("keep_aspect_ratio_policy", "stretch"), chosen);
  resize_to(n, s, plan);
}

void upsample(OnnxCall& n) {
  Settings s;
  s.mode = n.node.text("mode", "nearest");
  if (s.mode == "bilinear") s.mode = "linear";
  s.coordinates = "asymmetric";
  s.nearest = "floor";
  const std::vector<float> scales = n.node.version < 9 ? n.node.numbers("scales") : n.floats(1);
  const std::vector<int64_t> dims = n.dims(n.in(0));
  std::vector<AxisPlan> plan(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    plan[d].in = dims[d];
    plan[d].scale = usable(plan[d], scales.at(d));
    plan[d].out = static_cast<int64_t>(std::floor(static_cast<double>(dims[d]) * plan[d].scale));
  }
  resize_to(n, s, plan);
}

const OnnxOp kOps[] = {{"Resize", resize}, {"Upsample", upsample}};

}  // namespace

std::span<const OnnxOp> onnx_resize() { return kOps; }

}  // namespace anemone::onnx_ops
