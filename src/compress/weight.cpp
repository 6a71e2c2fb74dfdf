#include "compress/weight.h"

#include "base/error.h"
#include "kernels/convert.h"

namespace anemone {

WeightValues::WeightValues(const Weight& weight)
    : stored_(weight.stored), file_(weight.file), half_(weight.half()), size_(weight.type.size()) {
  const StoredTensor::Layout layout = stored_->layout();
  if (half_ && layout.dtype == DType::fp16 && layout.data && !layout.scale && !layout.lut &&
      reinterpret_cast<uintptr_t>(layout.data) % 2 == 0)
    plain_ = reinterpret_cast<const uint16_t*>(layout.data);
}

const uint16_t* WeightValues::halves(int64_t begin, int64_t end, std::vector<uint16_t>& room) const {
  ANEMONE_CHECK(half_);
  if (plain_) return plain_ + begin;
  std::vector<float> wide(static_cast<size_t>(end - begin));
  stored_->read(begin, end, wide.data());
  room.resize(wide.size());
  floats_to_halves(wide.data(), end - begin, room.data());
  return room.data();
}

const float* WeightValues::floats(int64_t begin, int64_t end, std::vector<float>& room) const {
  room.resize(static_cast<size_t>(end - begin));
  stored_->read(begin, end, room.data());
  return room.data();
}

void WeightValues::release(int64_t begin, int64_t end) const {
  if (!plain_ || !file_) return;
  const auto* base = file_->bytes().data();
  file_->release(static_cast<uint64_t>(reinterpret_cast<const std::byte*>(plain_ + begin) - base),
                 static_cast<uint64_t>(end - begin) * 2);
}

Axis axis_of(const std::vector<int64_t>& dims, int axis) {
  Axis out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (static_cast<int>(i) < axis) out.outer *= dims[i];
    if (static_cast<int>(i) == axis) out.slices = dims[i];
    if (static_cast<int>(i) > axis) out.inner *= dims[i];
  }
  return out;
}

}  // namespace anemone
