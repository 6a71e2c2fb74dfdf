// Images at other places: Resize, Upsample, GridSample, AffineGrid.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

// Keys' cubic of two pieces.
double cubic_at(double x, double a) {
  const double t = std::fabs(x);
  if (t <= 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
  return t < 2 ? a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a : 0;
}

struct Along {  // how one axis is resized
  int64_t in = 1, out = 1;
  double scale = 1, roi_begin = 0, roi_end = 1;
};

double source_place(const Along& a, std::string_view way, double o) {
  const auto n = static_cast<double>(a.in), width = n * a.scale;
  if (way == "asymmetric") return o / a.scale;
  if (way == "align_corners") return width == 1 ? 0 : o * (n - 1) / (width - 1);
  if (way == "pytorch_half_pixel" && width <= 1) return -0.5;
  if (way == "tf_half_pixel_for_nn") return (o + 0.5) / a.scale;
  if (way == "tf_crop_and_resize") {
    const double length = (a.roi_end - a.roi_begin) * (n - 1);
    return a.roi_begin * (n - 1) + (width == 1 ? length / 2 : o * length / (width - 1));
  }
  double shift = 0;
  if (way == "half_pixel_symmetric") shift = n / 2 * (1 - static_cast<double>(a.out) / width);
  return shift + (o + 0.5) / a.scale - 0.5;
}

struct Weight {
  int64_t at;
  double share;
};

int64_t nearest_place(const Context& c, double x, bool first) {
  const std::string_view how = c.node.text("nearest_mode", first ? "floor" : "round_prefer_floor");
  if (how == "floor") return static_cast<int64_t>(std::floor(x));
  if (how == "ceil") return static_cast<int64_t>(std::ceil(x));
  return static_cast<int64_t>(how == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5));
}

// The elements that make up the place x of an axis, not yet cut to its ends.
std::vector<Weight> weights_at(const Context& c, std::string_view mode, double x, double scale, bool first) {
  if (mode == "nearest") return {{nearest_place(c, x, first), 1}};
  const bool cubic = mode == "cubic", wide = c.node.integer("antialias", 0) != 0 && scale < 1;
  const double a = static_cast<double>(c.node.number("cubic_coeff_a", -0.75f)), squeeze = wide ? scale : 1;
  const double reach = (cubic ? 2 : 1) / squeeze;
  if (!(reach < 1e6)) throw errorf("a scale of {}", scale);
  std::vector<Weight> out;
  double sum = 0;
  for (auto k = static_cast<int64_t>(std::floor(x - reach)); k <= static_cast<int64_t>(std::ceil(x + reach));
       ++k) {
    const double t = (static_cast<double>(k) - x) * squeeze;
    const double share = cubic ? cubic_at(t, a) : std::max(0.0, 1 - std::fabs(t));
    if (share == 0) continue;
    out.push_back({k, share});
    sum += share;
  }
  for (Weight& w : out) w.share /= wide ? sum : 1;
  return out;
}

OnnxArray resized_along(const Context& c, const OnnxArray& x, size_t d, const Along& a, std::string_view mode,
                        std::string_view way, bool first) {
  std::vector<int64_t> dims = x.dims;
  dims[d] = a.out;
  OnnxArray y = made(x.type, dims);
  const int64_t inner = strides_of(x.dims)[d];
  const bool exclude = c.node.integer("exclude_outside", 0) != 0;
  for (int64_t o = 0; o < a.out; ++o) {
    const double place = source_place(a, way, static_cast<double>(o));
    std::vector<Weight> weights = weights_at(c, mode, place, a.scale, first);
    double sum = 0;
    for (Weight& w : weights) {
      if (exclude && mode != "nearest" && (w.at < 0 || w.at >= a.in)) w.share = 0;
      w.at = std::clamp<int64_t>(w.at, 0, a.in - 1);
      sum += w.share;
    }
    const bool outside = way == "tf_crop_and_resize" && (place < 0 || place > static_cast<double>(a.in - 1));
    for (int64_t line = 0; line < x.size() / a.in; ++line) {
      const int64_t outer = line / inner, rest = line % inner;
      double v = 0;
      for (const Weight& w : weights)
        v +=
            w.share / (exclude ? sum : 1) * x.data[static_cast<size_t>((outer * a.in + w.at) * inner + rest)];
      if (outside) v = static_cast<double>(c.node.number("extrapolation_value", 0));
      y.data[static_cast<size_t>((outer * a.out + o) * inner + rest)] = v;
    }
  }
  return y;
}

OnnxArray resized(const Context& c, const std::vector<Along>& plan, std::string_view mode,
                  std::string_view way, bool first) {
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    throw errorf("the mode '{}' is not supported here", onnx_printable(mode));
  OnnxArray y = c[0];
  if (y.size() == 0) throw errorf("there is nothing to resize");
  for (size_t d = 0; d < plan.size(); ++d) {
    const Along& a = plan[d];
    if (a.out < 0 || a.out > most_elements()) throw errorf("a size would be {}", a.out);
    if (!(a.scale > 0 && a.scale < 1e9) || !(std::fabs(a.roi_begin) < 1e9 && std::fabs(a.roi_end) < 1e9))
      throw errorf("a scale or a region is no usual number").found(fmt::format("{}", a.scale));
    if (a.in != a.out || a.scale != 1 || a.roi_begin != 0 || a.roi_end != 1)
      y = resized_along(c, y, d, a, mode, way, first);
  }
  if (onnx_type_info(y.type).integer)
    for (double& v : y.data) v = std::trunc(v);
  return y;
}

// One scale for all axes that were asked for, so that the image keeps its proportions.
void keep_proportions(std::string_view policy, std::vector<Along*>& axes) {
  if (policy == "stretch" || axes.empty()) return;
  double scale = axes[0]->scale;
  for (const Along* a : axes)
    scale = policy == "not_smaller" ? std::max(scale, a->scale) : std::min(scale, a->scale);
  for (Along* a : axes) {
    a->scale = scale;
    a->out = whole(std::floor(scale * static_cast<double>(a->in) + 0.5));
  }
}

Arrays resize(const Context& c) {
  const bool first = c.node.version < 11;
  const std::string_view way =
      c.node.text("coordinate_transformation_mode", first ? "asymmetric" : "half_pixel");
  const std::vector<int64_t>& dims = c[0].dims;
  std::vector<int64_t> axes = c.node.integers("axes");
  if (axes.empty())
    for (size_t d = 0; d < dims.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  std::vector<Along> plan(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) plan[d].in = plan[d].out = dims[d];
  const size_t at_scales = first ? 1 : 2;
  const bool scaled = c.has(at_scales) && c[at_scales].size() > 0;
  std::vector<Along*> chosen;
  for (size_t k = 0; k < axes.size(); ++k) {
    Along& a = plan[static_cast<size_t>(at_axis(axes[k], c[0].rank()))];
    const auto n = static_cast<double>(a.in);
    a.scale = scaled ? c[at_scales].data.at(k) : c[3].data.at(k) / n;
    a.out = whole(scaled ? std::floor(n * a.scale) : c[3].data.at(k));
    if (!first && c.has(1) && way == "tf_crop_and_resize") {
      a.roi_begin = c[1].data.at(k);
      a.roi_end = c[1].data.at(k + axes.size());
    }
    chosen.push_back(&a);
  }
  if (!scaled) keep_proportions(c.node.text("keep_aspect_ratio_policy", "stretch"), chosen);
  return {resized(c, plan, c.node.text("mode", "nearest"), way, first)};
}

Arrays upsample(const Context& c) {
  std::string_view mode = c.node.text("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  std::vector<double> scales;
  if (c.node.version < 9)
    for (const float v : c.node.numbers("scales")) scales.push_back(static_cast<double>(v));
  else
    scales = c[1].data;
  std::vector<Along> plan(c[0].dims.size());
  for (size_t d = 0; d < plan.size(); ++d) {
    plan[d].in = c[0].dims[d];
    plan[d].scale = scales.at(d);
    plan[d].out = whole(std::floor(static_cast<double>(plan[d].in) * plan[d].scale));
  }
  return {resized(c, plan, mode, "asymmetric", true)};
}

// Back and forth between two borders.
double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  double t = std::fmod(std::fabs(x - low), 2 * range);
  if (t > range) t = 2 * range - t;
  return low + t;
}

class Sampler {
 public:
  explicit Sampler(const Context& c) : sizes_(c[0].dims.begin() + 2, c[0].dims.end()) {
    mode_ = c.node.text("mode", "linear");
    padding_ = c.node.text("padding_mode", "zeros");
    corners_ = c.node.integer("align_corners", 0) != 0;
  }

  // The value of a plane at a point of the grid, x first.
  double at(const double* plane, const double* point) const {
    std::vector<std::vector<Weight>> axes;
    for (size_t d = 0; d < sizes_.size(); ++d) axes.push_back(taps(d, point[sizes_.size() - 1 - d]));
    return sum(plane, axes, 0, 0);
  }

 private:
  std::pair<double, double> borders(size_t d) const {
    const auto n = static_cast<double>(sizes_[d]);
    return corners_ ? std::pair(0.0, n - 1) : std::pair(-0.5, n - 0.5);
  }

  // The index for an element that may lie outside; -1 where it counts as zero.
  int64_t inside(size_t d, int64_t k) const {
    const int64_t n = sizes_[d];
    if (k >= 0 && k < n) return k;
    if (padding_ == "zeros") return -1;
    if (padding_ == "border") return std::clamp<int64_t>(k, 0, n - 1);
    const auto [low, high] = borders(d);
    return std::clamp<int64_t>(static_cast<int64_t>(reflected(static_cast<double>(k), low, high)), 0, n - 1);
  }

  std::vector<Weight> taps(size_t d, double g) const {
    const auto n = static_cast<double>(sizes_[d]);
    double x = corners_ ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
    const bool nearest = mode_ == "nearest";
    if (!(std::fabs(x) < 1e9)) throw errorf("a place of the grid is {}", g);
    if (nearest) x = std::nearbyint(x);
    const auto [low, high] = borders(d);
    if (x < low || x > high) {
      if (padding_ == "border") x = std::clamp(x, 0.0, n - 1);
      if (padding_ == "reflection") x = reflected(x, low, high);
    }
    std::vector<Weight> out;
    if (nearest) return {{inside(d, static_cast<int64_t>(x)), 1}};
    const double floor = std::floor(x);
    const bool cubic = mode_ == "cubic" || mode_ == "bicubic";
    for (int64_t k = cubic ? -1 : 0; k <= (cubic ? 2 : 1); ++k) {
      const double apart = std::fabs(floor + static_cast<double>(k) - x);
      out.push_back({inside(d, static_cast<int64_t>(floor) + k), cubic ? cubic_at(apart, -0.75) : 1 - apart});
    }
    return out;
  }

  double sum(const double* plane, const std::vector<std::vector<Weight>>& axes, size_t d,
             int64_t place) const {
    if (d == axes.size()) return plane[place];
    double out = 0;
    for (const Weight& w : axes[d])
      if (w.at >= 0) out += w.share * sum(plane, axes, d + 1, place * sizes_[d] + w.at);
    return out;
  }

  std::vector<int64_t> sizes_;
  std::string_view mode_, padding_;
  bool corners_ = false;
};

Arrays grid_sample(const Context& c) {
  const OnnxArray &x = c[0], &grid = c[1];
  if (x.rank() < 3 || grid.rank() != x.rank() || grid.dims.back() != x.rank() - 2 ||
      grid.dims[0] != x.dims[0])
    throw errorf("the grid {} does not fit {}", shape_text(grid.dims), shape_text(x.dims));
  std::vector<int64_t> dims = {x.dims[0], x.dims[1]};
  dims.insert(dims.end(), grid.dims.begin() + 1, grid.dims.end() - 1);
  OnnxArray y = made(x.type, dims);
  const Sampler sampler(c);
  const int64_t planes = x.dims[0] * x.dims[1], plane = planes ? x.size() / planes : 0,
                points = planes ? y.size() / planes : 0, width = grid.dims.back();
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t k = 0; k < points; ++k)
      y.data[static_cast<size_t>(p * points + k)] =
          sampler.at(x.data.data() + p * plane, grid.data.data() + (p / x.dims[1] * points + k) * width);
  return {y};
}

// theta [N, 2, 3] or [N, 3, 4] over the places of an image of the size given.
Arrays affine_grid(const Context& c) {
  const std::vector<int64_t> size = c.ints(1);
  const auto n = static_cast<int64_t>(size.size()) - 2;
  if (n < 1 || c[0].dims != std::vector<int64_t>{size[0], n, n + 1})
    throw errorf("theta {} does not fit {}", shape_text(c[0].dims), shape_text(size));
  const bool corners = c.node.integer("align_corners", 0) != 0;
  std::vector<int64_t> dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  const std::vector<int64_t> places = dims;
  dims.push_back(n);
  OnnxArray y = made(c[0].type, dims);
  size_t k = 0;
  each_place(places, [&](const std::vector<int64_t>& at) {
    std::vector<double> point(static_cast<size_t>(n) + 1, 1.0);  // x first, and 1 at the end
    for (int64_t d = 0; d < n; ++d) {
      const auto length = static_cast<double>(places[static_cast<size_t>(d) + 1]),
                 i = static_cast<double>(at[static_cast<size_t>(d) + 1]);
      point[static_cast<size_t>(n - 1 - d)] =
          corners ? (length > 1 ? 2 * i / (length - 1) - 1 : -1) : (2 * i + 1) / length - 1;
    }
    for (int64_t row = 0; row < n; ++row, ++k)
      for (int64_t column = 0; column <= n; ++column)
        y.data[k] += c[0].data[static_cast<size_t>((at[0] * n + row) * (n + 1) + column)] *
                     point[static_cast<size_t>(column)];
  });
  return {y};
}

}  // namespace

void add_sampling(Table& t) {
  t["Resize"] = resize;
  t["Upsample"] = upsample;
  t["GridSample"] = grid_sample;
  t["AffineGrid"] = affine_grid;
}

}  // namespace anemone::interpret
