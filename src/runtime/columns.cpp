#include "runtime/columns.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "kernels/convert.h"

namespace anemone {

void read_elements(const TensorView& view, int64_t offset, int64_t stride, int64_t count, float* to) {
  switch (view.dtype) {
    case DType::fp32: {
      const float* from = static_cast<const float*>(view.data) + offset;
      if (stride == 1)
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      else
        for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
      return;
    }
    case DType::fp16: {
      const uint16_t* from = static_cast<const uint16_t*>(view.data) + offset;
      if (stride == 1)
        halves_to_floats(reinterpret_cast<const std::byte*>(from), count, to);
      else
        for (int64_t i = 0; i < count; ++i) to[i] = half_to_float(from[i * stride]);
      return;
    }
    default:
      throw errorf("an output of type {} cannot be read", dtype_name(view.dtype)).expected("fp32 or fp16");
  }
}

void read_columns(const TensorView& view, int64_t first, int64_t count, float* to, int64_t pitch) {
  const int64_t channels = view.shape[1], down = view.strides[1], across = view.strides[2];
  // A few channels at a time, so that both sides stay in the cache.
  const int64_t step = count > 1 && down != 1 ? 16 : channels;
  for (int64_t c = 0; c < channels; c += step)
    for (int64_t t = 0; t < count; ++t)
      read_elements(view, c * down + (first + t) * across, down, std::min(step, channels - c),
                    to + t * pitch + c);
}

float read_number(const TensorView& view, int64_t channel, int64_t column) {
  float out = 0;
  read_elements(view, channel * view.strides[1] + column * view.strides[2], 1, 1, &out);
  return out;
}

}  // namespace anemone
