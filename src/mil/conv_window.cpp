#include "mil/conv_window.h"

#include <algorithm>

#include "base/error.h"

namespace anemone::ops {

ConvWindow conv_window(const OpCall& c, int spatial) {
  const Type& weight = c.type("weight");
  if (spatial < 1 || spatial > 3)
    throw errorf("a convolution has 1 to 3 spatial dimensions").found(c.type("x").text());
  if (weight.rank() != spatial + 2)
    throw errorf("'weight' must have the rank of 'x'")
        .found(weight.text())
        .expected(fmt::format("rank {}", spatial + 2));
  const auto n = static_cast<size_t>(spatial);
  ConvWindow w;
  constexpr int64_t kMost = int64_t{1} << 28;
  const auto check = [&](std::string_view name, int64_t value, int64_t least) {
    if (value < least || value > kMost)
      throw errorf("'{}' of a convolution is out of range", name).found(fmt::format("{}", value));
  };
  for (size_t i = 0; i < n; ++i) {
    const Dim k = weight.shape[i + 2];
    if (!k.known()) throw errorf("the kernel of a convolution must have a fixed size").found(weight.text());
    check("weight", k.size(), 1);
    w.kernel.push_back(k.size());
    const Dim in = c.type("x").shape[i + 2];
    if (in.known()) check("x", in.size(), 0);
  }
  w.strides = c.integers_or("strides", n, 1);
  w.dilations = c.integers_or("dilations", n, 1);
  w.pad = c.text("pad_type") == "custom" ? c.integers_or("pad", 2 * n, 0) : std::vector<int64_t>(2 * n, 0);
  w.groups = c.integer("groups");
  for (const int64_t v : w.strides) check("strides", v, 1);
  for (const int64_t v : w.dilations) check("dilations", v, 1);
  for (const int64_t v : w.pad) check("pad", v, 0);
  check("groups", w.groups, 1);
  return w;
}

Patches::Patches(const ConvWindow& w, std::span<const int64_t> dims, std::span<const int64_t> before,
                 std::span<const int64_t> out)
    : channels_(dims[0]) {
  const size_t n = w.kernel.size(), skip = 3 - n;
  for (size_t i = 0; i < 3; ++i) {
    in_[i] = i < skip ? 1 : dims[1 + i - skip];
    out_[i] = i < skip ? 1 : out[i - skip];
    kernel_[i] = i < skip ? 1 : w.kernel[i - skip];
    stride_[i] = i < skip ? 1 : w.strides[i - skip];
    dilation_[i] = i < skip ? 1 : w.dilations[i - skip];
    before_[i] = i < skip ? 0 : before[i - skip];
    plain_ &= kernel_[i] == 1 && stride_[i] == 1 && before_[i] == 0 && in_[i] == out_[i];
  }
}

// f(column, image, count): `count` columns from `column` read the image at `image`, `stride` apart; image is
// -1 where they lie in the padding.
template <class F>
void Patches::each_segment(int64_t row, int64_t c0, int64_t c1, F f) const {
  const int64_t kw = row % kernel_[2], kh = row / kernel_[2] % kernel_[1];
  const int64_t kd = row / kernel_[2] / kernel_[1] % kernel_[0],
                channel = row / kernel_[2] / kernel_[1] / kernel_[0];
  const int64_t shift = kw * dilation_[2] - before_[2];
  // Output columns [first, last) of a line read inside the image.
  const int64_t first =
      std::clamp<int64_t>(shift >= 0 ? 0 : (-shift + stride_[2] - 1) / stride_[2], 0, out_[2]);
  const int64_t room = in_[2] - shift;
  const int64_t last =
      std::clamp<int64_t>(room <= 0 ? 0 : (room + stride_[2] - 1) / stride_[2], first, out_[2]);
  for (int64_t column = c0; column < c1;) {
    const int64_t line = column / out_[2], ow = column % out_[2];
    const int64_t end = std::min(c1 - column, out_[2] - ow) + ow;
    const int64_t ih = line % out_[1] * stride_[1] + kh * dilation_[1] - before_[1];
    const int64_t id = line / out_[1] * stride_[0] + kd * dilation_[0] - before_[0];
    const bool inside = ih >= 0 && ih < in_[1] && id >= 0 && id < in_[0];
    const int64_t from = inside ? std::clamp(first, ow, end) : end,
                  to = inside ? std::clamp(last, from, end) : end;
    if (from > ow) f(column, int64_t{-1}, from - ow);
    if (to > from)
      f(column + from - ow, ((channel * in_[0] + id) * in_[1] + ih) * in_[2] + from * stride_[2] + shift,
        to - from);
    if (end > to) f(column + to - ow, int64_t{-1}, end - to);
    column += end - ow;
  }
}

void Patches::gather(const float* image, int64_t r0, int64_t r1, int64_t c0, int64_t c1, float* to) const {
  const int64_t stride = stride_[2];
  for (int64_t row = r0; row < r1; ++row, to += c1 - c0)
    each_segment(row, c0, c1, [&](int64_t column, int64_t at, int64_t count) {
      float* out = to + (column - c0);
      if (at < 0)
        std::fill_n(out, count, 0.0f);
      else if (stride == 1)
        std::copy_n(image + at, count, out);
      else
        for (int64_t i = 0; i < count; ++i) out[i] = image[at + i * stride];
    });
}

void Patches::scatter_add(const float* rows, int64_t r0, int64_t r1, float* image) const {
  const int64_t stride = stride_[2], all = columns();
  for (int64_t row = r0; row < r1; ++row, rows += all)
    each_segment(row, 0, all, [&](int64_t column, int64_t at, int64_t count) {
      if (at < 0) return;
      for (int64_t i = 0; i < count; ++i) image[at + i * stride] += rows[column + i];
    });
}

}  // namespace anemone::ops
