// Images of another size: the last dimensions sampled on another grid.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/shape.h"
#include "mil/loops.h"
#include "mil/ops/sampling.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// How the points of one dimension are made from those of x.
using Taps = std::vector<Tap>;

Taps linear_taps(Sampling mode, int64_t in, int64_t out) {
  Taps taps;
  for (int64_t i = 0; i < out; ++i)
    taps.push_back(tap_at(grid_point(mode, static_cast<double>(in), out, i), in));
  return taps;
}

// The pixel whose area holds the point. For the default mode that is the area under the centre of the new
// pixel, as in TensorFlow with half_pixel_centers.
Taps nearest_taps(Sampling mode, int64_t in, int64_t out) {
  if (mode == Sampling::standard) mode = Sampling::unalign_corners;
  Taps taps;
  for (int64_t i = 0; i < out; ++i) {
    const double at = std::floor(grid_point(mode, static_cast<double>(in), out, i) + 0.5);
    const int64_t k = std::min(static_cast<int64_t>(at), in - 1);
    taps.push_back({k, k, 0});
  }
  return taps;
}

// The pixel at or before i * in / out.
Taps floor_taps(int64_t in, int64_t out) {
  Taps taps;
  int64_t at = 0, rest = 0;  // i * in = at * out + rest
  for (int64_t i = 0; i < out; ++i) {
    taps.push_back({at, at, 0});
    at += in / out;
    rest += in % out;
    if (rest >= out) {
      ++at;
      rest -= out;
    }
  }
  return taps;
}

// One dimension of a dense tensor resampled: [outer, in, inner] to [outer, taps, inner].
template <class T>
void resample(ThreadPool& pool, const T* in, int64_t size, int64_t outer, int64_t inner, const Taps& taps,
              T* out) {
  const auto count = static_cast<int64_t>(taps.size());
  if (inner == 0) return;
  pool.parallel_for(outer * count, std::max<int64_t>(1, kMapGrain / inner), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const Tap& tap = taps[static_cast<size_t>(r % count)];
      const T* low = in + (r / count * size + tap.low) * inner;
      const T* high = in + (r / count * size + tap.high) * inner;
      T* to = out + r * inner;
      if (tap.weight == 0) {
        std::memcpy(to, low, static_cast<size_t>(inner) * sizeof(T));
        continue;
      }
      const float w = tap.weight;
      for (int64_t i = 0; i < inner; ++i)
        to[i] = static_cast<T>(static_cast<float>(low[i]) * (1 - w) + static_cast<float>(high[i]) * w);
    }
  });
}

// The last taps.size() dimensions resampled one after the other, the last first.
template <class T>
void resample_all(const OpCall& c, const T* in, T* out, const std::vector<Taps>& taps) {
  std::vector<int64_t> dims = c.type("x").dims();
  std::vector<T> buffers[2];
  for (size_t k = taps.size(); k-- > 0;) {
    const size_t axis = dims.size() - taps.size() + k;
    const int64_t outer = element_count(std::span(dims).first(axis));
    const int64_t inner = element_count(std::span(dims).subspan(axis + 1));
    const int64_t size = dims[axis];
    dims[axis] = static_cast<int64_t>(taps[k].size());
    T* to = out;
    if (k > 0) {
      buffers[k % 2].resize(static_cast<size_t>(element_count(dims)));
      to = buffers[k % 2].data();
    }
    resample(c.pool(), in, size, outer, inner, taps[k], to);
    in = to;
  }
}

void run_taps(const OpCall& c, const std::vector<Taps>& taps, bool linear) {
  const auto count = static_cast<size_t>(c.out_type().size());
  if (count == 0) return;
  if (!linear || taps.empty()) {
    if (taps.empty())
      std::memcpy(c.out(), c.data("x"), count * 4);
    else
      resample_all(c, static_cast<const uint32_t*>(c.data("x")), static_cast<uint32_t*>(c.out()), taps);
    return;
  }
  if (c.type("x").is_float()) return resample_all(c, c.floats("x"), c.out_floats(), taps);
  const int32_t* x = c.ints("x");
  const std::vector<float> in(x, x + c.type("x").size());
  std::vector<float> out(count);
  resample_all(c, in.data(), out.data(), taps);
  for (size_t i = 0; i < count; ++i)
    c.out_ints()[i] = static_cast<int32_t>(
        std::clamp(std::nearbyint(static_cast<double>(out[i])), -2147483648.0, 2147483647.0));
}

// The taps of the last two dimensions, made by taps(in, out).
template <class F>
std::vector<Taps> spatial_taps(const OpCall& c, F taps) {
  const Type &x = c.type("x"), &out = c.out_type();
  std::vector<Taps> all;
  for (int axis = x.rank() - 2; axis < x.rank(); ++axis) {
    const int64_t in = x.dim(axis).size(), n = out.dim(axis).size();
    all.push_back(in == 0 ? Taps{} : taps(in, n));
  }
  return all;
}

Types sized(const OpCall& c, Dim height, Dim width) {
  Type out = c.type("x");
  const auto rank = out.shape.size();
  if (rank < 3) throw errorf("'x' must have rank 3 or more").found(out.text());
  const Dim sizes[] = {height, width};
  for (size_t i = 0; i < 2; ++i) {
    const Dim in = out.shape[rank - 2 + i];
    if (in == Dim(0) && sizes[i] != Dim(0))
      throw errorf("an empty image cannot be resized").found(out.text());
    out.shape[rank - 2 + i] = sizes[i];
  }
  return {out};
}

Types infer_target(const OpCall& c) {
  const int64_t height = c.integer("target_size_height"), width = c.integer("target_size_width");
  if (height < 1 || width < 1)
    throw errorf("the target size must be positive").found(fmt::format("{} x {}", height, width));
  return sized(c, height, width);
}

Types infer_bilinear(const OpCall& c) {
  sampling_of(c.text("sampling_mode"));
  return infer_target(c);
}

// floor(size * factor), in the precision of the factor.
Dim upscaled(const OpCall& c, std::string_view param, Dim size) {
  const double factor = c.number(param);
  if (!(factor > 0) || factor > 1e6)
    throw errorf("'{}' is out of range", param).found(fmt::format("{}", factor));
  if (factor == std::floor(factor)) return scaled(size, static_cast<int64_t>(factor));
  if (!size.known()) return Dim::unknown();
  if (size.size() > (int64_t{1} << 40)) throw errorf("the dimension {} is too large to resize", size.size());
  return static_cast<int64_t>(std::floor(static_cast<float>(factor) * static_cast<float>(size.size())));
}

Types infer_upsample(const OpCall& c) {
  const Type& x = c.type("x");
  if (x.rank() < 3) throw errorf("'x' must have rank 3 or more").found(x.text());
  return sized(c, upscaled(c, "scale_factor_height", x.dim(x.rank() - 2)),
               upscaled(c, "scale_factor_width", x.dim(x.rank() - 1)));
}

Sampling upsample_mode(const OpCall& c) {
  const bool align = c.flag("align_corners");
  const bool half_pixel = c.has("half_pixel_centers") ? c.flag("half_pixel_centers") : !align;
  if (align && half_pixel) throw errorf("'align_corners' and 'half_pixel_centers' exclude each other");
  if (align) return Sampling::strict_align_corners;
  return half_pixel ? Sampling::unalign_corners : Sampling::standard;
}

Types infer_upsample_bilinear(const OpCall& c) {
  upsample_mode(c);
  return infer_upsample(c);
}

void run_linear(const OpCall& c, Sampling mode) {
  run_taps(c, spatial_taps(c, [&](int64_t in, int64_t out) { return linear_taps(mode, in, out); }), true);
}

bool is_linear(const OpCall& c) {
  const std::string_view mode = c.text("interpolation_mode");
  if (mode != "LINEAR" && mode != "NEAREST_NEIGHBOR")
    throw errorf("unknown interpolation_mode '{}'", mode).expected("LINEAR or NEAREST_NEIGHBOR");
  return mode == "LINEAR";
}

// The last `resized_dims` entries of `shape` are the new sizes; a 0 keeps the old one.
Types infer_resize(const OpCall& c) {
  Type out = c.type("x");
  const Type& shape = c.type("shape");
  const int64_t n = c.integer("resized_dims");
  is_linear(c);
  sampling_of(c.text("sampling_mode"));
  if (shape.rank() != 1) throw errorf("'shape' must be a vector").found(shape.text());
  if (n < 0 || n > out.rank() ||
      (shape.dim(0).known() && (n > shape.dim(0).size() || shape.dim(0).size() > out.rank())))
    throw errorf("{} dimensions of {} cannot take their sizes from {}", n, out.text(), shape.text());
  const auto skip = out.shape.size() - static_cast<size_t>(n);
  std::vector<int64_t> sizes;
  if (c.known("shape")) sizes = c.integers("shape");
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    Dim& dim = out.shape[skip + i];
    const int64_t size = sizes.empty() ? -1 : sizes[sizes.size() - static_cast<size_t>(n) + i];
    if (!sizes.empty() && size < 0)
      throw errorf("'shape' has a negative entry").found(fmt::format("{}", size));
    if (dim == Dim(0) && size > 0)
      throw errorf("an empty tensor cannot be resized").found(c.type("x").text());
    if (size != 0) dim = sizes.empty() ? Dim::unknown() : Dim(size);
  }
  return {out};
}

void run_resize(const OpCall& c) {
  const Sampling mode = sampling_of(c.text("sampling_mode"));
  const bool linear = is_linear(c);
  const std::vector<int64_t> in = c.type("x").dims(), out = c.out_type().dims();
  if (c.out_type().size() == 0) return;
  std::vector<Taps> taps;
  for (size_t i = in.size() - static_cast<size_t>(c.integer("resized_dims")); i < in.size(); ++i)
    taps.push_back(linear ? linear_taps(mode, in[i], out[i]) : nearest_taps(mode, in[i], out[i]));
  run_taps(c, taps, linear);
}

std::vector<Param> upsample_params(bool align, bool half_pixel) {
  const DTypes scale = kFp32 | kInt32;
  std::vector<Param> out = {{"x", kFloat, 'T'},
                            {"scale_factor_height", scale, 0, kOptional | kConst, int64_t{1}},
                            {"scale_factor_width", scale, 0, kOptional | kConst, int64_t{1}}};
  if (align) out.push_back({"align_corners", kBool, 0, kOptional | kConst, true});
  if (half_pixel) out.push_back({"half_pixel_centers", kBool, 0, kOptional | kConst});
  return out;
}

constexpr const char* kMode = "DEFAULT";

const Op kOps[] = {
    {"resize_bilinear",
     {{Opset::ios15,
       {{"x", kFloat, 'T'},
        {"target_size_height", kInt32, 0, kOptional | kConst, int64_t{1}},
        {"target_size_width", kInt32, 0, kOptional | kConst, int64_t{1}},
        {"sampling_mode", kString, 0, kOptional | kConst, kMode}}}},
     "the last two dimensions resized, linear between pixels",
     infer_bilinear,
     [](const OpCall& c) { run_linear(c, sampling_of(c.text("sampling_mode"))); }},
    {"resize_nearest_neighbor",
     {{Opset::ios15,
       {{"x", kFloat, 'T'},
        {"target_size_height", kInt32, 0, kConst},
        {"target_size_width", kInt32, 0, kConst}}}},
     "the last two dimensions resized, the pixel under the center of the new one",
     infer_target,
     [](const OpCall& c) {
       const auto taps = [](int64_t in, int64_t out) { return nearest_taps(Sampling::standard, in, out); };
       run_taps(c, spatial_taps(c, taps), false);
     }},
    {"upsample_bilinear",
     {{Opset::ios15, upsample_params(true, false)}, {Opset::ios16, upsample_params(true, true)}},
     "the last two dimensions scaled by factors, linear between pixels",
     infer_upsample_bilinear,
     [](const OpCall& c) { run_linear(c, upsample_mode(c)); }},
    {"upsample_nearest_neighbor",
     {{Opset::ios15, upsample_params(false, false)}},
     "the last two dimensions scaled by factors, the pixel at or before each point",
     infer_upsample,
     [](const OpCall& c) { run_taps(c, spatial_taps(c, floor_taps), false); }},
    {"resize",
     {{Opset::ios17,
       {{"x", kNumber, 'T'},
        {"shape", kIndex | only(DType::uint32)},
        {"resized_dims", kIndex | only(DType::uint32), 0, kConst},
        {"interpolation_mode", kString, 0, kOptional | kConst, "LINEAR"},
        {"sampling_mode", kString, 0, kOptional | kConst, kMode}}}},
     "the last dimensions resized to the last entries of `shape`",
     infer_resize,
     run_resize},
};

}  // namespace

std::span<const Op> ops_resize() { return kOps; }

}  // namespace anemone::ops
