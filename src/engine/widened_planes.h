// WidenedPlanes: a 1 x 1 convolution whose result only a depthwise convolution reads, as one step. A part of the wide
// image in between, some channels of a band of rows, stays in the second cache; the whole is never in memory.
//     if (WidenedPlanes::takes(widen, planes)) WidenedPlanes(widen, planes).run(pool, x, {…}, {…}, out);
#pragma once

#include <optional>

#include "engine/convolution.h"

namespace anemone {

class WidenedPlanes {
 public:
  // What is done with the sums of a convolution.
  struct End {
    const float *bias = nullptr, *add = nullptr;
    const Activation& then;
  };

  static bool takes(const Convolution& widen, const Convolution& planes);
  WidenedPlanes(Convolution widen, Convolution planes);

  // Nothing is added behind the first one.
  void run(ThreadPool& pool, const float* x, const End& widened, const End& end, float* out) const;
  uint64_t held_bytes() const { return widen_.held_bytes() + planes_.held_bytes(); }

 private:
  struct Rooms;
  // Rows of the output, and the rows of the image that they read.
  struct Band {
    int64_t y, first;
    DepthwisePlane plane;  // whose image is these rows
    int64_t positions() const { return plane.height * plane.width; }
    int64_t stride() const;  // from one channel of the wide image to the next
  };
  struct Part {
    int64_t image, channel, channels;
  };

  Band band(int64_t index) const;
  void pack(const Band& band, const float* image, Rooms& rooms) const;
  const float* widen(const Band& band, const Part& part, const End& end, Rooms& rooms) const;
  void convolve(const Band& band, const Part& part, const float* wide, const End& end, Rooms& rooms,
                float* out) const;

  Convolution widen_, planes_;
  DepthwisePlane plane_;
  int64_t images_, channels_, band_rows_, bands_;
};

}  // namespace anemone
