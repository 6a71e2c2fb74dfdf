// Pooling over 1 to 3 spatial dimensions of [batch, channels, …].
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& ch : out) ch = ch >= 'A' && ch <= 'Z' ? static_cast<char>(ch + 32) : ch;
  return out;
}

struct Pool {
  std::vector<int64_t> kernel, strides, pad;  // pad: as declared, only for `custom`
  Window window;
};

Pool pool_of(const OpCall& c) {
  const Type& x = c.type("x");
  if (x.rank() < 3 || x.rank() > 5) throw errorf("'x' must have 3 to 5 dimensions").found(x.text());
  const auto n = static_cast<size_t>(x.rank() - 2);
  Pool p{c.integers("kernel_sizes"), c.integers_or("strides", n, 1), c.integers_or("pad", 2 * n, 0), {}};
  const std::string pad_type = lower(c.text("pad_type"));
  const bool ceil_mode = c.flag("ceil_mode");
  if (ceil_mode && pad_type == "same") throw errorf("'ceil_mode' cannot be used with the pad_type 'same'");
  if (ceil_mode)
    for (size_t i = 0; i < n; ++i)
      if (p.pad[2 * i] != p.pad[2 * i + 1]) throw errorf("'pad' must be symmetric in ceil_mode");
  const std::vector<int64_t> dilations(n, 1);
  p.window = sliding_window(std::span(x.shape).subspan(2), pad_type, p.kernel, p.strides, dilations, p.pad,
                            ceil_mode);
  if (pad_type != "custom") std::fill(p.pad.begin(), p.pad.end(), 0);
  if (pad_type == "same" || pad_type == "same_lower")
    for (size_t i = 0; i < n; ++i) {
      p.pad[2 * i] = p.window.before[i];
      p.pad[2 * i + 1] = p.window.after[i];
    }
  return p;
}

Types infer(const OpCall& c) {
  const Type& x = c.type("x");
  Shape out(x.shape.begin(), x.shape.begin() + std::min(2, x.rank()));
  const Pool p = pool_of(c);
  out.insert(out.end(), p.window.out.begin(), p.window.out.end());
  return {Type::tensor(x.dtype, out)};
}

Types infer_l2(const OpCall& c) {
  if (c.type("x").rank() > 4) throw errorf("'x' must have 3 or 4 dimensions").found(c.type("x").text());
  return infer(c);
}

// The part of a window that lies in the input along one dimension, and how many places of it lie in the input
// or its declared padding: what hangs over the end in ceil mode does not count for an average.
struct Span {
  int64_t begin, end, padded;
};

// For every output place along one dimension; a dimension that is not there counts as one place.
std::vector<Span> spans(const Pool& p, const std::vector<int64_t>& dims, size_t spatial, size_t missing) {
  if (spatial < missing) return {{0, 1, 1}};
  const size_t i = spatial - missing;
  const int64_t in = dims[i + 2];
  std::vector<Span> out(static_cast<size_t>(p.window.out[i].size()));
  for (size_t o = 0; o < out.size(); ++o) {
    const int64_t first = static_cast<int64_t>(o) * p.strides[i] - p.window.before[i],
                  last = first + p.kernel[i];
    const int64_t padded = std::min(last, in + p.pad[2 * i + 1]) - first;
    out[o] = {std::clamp<int64_t>(first, 0, in), std::clamp<int64_t>(last, 0, in),
              std::max<int64_t>(padded, 0)};
  }
  return out;
}

// add(acc, element) over a window, then finish(acc, elements, places with padding).
template <class Add, class Finish>
void run_pool(const OpCall& c, float init, Add add, Finish finish) {
  const std::vector<int64_t> dims = c.type("x").dims();
  if (c.out_type().size() == 0) return;
  const Pool p = pool_of(c);
  const size_t missing = 3 - (dims.size() - 2);
  const auto depth = spans(p, dims, 0, missing), height = spans(p, dims, 1, missing),
             width = spans(p, dims, 2, missing);
  const int64_t in_w = dims.back(), in_h = missing < 2 ? dims[dims.size() - 2] : 1;
  const int64_t in_d = missing < 1 ? dims[2] : 1, in_size = in_w * in_h * in_d;
  const auto out_size = static_cast<int64_t>(depth.size() * height.size() * width.size());
  const float* x = c.floats("x");
  float* out = c.out_floats();
  c.pool().parallel_for(dims[0] * dims[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const float* in = x + plane * in_size;
      float* o = out + plane * out_size;
      for (const Span& d : depth)
        for (const Span& h : height)
          for (const Span& w : width) {
            float acc = init;
            for (int64_t z = d.begin; z < d.end; ++z)
              for (int64_t y = h.begin; y < h.end; ++y)
                for (int64_t i = w.begin; i < w.end; ++i) acc = add(acc, in[(z * in_h + y) * in_w + i]);
            const int64_t elements = (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
            *o++ = finish(acc, elements, d.padded * h.padded * w.padded);
          }
    }
  });
}

void run_avg(const OpCall& c) {
  const bool exclude = c.flag("exclude_padding_from_average");
  run_pool(
      c, 0.0f, [](float acc, float x) { return acc + x; },
      [=](float acc, int64_t elements, int64_t places) {
        const int64_t n = exclude ? elements : places;
        return n > 0 ? acc / static_cast<float>(n) : 0.0f;
      });
}

void run_max(const OpCall& c) {
  run_pool(
      c, -std::numeric_limits<float>::infinity(),
      [](float acc, float x) { return x > acc || std::isnan(x) ? x : acc; },
      [](float acc, int64_t, int64_t) { return acc; });
}

void run_l2(const OpCall& c) {
  run_pool(
      c, 0.0f, [](float acc, float x) { return acc + x * x; },
      [](float acc, int64_t, int64_t) { return std::sqrt(acc); });
}

const std::vector<Param> kParams = {{"x", kFloat, 'T'},
                                    {"kernel_sizes", kInt32, 0, kConst},
                                    {"strides", kInt32, 0, kOptional | kConst},
                                    {"pad_type", kString, 0, kConst},
                                    {"pad", kInt32, 0, kOptional | kConst},
                                    {"ceil_mode", kBool, 0, kOptional | kConst, false}};

std::vector<Param> avg_params() {
  std::vector<Param> out = kParams;
  out.push_back({"exclude_padding_from_average", kBool, 0, kOptional | kConst, false});
  return out;
}

const Op kOps[] = {
    {"avg_pool", {{Opset::ios15, avg_params()}}, "the mean over windows", infer, run_avg},
    {"l2_pool",
     {{Opset::ios15, kParams}},
     "the square root of the sum of squares over windows",
     infer_l2,
     run_l2},
    {"max_pool", {{Opset::ios15, kParams}}, "the largest element of windows", infer, run_max},
};

}  // namespace

std::span<const Op> ops_pool() { return kOps; }

}  // namespace anemone::ops
