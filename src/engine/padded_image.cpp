#include "engine/padded_image.h"

#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/patches.h"

namespace anemone {
PaddedImage::PaddedImage(const ops::ConvWindow& window, std::span<const int64_t> before, const float* x,
                         const ImageSizes& s, ThreadPool& pool, FloatRoom& room)
    : channels_(s.channels), out_width_(s.out_width) {
  const int64_t phases = window.strides[1];
  const int64_t rows =
      (s.out_height - 1) * window.strides[0] + (window.kernel[0] - 1) * window.dilations[0] + 1;
  line_ = s.out_width + (window.kernel[1] - 1) * window.dilations[1] / phases;  // columns of one remainder
  row_step_ = window.strides[0] * phases * line_;
  plane_ = rows * phases * line_;
  for (int64_t t = 0; t < window.kernel[0] * window.kernel[1]; ++t) {
    const int64_t column = t % window.kernel[1] * window.dilations[1];
    taps_.push_back((t / window.kernel[1] * window.dilations[0] * phases + column % phases) * line_ +
                    column / phases);
  }
  float* const all = room.at_least(s.channels * plane_ + floats_beyond());
  data_ = all;
  std::fill_n(all + s.channels * plane_, floats_beyond(), 0.0f);
  pool.parallel_for(s.channels, 1, [&](int64_t begin, int64_t end) {
    const PaddedRows how{s.height, s.width, before[1], phases, line_};
    for (int64_t c = begin; c < end; ++c)
      pad_rows(x + c * s.height * s.width, how, -before[0], rows, true, all + c * plane_);
  });
}

std::vector<int64_t> PaddedImage::offsets() const {
  std::vector<int64_t> out;
  for (int64_t c = 0; c < channels_; ++c)
    for (const int64_t tap : taps_) out.push_back(c * plane_ + tap);
  return out;
}

void PaddedImage::pack_panel(int64_t from, int64_t depth, int64_t first, int64_t count, int64_t width,
                             float* out) const {
  PatchStretch stretches[128];  // a panel has at most as many columns
  size_t used = 0;
  for (int64_t done = 0; done < count; ++used) {
    const int64_t y = (first + done) / out_width_, x = (first + done) % out_width_;
    const int64_t length = std::min(count - done, out_width_ - x);
    stretches[used] = {done, y * row_step_ + x, length};
    done += length;
  }
  pack_patches(data_, {taps_, std::span(stretches, used), plane_, count, width}, from, depth, out);
}

void PaddedImage::pack(int64_t from, int64_t depth, int64_t first, int64_t count, float* packed) const {
  const int64_t lanes = panel_columns() / 2;
  for (int64_t j = 0; j < count;) {
    const int64_t width = count - j > lanes ? 2 * lanes : lanes, columns = std::min(width, count - j);
    pack_panel(from, depth, first + j, columns, width, packed);
    packed += width * depth;
    j += columns;
  }
}

}  // namespace anemone
