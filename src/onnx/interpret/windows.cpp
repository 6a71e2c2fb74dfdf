// Convolution and pooling: for every place of the output, every place of the kernel.
#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, before, after, out;
};

std::vector<int64_t> spatial(const std::vector<int64_t>& dims) {
  if (dims.size() < 2) throw errorf("a batch and channels are needed").found(shape_text(dims));
  return {dims.begin() + 2, dims.end()};
}

Window window_of(const Context& c, const std::vector<int64_t>& in, std::vector<int64_t> kernel) {
  Window w;
  const size_t n = in.size();
  w.kernel = std::move(kernel);
  w.strides = c.node.integers("strides", std::vector<int64_t>(n, 1));
  w.dilations = c.node.integers("dilations", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> pads = c.node.integers("pads", std::vector<int64_t>(2 * n, 0));
  const std::string_view mode = c.node.text("auto_pad", "NOTSET");
  if (w.kernel.size() != n) throw errorf("a kernel of rank {} over {} dimensions", w.kernel.size(), n);
  for (size_t d = 0; d < n; ++d) {
    if (w.strides.at(d) < 1 || w.dilations.at(d) < 1 || w.kernel.at(d) < 1 || w.kernel[d] > most_elements() ||
        w.dilations[d] > most_elements())
      throw errorf("a window of {} places every {}, {} apart", w.kernel[d], w.strides[d], w.dilations[d]);
    const int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    int64_t before = pads.at(d), after = pads.at(d + n);
    if (mode == "VALID") before = after = 0;
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t outs = (in[d] + w.strides[d] - 1) / w.strides[d];
      const int64_t total = std::max<int64_t>(0, (outs - 1) * w.strides[d] + reach - in[d]);
      before = mode == "SAME_UPPER" ? total / 2 : (total + 1) / 2;
      after = total - before;
    }
    const int64_t room = in[d] + before + after - reach;
    int64_t outs = room / w.strides[d] + 1;
    if (c.node.integer("ceil_mode", 0) && mode == "NOTSET") {
      outs = (room + w.strides[d] - 1) / w.strides[d] + 1;
      if ((outs - 1) * w.strides[d] >= in[d] + before) --outs;
    }
    w.before.push_back(before);
    w.after.push_back(after);
    w.out.push_back(outs);
  }
  return w;
}

// Calls f(tap number, place in the plane, or -1 in the padding, or -2 past it) for the window at `at`.
template <class F>
void each_tap(const Window& w, const std::vector<int64_t>& sizes, const std::vector<int64_t>& at, F f) {
  int64_t tap = 0;
  each_place(w.kernel, [&](const std::vector<int64_t>& k) {
    int64_t place = 0;
    bool padding = false, past = false;
    for (size_t d = 0; d < k.size(); ++d) {
      const int64_t i = at[d] * w.strides[d] - w.before[d] + k[d] * w.dilations[d];
      padding = padding || i < 0 || i >= sizes[d];
      past = past || i >= sizes[d] + w.after[d];
      place = place * sizes[d] + i;
    }
    f(tap++, past ? -2 : padding ? -1 : place);
  });
}

}  // namespace

OnnxArray convolved(const Context& c, const OnnxArray& x, const OnnxArray& w) {
  if (x.rank() < 3 || w.rank() != x.rank())
    throw errorf("{} cannot be convolved with {}", shape_text(x.dims), shape_text(w.dims));
  const std::vector<int64_t> sizes = spatial(x.dims);
  const Window window = window_of(c, sizes, spatial(w.dims));
  const int64_t groups = c.node.integer("group", 1), outs = w.dims[0], ins = w.dims[1];
  if (groups < 1 || outs % groups || x.dims[1] != ins * groups)
    throw errorf("{} groups do not fit {} and {}", groups, shape_text(x.dims), shape_text(w.dims));
  const int64_t per = outs / groups, plane = element_count(sizes), taps = element_count(window.kernel);
  std::vector<int64_t> dims = {x.dims[0], outs};
  dims.insert(dims.end(), window.out.begin(), window.out.end());
  OnnxArray y = made(x.type, dims);
  const int64_t out_plane = element_count(window.out);
  int64_t o = 0;
  each_place(window.out, [&](const std::vector<int64_t>& at) {
    std::vector<std::pair<int64_t, int64_t>> seen;
    each_tap(window, sizes, at, [&](int64_t tap, int64_t place) {
      if (place >= 0) seen.emplace_back(tap, place);
    });
    for (int64_t b = 0; b < dims[0]; ++b)
      for (int64_t m = 0; m < outs; ++m) {
        double sum = 0;
        for (int64_t i = 0; i < ins; ++i) {
          const double* from = x.data.data() + (b * x.dims[1] + m / per * ins + i) * plane;
          const double* k = w.data.data() + (m * ins + i) * taps;
          for (const auto& [tap, place] : seen) sum += from[place] * k[tap];
        }
        y.data[static_cast<size_t>((b * outs + m) * out_plane + o)] = sum;
      }
    ++o;
  });
  return y;
}

namespace {

Arrays conv(const Context& c) {
  OnnxArray y = convolved(c, c[0], c[1]);
  const int64_t channels = y.dims[1], plane = y.size() / std::max<int64_t>(1, y.dims[0] * channels);
  for (int64_t k = 0; k < y.size() && c.has(2); ++k)
    y.data[static_cast<size_t>(k)] += c[2].data.at(static_cast<size_t>(k / plane % channels));
  return {y};
}

// The size of a result along one dimension, of `all` places before pads are cut off; sets the pads where the node gives
// the size instead, or wants `same`.
int64_t transposed_size(const Context& c, size_t d, int64_t all, int64_t same, std::vector<int64_t>& pads) {
  const std::string_view mode = c.node.text("auto_pad", "NOTSET");
  const bool like_input = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  std::vector<int64_t> shape = c.node.integers("output_shape");
  const size_t n = c[0].dims.size() - 2;
  if (shape.size() == n + 2) shape.erase(shape.begin(), shape.begin() + 2);
  if (mode == "VALID") pads.at(d) = pads.at(d + n) = 0;
  if (shape.empty() && !like_input) return all - pads.at(d) - pads.at(d + n);
  const int64_t size = shape.empty() ? same : shape.at(d), cut = std::max<int64_t>(0, all - size);
  pads.at(d) = mode == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
  pads.at(d + n) = cut - pads[d];
  return size;
}

Arrays conv_transpose(const Context& c) {
  const std::vector<int64_t> sizes = spatial(c[0].dims), kernel = spatial(c[1].dims);
  const size_t n = sizes.size();
  const std::vector<int64_t> strides = c.node.integers("strides", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> dilations = c.node.integers("dilations", std::vector<int64_t>(n, 1));
  std::vector<int64_t> pads = c.node.integers("pads", std::vector<int64_t>(2 * n, 0));
  const std::vector<int64_t> more = c.node.integers("output_padding", std::vector<int64_t>(n, 0));
  const int64_t groups = c.node.integer("group", 1), per = c[1].dims[1], outs = per * groups,
                ins = c[0].dims[1];
  if (kernel.size() != n || groups < 1 || ins < groups || ins % groups || c[1].dims[0] != ins)
    throw errorf("{} groups do not fit {} and {}", groups, shape_text(c[0].dims), shape_text(c[1].dims));
  std::vector<int64_t> dims = {c[0].dims[0], outs}, out;
  for (size_t d = 0; d < n; ++d)
    out.push_back(transposed_size(
        c, d, strides.at(d) * (sizes[d] - 1) + more.at(d) + (kernel[d] - 1) * dilations.at(d) + 1,
        strides[d] * sizes[d], pads));
  dims.insert(dims.end(), out.begin(), out.end());
  OnnxArray y = made(c[0].type, dims);
  const int64_t plane = element_count(sizes), out_plane = element_count(out), taps = element_count(kernel);
  if (c.has(2))
    for (int64_t e = 0; e < y.size(); ++e)
      y.data[static_cast<size_t>(e)] = c[2].data[static_cast<size_t>(e / out_plane % outs)];
  int64_t p = 0;
  each_place(sizes, [&](const std::vector<int64_t>& at) {
    int64_t tap = 0;
    each_place(kernel, [&](const std::vector<int64_t>& k) {
      int64_t place = 0;
      bool outside = false;
      for (size_t d = 0; d < n; ++d) {
        const int64_t i = at[d] * strides[d] - pads[d] + k[d] * dilations[d];
        outside = outside || i < 0 || i >= out[d];
        place = place * out[d] + i;
      }
      for (int64_t b = 0; b < dims[0] && !outside; ++b)
        for (int64_t i = 0; i < ins; ++i)
          for (int64_t m = 0; m < per; ++m)
            y.data[static_cast<size_t>((b * outs + i / (ins / groups) * per + m) * out_plane + place)] +=
                c[0].data[static_cast<size_t>((b * ins + i) * plane + p)] *
                c[1].data[static_cast<size_t>((i * per + m) * taps + tap)];
      ++tap;
    });
    ++p;
  });
  return {y};
}

template <class F>
Arrays pooled(const Context& c, F f) {
  const std::vector<int64_t> sizes = spatial(c[0].dims);
  const Window w = window_of(c, sizes, c.node.integers("kernel_shape"));
  std::vector<int64_t> dims = {c[0].dims[0], c[0].dims[1]};
  dims.insert(dims.end(), w.out.begin(), w.out.end());
  OnnxArray y = made(c[0].type, dims);
  const int64_t plane = element_count(sizes), planes = dims[0] * dims[1];
  size_t k = 0;
  for (int64_t p = 0; p < planes; ++p)
    each_place(w.out, [&](const std::vector<int64_t>& at) {
      y.data[k++] = f(w, sizes, at, c[0].data.data() + p * plane);
    });
  return {y};
}

// Indices count over the whole tensor; with storage_order 1 the first dimension of a plane runs fastest.
Arrays max_pool(const Context& c) {
  const std::vector<int64_t> sizes = spatial(c[0].dims);
  const int64_t plane = element_count(sizes);
  const bool columns = c.node.integer("storage_order", 0) != 0;
  OnnxArray places;
  Arrays out = pooled(c, [&](const Window& w, const auto&, const auto& at, const double* x) {
    double best = -std::numeric_limits<double>::infinity();
    int64_t best_at = -1;
    each_tap(w, sizes, at, [&](int64_t, int64_t place) {
      if (place < 0 || (best_at >= 0 && !(x[place] > best))) return;
      best = x[place];
      best_at = place;
    });
    int64_t index = best_at;
    if (columns) {
      int64_t rest = best_at, scale = plane;
      index = 0;
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
        scale /= sizes[d];
        index += rest % sizes[d] * scale;
      }
    }
    places.data.push_back(static_cast<double>((x - c[0].data.data()) + index));
    return best;
  });
  places.type = OnnxType::int64;
  places.dims = out[0].dims;
  out.push_back(std::move(places));
  return out;
}

// Each element goes to the place that its index names; the rest is zero. A larger shape may be asked for.
Arrays max_unpool(const Context& c) {
  const std::vector<int64_t> kernel = c.node.integers("kernel_shape");
  const size_t n = kernel.size();
  const std::vector<int64_t> strides = c.node.integers("strides", std::vector<int64_t>(n, 1)),
                             pads = c.node.integers("pads", std::vector<int64_t>(2 * n, 0));
  std::vector<int64_t> natural = {c[0].dims.at(0), c[0].dims.at(1)};
  for (size_t d = 0; d < n; ++d)
    natural.push_back((c[0].dims.at(d + 2) - 1) * strides.at(d) - pads.at(d) - pads.at(d + n) + kernel[d]);
  OnnxArray small = made(c[0].type, natural);
  for (size_t k = 0; k < c[0].data.size(); ++k) {
    const auto at = whole(c[1].data.at(k));
    small.data[static_cast<size_t>(at_axis(at, small.size()))] = c[0].data[k];
  }
  if (!c.has(2)) return {small};
  OnnxArray y = made(c[0].type, c.ints(2));
  if (y.rank() != small.rank()) throw errorf("the output shape has rank {}", y.rank());
  size_t k = 0;
  each_place(natural, [&](const std::vector<int64_t>& at) {
    int64_t to = 0;
    bool outside = false;
    for (size_t d = 0; d < at.size(); ++d) {
      outside = outside || at[d] >= y.dims[d];
      to = to * y.dims[d] + at[d];
    }
    if (!outside) y.data[static_cast<size_t>(to)] = small.data[k];
    ++k;
  });
  return {y};
}

Arrays lp_pool(const Context& c) {
  const auto p = static_cast<double>(c.node.integer("p", 2));
  return pooled(c, [&](const Window& w, const auto& sizes, const auto& at, const double* x) {
    double sum = 0;
    each_tap(w, sizes, at, [&](int64_t, int64_t place) {
      if (place >= 0) sum += std::pow(std::fabs(x[place]), p);
    });
    return std::pow(sum, 1 / p);
  });
}

Arrays average_pool(const Context& c) {
  const bool padding = c.node.integer("count_include_pad", 0) != 0;
  return pooled(c, [&](const Window& w, const auto& sizes, const auto& at, const double* x) {
    double sum = 0, count = 0;
    each_tap(w, sizes, at, [&](int64_t, int64_t place) {
      if (place >= 0) sum += x[place];
      count += place >= 0 || (place == -1 && padding);
    });
    return sum / count;
  });
}

// One number for each plane.
template <class F>
Arrays global(const Context& c, F f) {
  std::vector<int64_t> dims(c[0].dims.size(), 1);
  dims.at(0) = c[0].dims[0];
  dims.at(1) = c[0].dims[1];
  OnnxArray y = made(c[0].type, dims);
  const int64_t plane = c[0].size() / std::max<int64_t>(1, y.size());
  if (plane < 1) throw errorf("a plane has no elements");
  for (int64_t p = 0; p < y.size(); ++p)
    y.data[static_cast<size_t>(p)] =
        f(std::span(c[0].data).subspan(static_cast<size_t>(p * plane), static_cast<size_t>(plane)));
  return {y};
}

Arrays global_max(const Context& c) {
  return global(c, [](std::span<const double> x) { return *std::max_element(x.begin(), x.end()); });
}
Arrays global_average(const Context& c) {
  return global(c, [](std::span<const double> x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  });
}
Arrays global_lp(const Context& c) {
  const auto p = static_cast<double>(c.node.integer("p", 2));
  return global(c, [&](std::span<const double> x) {
    double sum = 0;
    for (const double v : x) sum += std::pow(std::fabs(v), p);
    return std::pow(sum, 1 / p);
  });
}

}  // namespace

void add_windows(Table& t) {
  t["Conv"] = conv;
  t["ConvTranspose"] = conv_transpose;
  t["MaxPool"] = max_pool;
  t["AveragePool"] = average_pool;
  t["GlobalMaxPool"] = global_max;
  t["GlobalAveragePool"] = global_average;
  t["GlobalLpPool"] = global_lp;
  t["LpPool"] = lp_pool;
  t["MaxUnpool"] = max_unpool;
}

}  // namespace anemone::interpret
