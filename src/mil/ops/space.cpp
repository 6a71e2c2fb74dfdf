// Blocks of pixels moved between the spatial dimensions and the channels or the batch; NCHW throughout.
#include <algorithm>

#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

const Type& image(const OpCall& c) {
  const Type& x = c.type("x");
  if (x.rank() != 4) throw errorf("'x' must have rank 4").found(x.text());
  return x;
}

int64_t block_size(const OpCall& c, std::string_view param) {
  const int64_t size = c.integer(param);
  if (size < 1 || size > 0xffff) throw errorf("'{}' is out of range", param).found(fmt::format("{}", size));
  return size;
}

Dim divided(Dim dim, int64_t by, const char* what) {
  const std::optional<Dim> out = dim.over(by);
  if (!out && dim.known()) throw errorf("the {} of {} is not a multiple of {}", what, dim.text(), by);
  return out.value_or(Dim::unknown());
}

Types infer_to_space(const OpCall& c, std::string_view param) {
  const Type& x = image(c);
  const int64_t b = block_size(c, param);
  return {Type::tensor(x.dtype, {x.dim(0), divided(x.dim(1), b * b, "number of channels"),
                                 scaled(x.dim(2), b), scaled(x.dim(3), b)})};
}

Types infer_to_depth(const OpCall& c, std::string_view param) {
  const Type& x = image(c);
  const int64_t b = block_size(c, param);
  return {Type::tensor(x.dtype, {x.dim(0), scaled(x.dim(1), b * b), divided(x.dim(2), b, "height"),
                                 divided(x.dim(3), b, "width")})};
}

// Channel (i, j, c) when the block comes first, (c, i, j) when it comes last, goes to row i and column j of a
// block.
void run_to_space(const OpCall& c, std::string_view param, bool block_first) {
  const int64_t b = block_size(c, param);
  const std::vector<int64_t> x = c.type("x").dims();
  const int64_t height = x[2], width = x[3], plane = height * width, channels = x[1] / (b * b);
  const int64_t channel = block_first ? plane : plane * b * b, place = block_first ? plane * channels : plane;
  const int64_t dims[] = {x[0], channels, height, b, width, b};
  const int64_t strides[] = {plane * x[1], channel, width, place * b, 1, place};
  copy_strided(c.pool(), c.data("x"), 0, strides, dims, c.out());
}

void run_to_depth(const OpCall& c, std::string_view param, bool block_first) {
  const int64_t b = block_size(c, param);
  const std::vector<int64_t> x = c.type("x").dims();
  const int64_t plane = x[2] * x[3];
  if (block_first) {
    const int64_t dims[] = {x[0], b, b, x[1], x[2] / b, x[3] / b};
    const int64_t strides[] = {plane * x[1], x[3], 1, plane, x[3] * b, b};
    copy_strided(c.pool(), c.data("x"), 0, strides, dims, c.out());
  } else {
    const int64_t dims[] = {x[0], x[1], b, b, x[2] / b, x[3] / b};
    const int64_t strides[] = {plane * x[1], plane, x[3], 1, x[3] * b, b};
    copy_strided(c.pool(), c.data("x"), 0, strides, dims, c.out());
  }
}

// The block and what is added to (or cut from) each side: top, bottom, left, right.
struct Blocks {
  int64_t height, width, edges[4];
};

Blocks blocks(const OpCall& c, std::string_view edges_param) {
  const std::vector<int64_t> shape = c.integers("block_shape"), edges = c.integers(edges_param);
  if (shape.size() != 2 || edges.size() != 4)
    throw errorf("'block_shape' and '{}' must have the shapes [2] and [2, 2]", edges_param);
  for (const int64_t size : shape)
    if (size < 1 || size > 0xffff)
      throw errorf("'block_shape' is out of range").found(fmt::format("{}", size));
  for (const int64_t edge : edges)
    if (edge < 0) throw errorf("'{}' has a negative entry", edges_param).found(fmt::format("{}", edge));
  return {shape[0], shape[1], {edges[0], edges[1], edges[2], edges[3]}};
}

Types infer_space_to_batch(const OpCall& c) {
  const Type& x = image(c);
  const Blocks b = blocks(c, "paddings");
  const Dim height = plus(plus(x.dim(2), b.edges[0]), b.edges[1]),
            width = plus(plus(x.dim(3), b.edges[2]), b.edges[3]);
  return {Type::tensor(
      x.dtype, {scaled(x.dim(0), b.height * b.width), x.dim(1), divided(height, b.height, "padded height"),
                divided(width, b.width, "padded width")})};
}

Types infer_batch_to_space(const OpCall& c) {
  const Type& x = image(c);
  const Blocks b = blocks(c, "crops");
  const Dim height = scaled(x.dim(2), b.height), width = scaled(x.dim(3), b.width);
  return {Type::tensor(
      x.dtype, {divided(x.dim(0), b.height * b.width, "batch"), x.dim(1),
                plus(plus(height, -b.edges[0]), -b.edges[1]), plus(plus(width, -b.edges[2]), -b.edges[3])})};
}

// out[n, c, h, w] = source(n, c, h, w), for all positions.
template <class F>
void fill_image(const OpCall& c, F source) {
  const std::vector<int64_t> dims = c.out_type().dims();
  if (c.out_type().size() == 0) return;
  float* out = c.out_floats();
  const int64_t rows = dims[0] * dims[1] * dims[2], width = dims[3];
  c.pool().parallel_for(rows, std::max<int64_t>(1, kMapGrain / width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t w = 0; w < width; ++w)
        out[r * width + w] = source(r / dims[2] / dims[1], r / dims[2] % dims[1], r % dims[2], w);
  });
}

void run_space_to_batch(const OpCall& c) {
  const Blocks b = blocks(c, "paddings");
  const std::vector<int64_t> x = c.type("x").dims();
  const float* in = c.floats("x");
  fill_image(c, [&](int64_t n, int64_t channel, int64_t h, int64_t w) {
    const int64_t block = n / x[0], entry = n % x[0];
    const int64_t row = h * b.height + block / b.width - b.edges[0],
                  column = w * b.width + block % b.width - b.edges[2];
    if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) return 0.0f;
    return in[((entry * x[1] + channel) * x[2] + row) * x[3] + column];
  });
}

void run_batch_to_space(const OpCall& c) {
  const Blocks b = blocks(c, "crops");
  const std::vector<int64_t> x = c.type("x").dims();
  const int64_t batch = c.out_type().dim(0).size();
  const float* in = c.floats("x");
  fill_image(c, [&](int64_t n, int64_t channel, int64_t h, int64_t w) {
    const int64_t row = h + b.edges[0], column = w + b.edges[2];
    const int64_t entry = (row % b.height * b.width + column % b.width) * batch + n;
    return in[((entry * x[1] + channel) * x[2] + row / b.height) * x[3] + column / b.width];
  });
}

const Op kOps[] = {
    {"depth_to_space",
     {{Opset::ios15, {{"x", kFloat, 'T'}, {"block_size", kIndex, 0, kConst}}}},
     "channels spread over blocks of pixels; the place in the block is the slowest part of the channel",
     [](const OpCall& c) { return infer_to_space(c, "block_size"); },
     [](const OpCall& c) { run_to_space(c, "block_size", true); }},
    {"pixel_shuffle",
     {{Opset::ios15, {{"x", kFloat, 'T'}, {"upscale_factor", kIndex, 0, kConst}}}},
     "channels spread over blocks of pixels; the place in the block is the fastest part of the channel",
     [](const OpCall& c) { return infer_to_space(c, "upscale_factor"); },
     [](const OpCall& c) { run_to_space(c, "upscale_factor", false); }},
    {"space_to_depth",
     {{Opset::ios15, {{"x", kFloat, 'T'}, {"block_size", kIndex, 0, kConst}}}},
     "the inverse of depth_to_space",
     [](const OpCall& c) { return infer_to_depth(c, "block_size"); },
     [](const OpCall& c) { run_to_depth(c, "block_size", true); }},
    {"pixel_unshuffle",
     {{Opset::ios16, {{"x", kFloat, 'T'}, {"downscale_factor", kIndex | only(DType::uint32), 0, kConst}}}},
     "the inverse of pixel_shuffle",
     [](const OpCall& c) { return infer_to_depth(c, "downscale_factor"); },
     [](const OpCall& c) { run_to_depth(c, "downscale_factor", false); }},
    {"space_to_batch",
     {{Opset::ios15,
       {{"x", kFloat, 'T'}, {"block_shape", kInt32, 0, kConst}, {"paddings", kInt32, 0, kConst}}}},
     "x padded with zeros, then its blocks of pixels spread over the batch",
     infer_space_to_batch,
     run_space_to_batch},
    {"batch_to_space",
     {{Opset::ios15, {{"x", kFloat, 'T'}, {"block_shape", kInt32, 0, kConst}, {"crops", kInt32, 0, kConst}}}},
     "entries of the batch put together to blocks of pixels, then cropped",
     infer_batch_to_space,
     run_batch_to_space},
};

}  // namespace

std::span<const Op> ops_space() { return kOps; }

}  // namespace anemone::ops
