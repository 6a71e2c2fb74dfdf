// Convolution and pooling: for every place of the output, every place of the kernel.
#include <algorithm>
#include <limits>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, before, after, out;
};

std::vector<int64_t> spatial(const std::vector<int64_t>& dims) { return {dims.begin() + 2, dims.end()}; }

Window window_of(const Context& c, std::vector<int64_t> kernel) {
  Window w;
  const std::vector<int64_t> in = spatial(c[0].dims);
  const size_t n = in.size();
  w.kernel = std::move(kernel);
  w.strides = c.node.integers("strides", std::vector<int64_t>(n, 1));
  w.dilations = c.node.integers("dilations", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> pads = c.node.integers("pads", std::vector<int64_t>(2 * n, 0));
  const std::string_view mode = c.node.text("auto_pad", "NOTSET");
  for (size_t d = 0; d < n; ++d) {
    const int64_t reach = (w.kernel.at(d) - 1) * w.dilations[d] + 1;
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

Arrays conv(const Context& c) {
  const std::vector<int64_t> sizes = spatial(c[0].dims);
  const Window w = window_of(c, spatial(c[1].dims));
  const int64_t groups = c.node.integer("group", 1), outs = c[1].dims[0], ins = c[1].dims[1],
                per = outs / groups;
  const int64_t plane = element_count(sizes), taps = element_count(w.kernel);
  std::vector<int64_t> dims = {c[0].dims[0], outs};
  dims.insert(dims.end(), w.out.begin(), w.out.end());
  OnnxArray y = made(c[0].type, dims);
  const int64_t out_plane = element_count(w.out);
  int64_t o = 0;
  each_place(w.out, [&](const std::vector<int64_t>& at) {
    std::vector<std::pair<int64_t, int64_t>> seen;
    each_tap(w, sizes, at, [&](int64_t tap, int64_t place) {
      if (place >= 0) seen.emplace_back(tap, place);
    });
    for (int64_t b = 0; b < dims[0]; ++b)
      for (int64_t m = 0; m < outs; ++m) {
        double sum = c.has(2) ? c[2].data[static_cast<size_t>(m)] : 0;
        for (int64_t i = 0; i < ins; ++i) {
          const double* x = c[0].data.data() + (b * c[0].dims[1] + m / per * ins + i) * plane;
          const double* k = c[1].data.data() + (m * ins + i) * taps;
          for (const auto& [tap, place] : seen) sum += x[place] * k[tap];
        }
        y.data[static_cast<size_t>((b * outs + m) * out_plane + o)] = sum;
      }
    ++o;
  });
  return {y};
}

Arrays conv_transpose(const Context& c) {
  const std::vector<int64_t> sizes = spatial(c[0].dims), kernel = spatial(c[1].dims);
  const size_t n = sizes.size();
  if (c.node.attribute("output_shape") || c.node.text("auto_pad", "NOTSET") != "NOTSET")
    throw errorf("ConvTranspose with output_shape or auto_pad is not supported here");
  const std::vector<int64_t> strides = c.node.integers("strides", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> dilations = c.node.integers("dilations", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> pads = c.node.integers("pads", std::vector<int64_t>(2 * n, 0));
  const std::vector<int64_t> more = c.node.integers("output_padding", std::vector<int64_t>(n, 0));
  const int64_t groups = c.node.integer("group", 1), per = c[1].dims[1], outs = per * groups,
                ins = c[0].dims[1];
  std::vector<int64_t> dims = {c[0].dims[0], outs}, out;
  for (size_t d = 0; d < n; ++d)
    out.push_back(strides[d] * (sizes[d] - 1) + more[d] + (kernel[d] - 1) * dilations[d] + 1 - pads[d] -
                  pads[d + n]);
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
  const Window w = window_of(c, c.node.integers("kernel_shape"));
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

Arrays max_pool(const Context& c) {
  if (c.node.outputs.size() > 1) throw errorf("the indices of MaxPool are not supported here");
  return pooled(c, [](const Window& w, const auto& sizes, const auto& at, const double* x) {
    double best = -std::numeric_limits<double>::infinity();
    each_tap(w, sizes, at, [&](int64_t, int64_t place) {
      if (place >= 0) best = std::max(best, x[place]);
    });
    return best;
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

Arrays global(const Context& c, bool largest) {
  std::vector<int64_t> dims(c[0].dims.size(), 1);
  dims[0] = c[0].dims[0];
  dims[1] = c[0].dims[1];
  OnnxArray y = made(c[0].type, dims);
  const int64_t plane = c[0].size() / y.size();
  for (int64_t p = 0; p < y.size(); ++p) {
    const auto begin = c[0].data.begin() + p * plane;
    double all = 0;
    for (int64_t k = 0; k < plane; ++k) all += begin[k];
    y.data[static_cast<size_t>(p)] =
        largest ? *std::max_element(begin, begin + plane) : all / static_cast<double>(plane);
  }
  return {y};
}

Arrays global_max(const Context& c) { return global(c, true); }
Arrays global_average(const Context& c) { return global(c, false); }

// Nearest and linear, as images are resized; other modes are not computed here.
Arrays resize(const Context& c) {
  const bool first = c.node.version < 11;
  const std::string_view mode = c.node.text("mode", "nearest"),
                         way = c.node.text("coordinate_transformation_mode",
                                           first ? "asymmetric" : "half_pixel"),
                         nearest = c.node.text("nearest_mode", first ? "floor" : "round_prefer_floor");
  if ((mode != "nearest" && mode != "linear") || c.node.attribute("axes") || c.node.integer("antialias", 0) ||
      way == "tf_crop_and_resize")
    throw errorf("this form of Resize is not supported here");
  const size_t rank = c[0].dims.size(), at_scales = first ? 1 : 2;
  const bool scaled = c.has(at_scales) && c[at_scales].size() > 0;
  std::vector<int64_t> dims(rank);
  std::vector<double> scales(rank);
  for (size_t d = 0; d < rank; ++d) {
    scales[d] = scaled ? c[at_scales].data.at(d) : c[3].data.at(d) / static_cast<double>(c[0].dims[d]);
    dims[d] = scaled ? static_cast<int64_t>(std::floor(static_cast<double>(c[0].dims[d]) * scales[d]))
                     : static_cast<int64_t>(c[3].data[d]);
  }
  OnnxArray y = c[0];
  for (size_t d = 0; d < rank; ++d) {  // one dimension after the other
    if (dims[d] == y.dims[d] && scales[d] == 1) continue;
    const OnnxArray x = y;
    std::vector<int64_t> next = x.dims;
    next[d] = dims[d];
    y = made(x.type, next);
    const int64_t n = x.dims[d], inner = strides_of(x.dims)[d];
    size_t k = 0;
    each_place(next, [&](const std::vector<int64_t>& at) {
      const auto o = static_cast<double>(at[d]);
      double from = (o + 0.5) / scales[d] - 0.5;
      if (way == "asymmetric") from = o / scales[d];
      if (way == "align_corners")
        from = dims[d] > 1 ? o * static_cast<double>(n - 1) / static_cast<double>(dims[d] - 1) : 0;
      if (way == "pytorch_half_pixel" && dims[d] == 1) from = 0;
      const int64_t line =
          static_cast<int64_t>(k) / (inner * dims[d]) * inner * n + static_cast<int64_t>(k) % inner;
      const auto value = [&](double i) {
        return x.data[static_cast<size_t>(
            line + static_cast<int64_t>(std::clamp(i, 0.0, static_cast<double>(n - 1))) * inner)];
      };
      const double low = std::floor(from), part = from - low;
      double result = value(low) * (1 - part) + value(low + 1) * part;
      if (mode == "nearest") {
        double i = nearest == "floor"               ? low
                   : nearest == "ceil"              ? std::ceil(from)
                   : nearest == "round_prefer_ceil" ? std::floor(from + 0.5)
                                                    : std::ceil(from - 0.5);
        result = value(i);
      }
      y.data[k++] = result;
    });
  }
  return {y};
}

}  // namespace

void add_windows(Table& t) {
  t["Conv"] = conv;
  t["ConvTranspose"] = conv_transpose;
  t["MaxPool"] = max_pool;
  t["AveragePool"] = average_pool;
  t["GlobalMaxPool"] = global_max;
  t["GlobalAveragePool"] = global_average;
  t["Resize"] = resize;
}

}  // namespace anemone::interpret
