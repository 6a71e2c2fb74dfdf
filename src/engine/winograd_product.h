// WinogradProduct: convolutions of 3 x 3 by a quarter of the multiply-adds (kernels/winograd.h). It keeps the weight as
// 36 elements for each kernel, four times what fp32 takes.
//     WinogradProduct product(stored, rows, channels);
//     if (!product.run(pool, x, sizes, before, end, out)) …      // something is not finite: sum in the plain way
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "base/thread_pool.h"
#include "engine/buffer.h"
#include "engine/padded_image.h"
#include "kernels/gemm.h"
#include "mil/stored.h"

namespace anemone {

class WinogradProduct {
 public:
  // Bytes of the elements of such a weight.
  static uint64_t bytes_for(int64_t rows, int64_t channels);

  // The elements are made when the first call needs them.
  WinogradProduct(std::shared_ptr<const StoredTensor> weight, int64_t rows, int64_t channels);

  uint64_t held_bytes() const { return made_ ? elements_.size() : 0; }

  // One image, stride 1. False: an output is not finite, and none counts.
  bool run(ThreadPool& pool, const float* x, const ImageSizes& sizes, std::span<const int64_t> before,
           const GemmEnd& end, float* out) const;

 private:
  // Tiles [first, first + count) of the image; `padded`: as many as fill vectors.
  struct Block {
    int64_t first, count, padded;
  };
  // Where the elements of the inputs and the sums of products lie, from one element to the next.
  int64_t input_stride(const Block& b) const;
  int64_t sums_stride(const Block& b) const;

  void make(ThreadPool& pool) const;
  void turn_inputs(ThreadPool& pool, const PaddedImage& image, const Block& block, float* inputs) const;
  void multiply(ThreadPool& pool, const Block& block, const float* inputs, float* sums) const;
  bool turn_sums(ThreadPool& pool, const Block& block, const ImageSizes& sizes, const float* sums,
                 const GemmEnd& end, float* out) const;

  const std::shared_ptr<const StoredTensor> weight_;
  const int64_t rows_, channels_;
  mutable std::once_flag once_;
  mutable Buffer elements_;  // [element][row][channel]
  mutable std::atomic<bool> made_ = false;
};

}  // namespace anemone
