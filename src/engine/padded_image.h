// PaddedImage: an image with its zeros around it, laid out so that patches of it are packed in stretches: what
// neighbouring outputs of a 2-D convolution read through one place of the kernel lies together, whatever the stride is.
//     const PaddedImage image(window, before, x, channels, height, width, out_height, out_width, pool, room);
//     image.pack(from, depth, first, count, packed);     // as pack_columns packs the patches
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "engine/buffer.h"
#include "mil/conv_window.h"

namespace anemone {

// The sizes of one image and of what the convolution makes of it.
struct ImageSizes {
  int64_t channels = 0, height = 0, width = 0, out_height = 0, out_width = 0;
};

class PaddedImage {
 public:
  // `room` holds the copy and must outlive this; `before`: rows and columns of zeros above and to the left. The output
  // may go beyond the image: what lies there is zero.
  PaddedImage(const ops::ConvWindow& window, std::span<const int64_t> before, const float* x,
              const ImageSizes& sizes, ThreadPool& pool, FloatRoom& room);

  // Rows [from, from + depth) of the patches (channel, row and column of the kernel) at outputs [first, first + count).
  void pack(int64_t from, int64_t depth, int64_t first, int64_t count, float* packed) const;
  // The same for one panel of `width` columns, of which `count` are there.
  void pack_panel(int64_t from, int64_t depth, int64_t first, int64_t count, int64_t width, float* out) const;

  // Element i of the patch at column x of output row y is row(y)[offsets()[i] + x].
  const float* row(int64_t y) const { return data_ + y * row_step_; }
  std::vector<int64_t> offsets() const;

 private:
  int64_t channels_, out_width_, line_, plane_, row_step_;
  std::vector<int64_t> taps_;  // where the places of the kernel are in a plane
  const float* data_ = nullptr;
};

}  // namespace anemone
