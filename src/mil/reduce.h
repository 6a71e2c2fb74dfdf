// Reduction: walks a dense tensor so that some of its axes are reduced, with contiguous inner loops.
//     Reduction reduction(dims, axes);
//     reduction.for_blocks(pool, [&](int64_t output, int64_t base, int64_t width) {
//       reduction.walk([&](int64_t offset, …) …) });
// Either one output's elements lie side by side (the last axis is reduced: `run` of them), or the elements of
// neighbouring outputs do (it is kept: up to kColumns of them are taken together).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "mil/loops.h"

namespace anemone {

class Reduction {
 public:
  static constexpr int64_t kColumns = 64;

  // axes: normalised and sorted.
  Reduction(std::span<const int64_t> dims, std::span<const int> axes);

  int64_t outputs() const { return outputs_; }
  int64_t count() const { return count_; }  // elements of one output
  int64_t run() const { return run_; }

  // body(output, base, width) for blocks of outputs [output, output + width); the first element of output + j
  // is at base + j.
  template <class F>
  void for_blocks(ThreadPool& pool, F body) const {
    if (outputs_ == 0) return;
    const int64_t blocks = (columns_ + kColumns - 1) / kColumns;
    const int64_t work = std::max<int64_t>(1, count_ * std::min(columns_, kColumns));
    const auto task = [&](int64_t begin, int64_t end) {
      const std::vector<int64_t> strides[] = {outer_strides_};
      Walker outer(outer_dims_, strides);
      for (int64_t r = begin; r < end; ++r) {
        outer.seek(r / blocks);
        const int64_t column = r % blocks * kColumns;
        body(r / blocks * columns_ + column, outer.offset(0) + column, std::min(kColumns, columns_ - column));
      }
    };
    pool.parallel_for(outputs_ / columns_ * blocks, std::max<int64_t>(1, kMapGrain / work), task);
  }

  // step(offset, index) for the elements of an output, `run` at a time: where they lie from its first
  // element, and the position of the first of them among the reduced ones.
  template <class F>
  void walk(F step) const {
    const std::vector<int64_t> strides[] = {inner_strides_};
    Walker inner(inner_dims_, strides);
    for (int64_t k = 0; k < count_; k += run_) {
      step(inner.offset(0), k);
      inner.next();
    }
  }

  // out[o] = finish(acc) where acc starts as `init` and takes step(acc, element, index) in order.
  template <class In, class Acc, class Out, class Step, class Finish>
  void reduce(ThreadPool& pool, const In* in, Out* out, Acc init, Step step, Finish finish) const {
    for_blocks(pool, [&](int64_t output, int64_t base, int64_t width) {
      std::array<Acc, kColumns> acc;
      std::fill_n(acc.begin(), width, init);
      walk([&](int64_t offset, int64_t index) {
        const In* p = in + base + offset;
        if (run_ == 1) {
          for (int64_t j = 0; j < width; ++j)
            acc[static_cast<size_t>(j)] = step(acc[static_cast<size_t>(j)], p[j], index);
        } else {
          Acc a = acc[0];
          for (int64_t i = 0; i < run_; ++i) a = step(a, p[i], index + i);
          acc[0] = a;
        }
      });
      for (int64_t j = 0; j < width; ++j) out[output + j] = finish(acc[static_cast<size_t>(j)]);
    });
  }

 private:
  int64_t outputs_ = 1, count_ = 1, columns_ = 1, run_ = 1;
  std::vector<int64_t> outer_dims_, outer_strides_;  // kept dimensions without the columns
  std::vector<int64_t> inner_dims_, inner_strides_;  // reduced dimensions without the run
};

}  // namespace anemone
