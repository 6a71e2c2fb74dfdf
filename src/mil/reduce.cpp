#include "mil/reduce.h"

namespace anemone {

Reduction::Reduction(std::span<const int64_t> dims, std::span<const int> axes) {
  const auto is_reduced = [&](size_t i) {
    return std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
  };
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 0) (is_reduced(i) ? count_ : outputs_) = 0;
  if (outputs_ == 0) return;
  if (count_ == 0) {  // nothing to read, and the product of the reduced dimensions need not fit in 64 bits
    for (size_t i = 0; i < dims.size(); ++i)
      if (!is_reduced(i)) outputs_ *= dims[i];
    columns_ = outputs_;
    return;
  }
  const std::vector<int64_t> strides = dense_strides(dims);
  int last_reduced = -1, last_kept = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool reduced = is_reduced(i);
    (reduced ? count_ : outputs_) *= dims[i];
    if (dims[i] == 1) continue;
    const int at = static_cast<int>(i);
    int& last = reduced ? last_reduced : last_kept;
    const int other = reduced ? last_kept : last_reduced;
    auto& group_dims = reduced ? inner_dims_ : outer_dims_;
    auto& group_strides = reduced ? inner_strides_ : outer_strides_;
    if (last >= 0 && other < last) {  // next to the one before: one dimension
      group_dims.back() *= dims[i];
      group_strides.back() = strides[i];
    } else {
      group_dims.push_back(dims[i]);
      group_strides.push_back(strides[i]);
    }
    last = at;
  }
  if (last_reduced > last_kept) {
    run_ = inner_dims_.back();
    inner_dims_.pop_back();
    inner_strides_.pop_back();
  } else if (last_kept >= 0) {
    columns_ = outer_dims_.back();
    outer_dims_.pop_back();
    outer_strides_.pop_back();
  }
}

}  // namespace anemone
