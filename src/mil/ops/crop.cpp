// Parts of images, as they are or resized.
#include <algorithm>
#include <cmath>

#include "mil/loops.h"
#include "mil/ops/sampling.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer_crop(const OpCall& c) {
  Type out = c.type("x");
  if (out.rank() < 3) throw errorf("'x' must have rank 3 or more").found(out.text());
  for (const bool width : {false, true}) {
    const std::vector<int64_t> cut = c.integers(width ? "crop_width" : "crop_height");
    if (cut.size() != 2 || cut[0] < 0 || cut[1] < 0)
      throw errorf("'{}' must be two numbers that are not negative", width ? "crop_width" : "crop_height");
    Dim& dim = out.shape[out.shape.size() - (width ? 1 : 2)];
    dim = plus(plus(dim, -cut[0]), -cut[1]);
  }
  return {out};
}

void run_crop(const OpCall& c) {
  const std::vector<int64_t> strides = dense_strides(c.type("x").dims());
  const int64_t top = c.integers("crop_height")[0], left = c.integers("crop_width")[0];
  copy_strided(c.pool(), c.data("x"), top * strides[strides.size() - 2] + left, strides, c.out_type().dims(),
               c.out());
}

// Before iOS 17 a box is an entry of `roi`, [N, 1, 4 or 5, 1, 1], where a first of five numbers names the
// image.
bool has_roi(const OpCall& c) { return c.since() < Opset::ios17; }

struct BoxMode {
  bool center, width_first;
};

BoxMode box_mode(const OpCall& c) {
  const std::string_view mode = c.text("box_coordinate_mode");
  if (mode == "CORNERS_HEIGHT_FIRST") return {false, false};
  if (mode == "CORNERS_WIDTH_FIRST") return {false, true};
  if (mode == "CENTER_SIZE_HEIGHT_FIRST") return {true, false};
  if (mode == "CENTER_SIZE_WIDTH_FIRST") return {true, true};
  throw errorf("unknown box_coordinate_mode '{}'", mode)
      .expected(
          "CORNERS_HEIGHT_FIRST, CORNERS_WIDTH_FIRST, CENTER_SIZE_HEIGHT_FIRST or CENTER_SIZE_WIDTH_FIRST");
}

Types infer_crop_resize(const OpCall& c) {
  const Type& x = c.type("x");
  if (x.rank() != 4) throw errorf("'x' must have rank 4").found(x.text());
  box_mode(c);
  sampling_of(c.text("sampling_mode"));
  const int64_t height = c.integer("target_height"), width = c.integer("target_width");
  if (height < 1 || width < 1)
    throw errorf("the target size must be positive").found(fmt::format("{} x {}", height, width));
  const Type& boxes = c.type(has_roi(c) ? "roi" : "boxes");
  if (has_roi(c)) {
    const bool fits = boxes.rank() == 5 && (boxes.dim(2) == Dim(4) || boxes.dim(2) == Dim(5));
    if (!fits)
      throw errorf("'roi' must have the shape [N, 1, 4, 1, 1] or [N, 1, 5, 1, 1]").found(boxes.text());
    for (const int axis : {1, 3, 4}) merged(boxes.dim(axis), Dim(1));
    const Dim images = boxes.dim(2) == Dim(5) ? Dim(1) : x.dim(0);
    return {Type::tensor(x.dtype, {boxes.dim(0), images, x.dim(1), Dim(height), Dim(width)})};
  }
  if (boxes.rank() != 2) throw errorf("'boxes' must have the shape [N, 4]").found(boxes.text());
  merged(boxes.dim(1), Dim(4));
  if (c.has("box_indices")) {
    if (c.type("box_indices").rank() != 1)
      throw errorf("'box_indices' must be a vector").found(c.type("box_indices").text());
    merged(c.type("box_indices").dim(0), boxes.dim(0));
  }
  return {Type::tensor(x.dtype, {boxes.dim(0), x.dim(1), Dim(height), Dim(width)})};
}

// The points of a box along one dimension of an image of `size` pixels; `inside` says which are in the
// image.
struct Line {
  std::vector<Tap> taps;
  std::vector<bool> inside;
};

// A point reflected at the outer edges of the image, -0.5 and size - 0.5, as often as needed.
double mirrored(double at, double size) {
  double t = std::fmod(at + 0.5, 2 * size);
  if (t < 0) t += 2 * size;
  return (t < size ? t : 2 * size - t) - 0.5;
}

Line line_of(const OpCall& c, double start, double end, int64_t size, int64_t out) {
  constexpr double kSlack = 1e-4;  // a box that ends on the last pixel does so in fp16 and fp32 too
  const Sampling mode = sampling_of(c.text("sampling_mode"));
  const bool normalized = c.flag("normalized_coordinates");
  const auto n = static_cast<double>(size);
  Line line;
  for (int64_t i = 0; i < out; ++i) {
    double at;
    if (mode == Sampling::unalign_corners && normalized) {  // 0 and 1 are the outer edges of the image
      at = (start + (static_cast<double>(i) + 0.5) * (end - start) / static_cast<double>(out)) * n - 0.5;
    } else {
      const double first = normalized ? start * (n - 1) : start, last = normalized ? end * (n - 1) : end;
      const double extent = std::abs(last - first) + 1;
      const double step = grid_point(mode, extent, out, i);
      at = last < first ? first - step : first + step;
    }
    if (mode == Sampling::unalign_corners && std::isfinite(at) && size > 0) {
      // Without a pad value what is outside is the mirrored image.
      if (c.since() < Opset::ios16) at = mirrored(at, n);
      if (at >= -0.5 && at <= n - 0.5) at = std::clamp(at, 0.0, n - 1);
    }
    const bool inside = size > 0 && at >= -kSlack && at <= n - 1 + kSlack;
    line.inside.push_back(inside);
    line.taps.push_back(inside ? tap_at(std::clamp(at, 0.0, n - 1), size) : Tap{});
  }
  return line;
}

// Four numbers of a box as first and last row and column.
struct Bounds {
  double top, bottom, left, right;
};

Bounds bounds_of(const OpCall& c, const double* box) {
  const BoxMode mode = box_mode(c);
  const double scale = c.number("spatial_scale");
  const double h0 = box[mode.width_first ? 1 : 0] * scale, w0 = box[mode.width_first ? 0 : 1] * scale;
  const double h1 = box[mode.width_first ? 3 : 2] * scale, w1 = box[mode.width_first ? 2 : 3] * scale;
  if (mode.center) return {h0 - h1 / 2, h0 + h1 / 2, w0 - w1 / 2, w0 + w1 / 2};
  return {h0, h1, w0, w1};
}

void crop_plane(const float* x, int64_t width, const Line& rows, const Line& columns, float pad, float* out) {
  for (size_t r = 0; r < rows.taps.size(); ++r)
    for (size_t k = 0; k < columns.taps.size(); ++k, ++out) {
      if (!rows.inside[r] || !columns.inside[k]) {
        *out = pad;
        continue;
      }
      const Tap &h = rows.taps[r], &w = columns.taps[k];
      const float *low = x + h.low * width, *high = x + h.high * width;
      const float top = low[w.low] * (1 - w.weight) + low[w.high] * w.weight;
      const float bottom = high[w.low] * (1 - w.weight) + high[w.high] * w.weight;
      *out = top * (1 - h.weight) + bottom * h.weight;
    }
}

// The image of each box, or -1 for all of them.
std::vector<int64_t> image_indices(const OpCall& c, const std::vector<double>& boxes, int64_t entries,
                                   int64_t count) {
  const int64_t images = c.type("x").dim(0).size();
  std::vector<int64_t> out(static_cast<size_t>(count), -1);
  if (has_roi(c) && entries == 4) return out;
  for (int64_t n = 0; n < count; ++n) {
    double index = static_cast<double>(n);
    if (has_roi(c))
      index = boxes[static_cast<size_t>(n * entries)];
    else if (c.has("box_indices"))
      index = c.ints("box_indices")[n];
    if (!(index >= 0 && index < static_cast<double>(images)) || index != std::floor(index))
      throw errorf("box {} names image {}", n, index).expected(fmt::format("0 to {}", images - 1));
    out[static_cast<size_t>(n)] = static_cast<int64_t>(index);
  }
  return out;
}

void run_crop_resize(const OpCall& c) {
  const std::vector<int64_t> x = c.type("x").dims(), out = c.out_type().dims();
  const int64_t count = out[0], height = out[out.size() - 2], width = out.back();
  if (c.out_type().size() == 0) return;
  const std::vector<double> boxes = c.numbers(has_roi(c) ? "roi" : "boxes");
  const int64_t entries = static_cast<int64_t>(boxes.size()) / count;
  const std::vector<int64_t> images = image_indices(c, boxes, entries, count);
  const float pad = c.since() < Opset::ios16 ? 0.0f : static_cast<float>(c.number("pad_value"));
  const int64_t per_box = has_roi(c) ? out[1] : 1;
  c.pool().parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const Bounds b = bounds_of(c, boxes.data() + n * entries + (entries - 4));
      const Line rows = line_of(c, b.top, b.bottom, x[2], height),
                 columns = line_of(c, b.left, b.right, x[3], width);
      for (int64_t k = 0; k < per_box; ++k) {
        const int64_t image = images[static_cast<size_t>(n)] < 0 ? k : images[static_cast<size_t>(n)];
        for (int64_t channel = 0; channel < x[1]; ++channel)
          crop_plane(c.floats("x") + (image * x[1] + channel) * x[2] * x[3], x[3], rows, columns, pad,
                     c.out_floats() + ((n * per_box + k) * x[1] + channel) * height * width);
      }
    }
  });
}

std::vector<Param> crop_resize_params(Opset since) {
  std::vector<Param> out = {{"x", kFloat, 'T'}};
  if (since < Opset::ios17) {
    out.push_back({"roi", kFloat, 'T'});
  } else {
    out.push_back({"boxes", kFloat | only(DType::uint16)});
    out.push_back({"box_indices", kInt32 | only(DType::uint16), 0, kOptional});
  }
  out.insert(out.end(), {{"target_height", kInt32, 0, kOptional | kConst, int64_t{1}},
                         {"target_width", kInt32, 0, kOptional | kConst, int64_t{1}},
                         {"normalized_coordinates", kBool, 0, kOptional | kConst, false},
                         {"spatial_scale", kFloat, 0, kOptional | kConst, 1.0},
                         {"box_coordinate_mode", kString, 0, kOptional | kConst, "CORNERS_HEIGHT_FIRST"},
                         {"sampling_mode", kString, 0, kOptional | kConst, "DEFAULT"}});
  if (since >= Opset::ios16) out.push_back({"pad_value", kFloat, 'T', kOptional | kConst, 0.0});
  return out;
}

const Op kOps[] = {
    {"crop",
     {{Opset::ios15,
       {{"x", kFloat, 'T'}, {"crop_height", kInt32, 0, kConst}, {"crop_width", kInt32, 0, kConst}}}},
     "x without some rows and columns at its edges",
     infer_crop,
     run_crop},
    {"crop_resize",
     {{Opset::ios15, crop_resize_params(Opset::ios15)},
      {Opset::ios16, crop_resize_params(Opset::ios16)},
      {Opset::ios17, crop_resize_params(Opset::ios17)}},
     "boxes of images resized to one size, linear between pixels",
     infer_crop_resize,
     run_crop_resize},
};

}  // namespace

std::span<const Op> ops_crop() { return kOps; }

}  // namespace anemone::ops
