// Pixels as channels and back, columns of images, crops, determinants.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

// Which channel of the deep form holds pixel (row, column) of a block, of that channel of the wide form.
int64_t deep_channel(const Context& c, int64_t channel, int64_t row, int64_t column, int64_t block,
                     int64_t channels) {
  const int64_t pixel = row * block + column;
  return c.node.text("mode", "DCR") == "CRD" ? channel * block * block + pixel : pixel * channels + channel;
}

int64_t block_of(const Context& c, bool deep) {
  const int64_t b = c.node.integer("blocksize", 0);
  const std::vector<int64_t>& d = c[0].dims;
  const bool fits = d.size() == 4 && b > 0 && b < (1 << 15) &&
                    (deep ? d[1] % (b * b) == 0 : d[2] % b == 0 && d[3] % b == 0);
  if (!fits) throw errorf("blocksize {} does not fit the shape {}", b, shape_text(d));
  return b;
}

Arrays depth_to_space(const Context& c) {
  const int64_t b = block_of(c, true);
  const std::vector<int64_t>& d = c[0].dims;
  const int64_t channels = d[1] / (b * b);
  OnnxArray y = made(c[0].type, {d[0], channels, d[2] * b, d[3] * b});
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    const int64_t from = deep_channel(c, at[1], at[2] % b, at[3] % b, b, channels);
    y.data[k++] =
        c[0].data[static_cast<size_t>(((at[0] * d[1] + from) * d[2] + at[2] / b) * d[3] + at[3] / b)];
  });
  return {y};
}

Arrays space_to_depth(const Context& c) {
  const int64_t b = block_of(c, false);
  const std::vector<int64_t>& d = c[0].dims;
  OnnxArray y = made(c[0].type, {d[0], d[1] * b * b, d[2] / b, d[3] / b});
  size_t k = 0;
  each_place(d, [&](const std::vector<int64_t>& at) {
    const int64_t to = deep_channel(c, at[1], at[2] % b, at[3] % b, b, d[1]);
    y.data[static_cast<size_t>(((at[0] * y.dims[1] + to) * y.dims[2] + at[2] / b) * y.dims[3] + at[3] / b)] =
        c[0].data[k++];
  });
  return {y};
}

// Every value of a column is added to its pixel.
Arrays col2im(const Context& c) {
  const std::vector<int64_t> image = c.ints(1), block = c.ints(2);
  const size_t n = image.size();
  const std::vector<int64_t> strides = c.node.integers("strides", std::vector<int64_t>(n, 1)),
                             dilations = c.node.integers("dilations", std::vector<int64_t>(n, 1)),
                             pads = c.node.integers("pads", std::vector<int64_t>(2 * n, 0));
  std::vector<int64_t> steps;
  for (size_t k = 0; k < n; ++k) {
    if (strides.at(k) < 1) throw errorf("a stride is {}", strides[k]);
    steps.push_back(
        (image[k] + pads.at(k) + pads.at(k + n) - dilations.at(k) * (block.at(k) - 1) - 1) / strides[k] + 1);
  }
  const int64_t taps = element_count(block), columns = element_count(steps);
  const std::vector<int64_t>& d = c[0].dims;
  if (d.size() != 3 || taps < 1 || d[1] % taps || d[2] != columns)
    throw errorf("{} does not fit {} columns of {} values", shape_text(d), columns, taps);
  const int64_t channels = d[1] / taps, plane = element_count(image);
  std::vector<int64_t> dims = {d[0], channels};
  dims.insert(dims.end(), image.begin(), image.end());
  OnnxArray y = made(c[0].type, dims);
  for (int64_t p = 0; p < d[0] * channels; ++p) {
    int64_t tap = 0;
    each_place(block, [&](const std::vector<int64_t>& k) {
      int64_t column = 0;
      each_place(steps, [&](const std::vector<int64_t>& at) {
        int64_t place = 0;
        bool outside = false;
        for (size_t a = 0; a < n; ++a) {
          const int64_t i = at[a] * strides[a] + k[a] * dilations[a] - pads[a];
          outside = outside || i < 0 || i >= image[a];
          place = place * image[a] + i;
        }
        const double v = c[0].data[static_cast<size_t>((p * taps + tap) * columns + column++)];
        if (!outside) y.data[static_cast<size_t>(p * plane + place)] += v;
      });
      ++tap;
    });
  }
  return {y};
}

// The middle of each axis stays; what is missing is zero.
Arrays center_crop_pad(const Context& c) {
  const std::vector<int64_t> shape = c.ints(1);
  std::vector<int64_t> axes = c.node.integers("axes"), dims = c[0].dims;
  if (axes.empty())
    for (size_t d = 0; d < dims.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  std::vector<int64_t> shift(dims.size(), 0);  // from a place of the result to one of the input
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(at_axis(axes[k], c[0].rank()));
    const int64_t have = dims[d], want = shape.at(k);
    shift[d] = have > want ? (have - want) / 2 : -((want - have) / 2);
    dims[d] = want;
  }
  OnnxArray y = made(c[0].type, dims);
  size_t k = 0;
  each_place(dims, [&](const std::vector<int64_t>& at) {
    int64_t from = 0;
    bool outside = false;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t i = at[d] + shift[d];
      outside = outside || i < 0 || i >= c[0].dims[d];
      from = from * c[0].dims[d] + i;
    }
    y.data[k++] = outside ? 0 : c[0].data[static_cast<size_t>(from)];
  });
  return {y};
}

// Gauss with the largest pivot of each column.
double determinant(std::vector<double> m, size_t n) {
  double det = 1;
  for (size_t column = 0; column < n; ++column) {
    size_t best = column;
    for (size_t r = column + 1; r < n; ++r)
      if (std::fabs(m[r * n + column]) > std::fabs(m[best * n + column])) best = r;
    const double pivot = m[best * n + column];
    if (pivot == 0) return 0;
    if (best != column) det = -det;
    for (size_t k = 0; k < n; ++k) std::swap(m[best * n + k], m[column * n + k]);
    det *= pivot;
    for (size_t r = column + 1; r < n; ++r) {
      const double factor = m[r * n + column] / pivot;
      for (size_t k = column; k < n; ++k) m[r * n + k] -= factor * m[column * n + k];
    }
  }
  return det;
}

Arrays det(const Context& c) {
  const std::vector<int64_t>& d = c[0].dims;
  if (d.size() < 2 || d.back() != d[d.size() - 2])
    throw errorf("Det takes square matrices").found(shape_text(d));
  OnnxArray y = made(c[0].type, {d.begin(), d.end() - 2});
  const int64_t size = d.back() * d.back();
  for (int64_t k = 0; k < y.size(); ++k)
    y.data[static_cast<size_t>(k)] = determinant(
        {c[0].data.begin() + k * size, c[0].data.begin() + (k + 1) * size}, static_cast<size_t>(d.back()));
  return {y};
}

}  // namespace

void add_space(Table& t) {
  t["DepthToSpace"] = depth_to_space;
  t["SpaceToDepth"] = space_to_depth;
  t["Col2Im"] = col2im;
  t["CenterCropPad"] = center_crop_pad;
  t["Det"] = det;
}

}  // namespace anemone::interpret
