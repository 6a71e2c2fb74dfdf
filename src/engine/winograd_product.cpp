#include "engine/winograd_product.h"

#include <algorithm>
#include <vector>

#include "kernels/winograd.h"

namespace anemone {
namespace {

constexpr int64_t kRowTile = 48;          // rows of an element's product that a thread takes at a time
constexpr int64_t kMostFloats = 1 << 20;  // of inputs and sums at a time: 4 MiB
constexpr int64_t kSkew = 16;             // keeps elements off the same cache lines

float* floats(const Buffer& buffer) { return static_cast<float*>(static_cast<void*>(buffer.data())); }

}  // namespace

uint64_t WinogradProduct::bytes_for(int64_t rows, int64_t channels) {
  return static_cast<uint64_t>(kWinogradElements * rows * channels) * sizeof(float);
}

WinogradProduct::WinogradProduct(std::shared_ptr<const StoredTensor> weight, int64_t rows, int64_t channels)
    : weight_(std::move(weight)), rows_(rows), channels_(channels) {}

int64_t WinogradProduct::input_stride(const Block& b) const { return b.padded * channels_ + kSkew; }
int64_t WinogradProduct::sums_stride(const Block& b) const { return b.padded * rows_ + kSkew; }

void WinogradProduct::make(ThreadPool& pool) const {
  elements_ = Buffer(bytes_for(rows_, channels_));
  float* const all = floats(elements_);
  pool.parallel_for(rows_, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(9 * channels_));
    for (int64_t r = begin; r < end; ++r) {
      weight_->read(r * 9 * channels_, (r + 1) * 9 * channels_, row.data());
      for (int64_t c = 0; c < channels_; ++c)
        winograd_weight(row.data() + 9 * c, all + r * channels_ + c, rows_ * channels_);
    }
  });
  made_ = true;
}

bool WinogradProduct::run(ThreadPool& pool, const float* x, const ImageSizes& s,
                          std::span<const int64_t> before, const GemmEnd& end, float* out) const {
  std::call_once(once_, [&] { make(pool); });
  const int64_t high = (s.out_height + kWinogradTile - 1) / kWinogradTile,
                wide = (s.out_width + kWinogradTile - 1) / kWinogradTile;
  // Tiles are what a convolution of 6 x 6 with a stride of 4 reads.
  const ops::ConvWindow window{
      {kWinogradSide, kWinogradSide}, {kWinogradTile, kWinogradTile}, {1, 1}, {0, 0, 0, 0}};
  thread_local FloatRoom padded, room;
  const PaddedImage image(window, before, x, {s.channels, s.height, s.width, high, wide}, pool, padded);
  const int64_t panel = panel_columns(), tiles = high * wide;
  const int64_t fits = kMostFloats / (kWinogradElements * (rows_ + channels_)) / panel * panel;
  const int64_t at_a_time = std::max(panel, fits);
  bool fine = true;
  for (int64_t first = 0; first < tiles; first += at_a_time) {
    const int64_t count = std::min(at_a_time, tiles - first);
    const Block block{first, count, packed_size(count, 1)};
    const int64_t inputs = kWinogradElements * input_stride(block);
    float* const from = room.at_least(inputs + kWinogradElements * sums_stride(block));
    turn_inputs(pool, image, block, from);
    multiply(pool, block, from, from + inputs);
    fine = turn_sums(pool, block, s, from + inputs, end, out) && fine;
  }
  return fine;
}

// Every element's inputs as gemm_packed wants them.
void WinogradProduct::turn_inputs(ThreadPool& pool, const PaddedImage& image, const Block& b,
                                  float* inputs) const {
  const int64_t panel = panel_columns();
  pool.parallel_for(channels_, 1, [&](int64_t begin, int64_t end) {
    thread_local FloatRoom patches_room;
    float* const patches = patches_room.at_least(kWinogradElements * panel);
    for (int64_t c = begin; c < end; ++c) {
      const int64_t piece = c / kGemmDepth * kGemmDepth, depth = std::min(kGemmDepth, channels_ - piece);
      for (int64_t t = 0; t < b.padded; t += panel) {
        const int64_t width = std::min(panel, b.padded - t);
        image.pack_panel(c * kWinogradElements, kWinogradElements, b.first + t, std::min(width, b.count - t),
                         width, patches);
        winograd_input(patches, width, inputs + b.padded * piece + t * depth + (c - piece) * width,
                       input_stride(b));
      }
    }
  });
}

void WinogradProduct::multiply(ThreadPool& pool, const Block& b, const float* inputs, float* sums) const {
  const int64_t row_tiles = (rows_ + kRowTile - 1) / kRowTile;
  pool.parallel_for(kWinogradElements * row_tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t element = unit / row_tiles, row = unit % row_tiles * kRowTile;
      const float* weight = floats(elements_) + (element * rows_ + row) * channels_;
      const float* in = inputs + element * input_stride(b);
      // What comes next is on its way while this is multiplied.
      if (unit + 1 < kWinogradElements * row_tiles)
        for (int64_t i = 0; i < kRowTile * channels_; i += 16)
          __builtin_prefetch(weight + kRowTile * channels_ + i, 0, 2);
      for (int64_t from = 0; from < channels_; from += kGemmDepth)
        gemm_packed(std::min(kRowTile, rows_ - row), b.padded, std::min(kGemmDepth, channels_ - from),
                    weight + from, channels_, in + b.padded * from,
                    sums + element * sums_stride(b) + row * b.padded, b.padded, from > 0);
    }
  });
}

bool WinogradProduct::turn_sums(ThreadPool& pool, const Block& b, const ImageSizes& s, const float* sums,
                                const GemmEnd& end, float* out) const {
  const int64_t lanes = panel_columns() / 2, wide = (s.out_width + kWinogradTile - 1) / kWinogradTile;
  // Where the tiles of each vector go.
  std::vector<std::vector<WinogradStretch>> places;
  for (int64_t t = 0; t < b.count; t += lanes) {
    std::vector<WinogradStretch>& stretches = places.emplace_back();
    for (int64_t done = t; done < std::min(b.count, t + lanes);) {
      const int64_t y = (b.first + done) / wide * kWinogradTile, x = (b.first + done) % wide;
      const int64_t tiles = std::min({b.count - done, t + lanes - done, wide - x});
      stretches.push_back({done - t, std::min(kWinogradTile, s.out_height - y),
                           std::min(kWinogradTile * tiles, s.out_width - kWinogradTile * x),
                           y * s.out_width + kWinogradTile * x});
      done += tiles;
    }
  }
  std::atomic<bool> fine = true;
  const int64_t plane = s.out_height * s.out_width;
  pool.parallel_for(rows_, 1, [&](int64_t begin, int64_t stop) {
    bool all = true;
    for (int64_t r = begin; r < stop; ++r)
      for (size_t v = 0; v < places.size(); ++v)
        all = winograd_output(sums + r * b.padded + static_cast<int64_t>(v) * lanes, sums_stride(b),
                              places[v], s.out_width, end.from(r, r * plane), out + r * plane) &&
              all;
    if (!all) fine = false;
  });
  return fine;
}

}  // namespace anemone
