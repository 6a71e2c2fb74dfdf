#include "mil/stored_blocks.h"

#include "base/error.h"
#include "base/shape.h"

namespace anemone {

Blocks::Blocks(std::span<const int64_t> dims, std::span<const int64_t> parts) {
  if (dims.size() != parts.size())
    throw errorf("a tensor of rank {} has a scale or table for rank {}", dims.size(), parts.size());
  count_ = element_count(parts);
  element_count(dims);
  bool stretches = !dims.empty();
  int64_t inner = 1;  // elements behind the second dimension
  std::vector<Axis> reversed;
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (parts[i] < 1 || dims[i] % parts[i] != 0)
      throw errorf("along dimension {} there are {} blocks for {} elements", i, parts[i], dims[i])
          .expected("a divisor of the elements");
    if (i > 1 && parts[i] != 1) stretches = false;
    if (i > 1) inner *= dims[i];
    const Axis axis{dims[i], std::max<int64_t>(1, dims[i] / parts[i]), stride};
    stride *= parts[i];
    if (!reversed.empty() &&
        reversed.back().block == reversed.back().size)  // the inner one is one block: join
      reversed.back() = {axis.size * reversed.back().size, axis.block * reversed.back().size, axis.stride};
    else if (axis.size != 1)
      reversed.push_back(axis);
  }
  axes_.assign(reversed.rbegin(), reversed.rend());
  for (Axis& axis : axes_) {  // an empty tensor has no runs; keep the divisions defined
    axis.size = std::max<int64_t>(1, axis.size);
    axis.block = std::max<int64_t>(1, axis.block);
  }
  if (!stretches || count_ == 0 || inner == 0) return;
  rows_per_block_ = std::max<int64_t>(1, dims[0] / parts[0]);
  if (dims.size() > 1 && parts[1] > 1) columns_per_block_ = dims[1] / parts[1] * inner;
}

SideTable::SideTable(std::shared_ptr<const StoredTensor> tensor, int64_t elements, bool in_place) {
  constexpr int64_t kSmall = 1 << 16;
  const int64_t count = tensor->type().size();
  const StoredTensor::Layout layout = in_place ? tensor->layout() : StoredTensor::Layout();
  if (layout.dtype == DType::fp16 && layout.data && !layout.scale && !layout.indices()) {
    halves_ = FloatView::of_halves(layout.data);
    tensor_ = std::move(tensor);
  } else if (count <= std::max(kSmall, elements / 16)) {
    decoded_.resize(static_cast<size_t>(count));
    tensor->read(0, count, decoded_.data());
  } else {
    tensor_ = std::move(tensor);
  }
}

uint32_t SideTable::read_one(int64_t i) const {
  uint32_t out = 0;
  tensor_->read(i, i + 1, &out);
  return out;
}

const uint32_t* SideTable::words(int64_t begin, int64_t count, uint32_t* room) const {
  if (!tensor_) return decoded_.data() + begin;
  tensor_->read(begin, begin + count, room);
  return room;
}

}  // namespace anemone
