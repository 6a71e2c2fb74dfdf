#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <numeric>

namespace anemone {

CheckpointReader::CheckpointReader(CheckpointFacts facts, std::vector<TensorReader> tensors)
    : facts_(std::move(facts)), tensors_(std::move(tensors)), by_name_(tensors_.size()) {
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return tensors_[a].name() < tensors_[b].name(); });
}

const TensorReader* CheckpointReader::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](size_t i, std::string_view wanted) { return tensors_[i].name() < wanted; });
  return at != by_name_.end() && tensors_[*at].name() == name ? &tensors_[*at] : nullptr;
}

}  // namespace anemone
