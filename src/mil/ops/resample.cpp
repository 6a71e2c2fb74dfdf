// Images sampled at points given one by one, or by an affine map.
#include <algorithm>
#include <cmath>

#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

enum class Padding { constant, border, reflection, symmetric };
enum class Coordinates { pixels, minus_one_to_one, zero_to_one };

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& ch : out)
    if (ch >= 'A' && ch <= 'Z') ch = static_cast<char>(ch - 'A' + 'a');
  return out;
}

// How a point of an image is looked up.
struct Sampler {
  bool linear = true, align_corners = true;
  Padding padding = Padding::constant;
  Coordinates coordinates = Coordinates::pixels;
  float fill = 0;

  explicit Sampler(const OpCall& c) {
    const std::string sampling = lower(c.text("sampling_mode")), pad = lower(c.text("padding_mode")),
                      mode = lower(c.text("coordinates_mode"));
    if (sampling != "bilinear" && sampling != "nearest")
      throw errorf("unknown sampling_mode '{}'", sampling).expected("bilinear or nearest");
    linear = sampling == "bilinear";
    if (pad == "constant")
      padding = Padding::constant;
    else if (pad == "border")
      padding = Padding::border;
    else if (pad == "reflection")
      padding = Padding::reflection;
    else if (pad == "symmetric")
      padding = Padding::symmetric;
    else
      throw errorf("unknown padding_mode '{}'", pad).expected("constant, border, reflection or symmetric");
    if (mode == "normalized_minus_one_to_one")
      coordinates = Coordinates::minus_one_to_one;
    else if (mode == "normalized_zero_to_one")
      coordinates = Coordinates::zero_to_one;
    else if (mode != "unnormalized")
      throw errorf("unknown coordinates_mode '{}'", mode)
          .expected("unnormalized, normalized_minus_one_to_one or normalized_zero_to_one");
    align_corners = c.flag("align_corners");
    fill = static_cast<float>(c.number("padding_value"));
  }

  // A coordinate in pixels, whose centres are at 0 … size-1.
  double pixel(double at, double size) const {
    if (coordinates == Coordinates::pixels) return at;
    if (coordinates == Coordinates::minus_one_to_one) at = (at + 1) / 2;
    return align_corners ? at * (size - 1) : at * size - 0.5;
  }

  // The coordinate that pixel i of an output of `size` pixels has: the inverse of `pixel`.
  double coordinate(int64_t i, int64_t size) const {
    if (coordinates == Coordinates::pixels) return static_cast<double>(i);
    double at = 0.5;
    if (!align_corners)
      at = (static_cast<double>(i) + 0.5) / static_cast<double>(size);
    else if (size > 1)
      at = static_cast<double>(i) / static_cast<double>(size - 1);
    return coordinates == Coordinates::minus_one_to_one ? 2 * at - 1 : at;
  }

  // The point moved into the image as the padding mode says; for `constant` it may stay outside, by less
  // than 2.
  double placed(double at, double size) const {
    if (padding == Padding::constant) return std::isnan(at) ? -2 : std::clamp(at, -2.0, size + 1);
    if (!std::isfinite(at)) at = at > 0 ? size - 1 : 0;
    if (padding == Padding::reflection) at = reflected(at, 0, size - 1);
    if (padding == Padding::symmetric) at = reflected(at, -0.5, size - 0.5);
    return std::clamp(at, 0.0, size - 1);
  }

  static double reflected(double at, double low, double high) {
    const double span = high - low;
    if (span <= 0) return low;
    const double t = std::fmod(std::abs(at - low), 2 * span);
    return low + (t <= span ? t : 2 * span - t);
  }
};

// A point of one image: up to four pixels and their weights; a pixel of -1 is the fill value.
struct Point {
  int64_t pixels[4];
  float weights[4];
  int count;
};

Point point_at(const Sampler& s, double x, double y, int64_t height, int64_t width) {
  const double px = s.placed(s.pixel(x, static_cast<double>(width)), static_cast<double>(width));
  const double py = s.placed(s.pixel(y, static_cast<double>(height)), static_cast<double>(height));
  const auto pixel = [&](int64_t row, int64_t column) {
    return row < 0 || row >= height || column < 0 || column >= width ? -1 : row * width + column;
  };
  if (!s.linear)  // half way goes to the even pixel, as in PyTorch
    return {
        {pixel(static_cast<int64_t>(std::nearbyint(py)), static_cast<int64_t>(std::nearbyint(px))), 0, 0, 0},
        {1, 0, 0, 0},
        1};
  const double row = std::floor(py), column = std::floor(px);
  const auto h = static_cast<int64_t>(row), w = static_cast<int64_t>(column);
  const auto down = static_cast<float>(py - row), right = static_cast<float>(px - column);
  return {{pixel(h, w), pixel(h, w + 1), pixel(h + 1, w), pixel(h + 1, w + 1)},
          {(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right},
          4};
}

float value_at(const Point& p, const float* plane, float fill) {
  float out = 0;
  for (int i = 0; i < p.count; ++i)
    if (p.weights[i] != 0) out += p.weights[i] * (p.pixels[i] < 0 ? fill : plane[p.pixels[i]]);
  return out;
}

// Fills the output, [B, C, H, W], with x sampled at where(b, h, w) = (x, y).
template <class F>
void sample(const OpCall& c, F where) {
  const Sampler s(c);
  const std::vector<int64_t> x = c.type("x").dims(), out = c.out_type().dims();
  const int64_t in_plane = x[2] * x[3], out_plane = out[2] * out[3];
  if (c.out_type().size() == 0) return;
  const float* in = c.floats("x");
  float* to = c.out_floats();
  c.pool().parallel_for(out[0] * out[2], 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t w = 0; w < out[3]; ++w) {
        const int64_t b = r / out[2], h = r % out[2];
        const auto [px, py] = where(s, b, h, w);
        const Point p = point_at(s, px, py, x[2], x[3]);
        for (int64_t k = 0; k < out[1]; ++k) {
          const int64_t plane = b * out[1] + k;
          to[plane * out_plane + h * out[3] + w] = value_at(p, in + plane * in_plane, s.fill);
        }
      }
  });
}

void check_image(const OpCall& c) {
  const Type& x = c.type("x");
  if (x.rank() != 4) throw errorf("'x' must have rank 4").found(x.text());
  const Sampler s(c);
  if (s.padding != Padding::constant && (x.dim(2) == Dim(0) || x.dim(3) == Dim(0)))
    throw errorf("an empty image has no pixels to pad with").found(x.text());
}

Types infer_resample(const OpCall& c) {
  check_image(c);
  const Type &x = c.type("x"), &at = c.type("coordinates");
  if (at.rank() != 4) throw errorf("'coordinates' must have the shape [B, H, W, 2]").found(at.text());
  merged(at.dim(3), Dim(2));
  return {Type::tensor(x.dtype, {merged(x.dim(0), at.dim(0)), x.dim(1), at.dim(1), at.dim(2)})};
}

void run_resample(const OpCall& c) {
  const std::vector<int64_t> dims = c.type("coordinates").dims();
  const bool is_float = c.type("coordinates").is_float();
  const void* data = c.data("coordinates");
  const auto value = [=](int64_t i) {
    return is_float ? static_cast<double>(static_cast<const float*>(data)[i])
                    : static_cast<double>(static_cast<const int32_t*>(data)[i]);
  };
  sample(c, [&](const Sampler&, int64_t b, int64_t h, int64_t w) {
    const int64_t i = 2 * ((b * dims[1] + h) * dims[2] + w);
    return std::pair(value(i), value(i + 1));
  });
}

Types infer_affine(const OpCall& c) {
  check_image(c);
  const Type &x = c.type("x"), &m = c.type("transform_matrix");
  if (m.rank() != 2) throw errorf("'transform_matrix' must have the shape [1 or B, 6]").found(m.text());
  merged(m.dim(1), Dim(6));
  if (m.dim(0) != Dim(1)) merged(m.dim(0), x.dim(0));
  const int64_t height = c.integer("output_height"), width = c.integer("output_width");
  if (height < 1 || width < 1)
    throw errorf("the output size must be positive").found(fmt::format("{} x {}", height, width));
  return {Type::tensor(x.dtype, {x.dim(0), x.dim(1), Dim(height), Dim(width)})};
}

void run_affine(const OpCall& c) {
  const float* matrices = c.floats("transform_matrix");
  const bool one = c.type("transform_matrix").dim(0) == Dim(1);
  const std::vector<int64_t> out = c.out_type().dims();
  sample(c, [&](const Sampler& s, int64_t b, int64_t h, int64_t w) {
    const float* m = matrices + (one ? 0 : b * 6);
    const auto a = [m](int i) { return static_cast<double>(m[i]); };
    const double x = s.coordinate(w, out[3]), y = s.coordinate(h, out[2]);
    return std::pair(a(0) * x + a(1) * y + a(2), a(3) * x + a(4) * y + a(5));
  });
}

// What both ops take after their own parameters.
std::vector<Param> with_sampling(std::vector<Param> params) {
  params.insert(params.end(), {{"sampling_mode", kString, 0, kConst},
                               {"padding_mode", kString, 0, kConst},
                               {"padding_value", kFloat, 'T', kConst},
                               {"coordinates_mode", kString, 0, kConst},
                               {"align_corners", kBool, 0, kConst}});
  return params;
}

std::vector<Param> resample_params(DTypes coordinates) {
  return with_sampling({{"x", kFloat, 'T'}, {"coordinates", coordinates}});
}

const Op kOps[] = {
    {"resample",
     {{Opset::ios15, resample_params(kFp32 | kInt32)},
      {Opset::ios16, resample_params(kFloat | kInt32)},
      {Opset::ios17, resample_params(kWide)}},
     "x at the points (x, y) given for each pixel of the output",
     infer_resample,
     run_resample},
    {"affine",
     {{Opset::ios15, with_sampling({{"x", kFloat, 'T'},
                                    {"transform_matrix", kFloat, 'T'},
                                    {"output_height", kInt32, 0, kConst},
                                    {"output_width", kInt32, 0, kConst}})}},
     "x at the points that an affine map gives for each pixel of the output",
     infer_affine,
     run_affine},
};

}  // namespace

std::span<const Op> ops_resample() { return kOps; }

}  // namespace anemone::ops
