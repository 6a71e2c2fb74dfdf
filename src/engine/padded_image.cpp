#include "engine/padded_image.h"

#include <algorithm>
#include <cstring>

#include "kernels/gemm.h"

namespace anemone {
namespace {

// Short stretches: calls of memcpy would take longer than the copies.
inline void copy_stretch(const float* from, int64_t count, float* to) {
  for (; count >= 8; count -= 8, from += 8, to += 8) std::memcpy(to, from, 8 * sizeof(float));
  for (; count > 0; --count) *to++ = *from++;
}

}  // namespace

PaddedImage::PaddedImage(const ops::ConvWindow& window, std::span<const int64_t> before, const float* x,
                         const ImageSizes& s, ThreadPool& pool, std::vector<float>& room)
    : out_width_(s.out_width) {
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
  room.resize(static_cast<size_t>(s.channels * plane_));
  data_ = room.data();
  float* const all = room.data();
  pool.parallel_for(s.channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      float* plane = all + c * plane_;
      std::fill_n(plane, plane_, 0.0f);
      for (int64_t y = 0; y < rows; ++y) {
        const int64_t from = y - before[0];
        if (from < 0 || from >= s.height) continue;
        const float* row = x + (c * s.height + from) * s.width;
        for (int64_t phase = 0; phase < phases; ++phase) {
          // The first column that falls into the phase, and where it goes.
          const int64_t first = (phase - before[1] % phases + phases) % phases,
                        at = (first + before[1]) / phases;
          const int64_t count = std::min((s.width - first + phases - 1) / phases, line_ - at);
          float* to = plane + (y * phases + phase) * line_ + at;
          for (int64_t i = 0; i < count; ++i) to[i] = row[first + phases * i];
        }
      }
    }
  });
}

void PaddedImage::pack_panel(int64_t from, int64_t depth, int64_t first, int64_t count, int64_t width,
                             float* out) const {
  // The rows of the output that the columns are in: where their stretches begin in a plane and in the panel.
  struct Stretch {
    int64_t at, begin, count;
  };
  Stretch stretches[128];  // a panel has at most as many columns
  int used = 0;
  for (int64_t done = 0; done < count; ++used) {
    const int64_t y = (first + done) / out_width_, x = (first + done) % out_width_;
    const int64_t length = std::min(count - done, out_width_ - x);
    stretches[used] = {done, y * row_step_ + x, length};
    done += length;
  }
  const auto taps = static_cast<int64_t>(taps_.size());
  for (int64_t r = from; r < from + depth; ++r, out += width) {
    const float* source = data_ + r / taps * plane_ + taps_[static_cast<size_t>(r % taps)];
    for (int i = 0; i < used; ++i)
      copy_stretch(source + stretches[i].begin, stretches[i].count, out + stretches[i].at);
    std::fill(out + count, out + width, 0.0f);
  }
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
