#include "engine/state_bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace anemone {

StateBounds::StateBounds(const Type& content) {
  if (!content.is_float() || content.rank() < 2 || content.size() == 0) {
    known_ = false;
    return;
  }
  width_ = content.dim(content.rank() - 1).size();
  rows_ = content.dim(content.rank() - 2).size();
  lanes_.assign(static_cast<size_t>(content.size() / rows_), 0.0f);
}

void StateBounds::reset(const float* data) {
  if (width_ == 0) return;
  std::fill(lanes_.begin(), lanes_.end(), 0.0f);
  known_ = true;
  for (int64_t p = 0; p < parts(); ++p) include(p, data + p * rows_ * width_, rows_);
}

void StateBounds::include(int64_t part, const float* data, int64_t count) {
  if (!known_) return;
  float* lanes = lanes_.data() + part * width_;
  uint32_t special = 0;  // an exponent of all ones: infinite or NaN
  for (int64_t r = 0; r < count; ++r, data += width_)
    for (int64_t i = 0; i < width_; ++i) {
      lanes[i] = std::max(lanes[i], std::abs(data[i]));
      special |= (std::bit_cast<uint32_t>(data[i]) & 0x7f800000u) == 0x7f800000u;
    }
  if (special) known_ = false;
}

}  // namespace anemone
