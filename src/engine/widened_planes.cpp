#include "engine/widened_planes.h"

#include <algorithm>
#include <atomic>

namespace anemone {
namespace {

// Floats that a thread works on at a time, packed columns and channels of the wide image: 384 KiB of the second cache.
constexpr int64_t kMostFloats = 96 << 10;
// Channels at a time: as many rows as two tiles of a product have; half of them where a thread has few parts.
constexpr int64_t kChannels = 24, kPartsPerThread = 4;
// Bands compute the rows that they share with their neighbours anew: low ones are not worth it.
constexpr int64_t kLeastRows = 6;

// Rows of the image for so many of the output.
int64_t rows_read(const DepthwisePlane& p, int64_t rows) {
  return (rows - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
}

// Rows of the output for which everything fits.
int64_t rows_that_fit(const DepthwisePlane& p, int64_t depth) {
  const int64_t rows = kMostFloats / (depth + kChannels) / std::max<int64_t>(p.width, 1);
  if (rows >= p.height) return p.out_height;
  if (rows < rows_read(p, 1)) return 0;
  return (rows - rows_read(p, 1)) / p.stride[0] + 1;
}

}  // namespace

struct WidenedPlanes::Rooms {
  FloatRoom packed, wide;
  const float* columns = nullptr;  // packed, of one band
  uint64_t run = 0;                // whose columns they are, and of which image and band
  int64_t place = -1;
  PackedProduct::Tools tools;
  DepthwiseRoom plane;
};

bool WidenedPlanes::takes(const Convolution& widen, const Convolution& planes) {
  if (!widen.is_plain() || !planes.is_channelwise() || planes.in_sizes().size() != 4) return false;
  const DepthwisePlane plane = planes.plane();
  return rows_that_fit(plane, widen.product().depth()) >= std::min(kLeastRows, plane.out_height);
}

WidenedPlanes::WidenedPlanes(Convolution widen, Convolution planes)
    : widen_(std::move(widen)),
      planes_(std::move(planes)),
      plane_(planes_.plane()),
      images_(planes_.in_sizes()[0]),
      channels_(planes_.in_sizes()[1]) {
  // Bands of one height, as far as they go.
  const int64_t fits = rows_that_fit(plane_, widen_.product().depth());
  bands_ = (plane_.out_height + fits - 1) / fits;
  band_rows_ = (plane_.out_height + bands_ - 1) / bands_;
  bands_ = (plane_.out_height + band_rows_ - 1) / band_rows_;
}

// An odd number of cache lines, so that channels do not meet in the same places of the cache.
int64_t WidenedPlanes::Band::stride() const { return packed_size(positions(), 1) | 16; }

WidenedPlanes::Band WidenedPlanes::band(int64_t index) const {
  Band out{index * band_rows_, 0, plane_};
  out.plane.out_height = std::min(band_rows_, plane_.out_height - out.y);
  const int64_t begin = out.y * plane_.stride[0] - plane_.before[0];
  out.first = std::clamp<int64_t>(begin, 0, plane_.height);
  const int64_t end = begin + rows_read(plane_, out.plane.out_height);
  out.plane.height = std::clamp(end, out.first, plane_.height) - out.first;
  out.plane.before[0] = out.first - begin;
  return out;
}

void WidenedPlanes::pack(const Band& band, const float* image, Rooms& rooms) const {
  const int64_t depth = widen_.product().depth(), plane = plane_.height * plane_.width;
  float* const packed = rooms.packed.at_least(packed_size(band.positions(), depth));
  for (int64_t from = 0; from < depth; from += kGemmDepth)
    pack_columns({image + from * plane + band.first * plane_.width, plane, 1}, band.positions(),
                 std::min(kGemmDepth, depth - from), packed + packed_size(band.positions(), from));
  rooms.columns = packed;
}

const float* WidenedPlanes::widen(const Band& band, const Part& part, const End& end, Rooms& rooms) const {
  float* const wide = rooms.wide.at_least(kChannels * band.stride());
  const GemmEnd here{.bias = end.bias, .low = end.then.low, .high = end.then.high};
  widen_.product().multiply({part.channel, part.channels, 0, band.positions(), rooms.columns, true},
                            rooms.tools, wide, band.stride(), here.from(part.channel, 0));
  for (int64_t c = 0; c < part.channels && end.then.map; ++c)
    end.then.map(wide + c * band.stride(), band.positions(), wide + c * band.stride());
  return wide;
}

void WidenedPlanes::convolve(const Band& band, const Part& part, const float* wide, const End& end,
                             Rooms& rooms, float* out) const {
  const GemmEnd all{.bias = end.bias, .add = end.add, .low = end.then.low, .high = end.then.high};
  for (int64_t c = part.channel; c < part.channel + part.channels; ++c, wide += band.stride()) {
    const int64_t offset = ((part.image * channels_ + c) * plane_.out_height + band.y) * plane_.out_width;
    depthwise(band.plane, wide, planes_.kernel(c), all.from(c, offset), rooms.plane, out + offset);
    if (end.then.map) end.then.map(out + offset, band.plane.out_height * plane_.out_width, out + offset);
  }
}

void WidenedPlanes::run(ThreadPool& pool, const float* x, const End& widened, const End& end,
                        float* out) const {
  const int64_t wanted = kPartsPerThread * pool.threads(), places = images_ * bands_;
  const bool many = places * ((channels_ + kChannels - 1) / kChannels) >= wanted;
  const int64_t at_a_time = many ? kChannels : kChannels / 2;
  const int64_t parts = (channels_ + at_a_time - 1) / at_a_time;
  const int64_t image_size = widen_.product().depth() * plane_.height * plane_.width;
  static std::atomic<uint64_t> runs = 0;
  const uint64_t run = ++runs;
  pool.parallel_for(places * parts, 1, [&](int64_t begin, int64_t stop) {
    thread_local Rooms rooms;
    for (int64_t unit = begin; unit < stop; ++unit) {
      const int64_t place = unit / parts, channel = unit % parts * at_a_time;
      const Band here = band(place % bands_);
      const Part part{place / bands_, channel, std::min(at_a_time, channels_ - channel)};
      if (rooms.run != run || rooms.place != place) pack(here, x + part.image * image_size, rooms);
      rooms.run = run, rooms.place = place;
      convolve(here, part, widen(here, part, widened, rooms), end, rooms, out);
    }
  });
}

}  // namespace anemone
