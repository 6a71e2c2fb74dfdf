// Convolution: a convolution of known sizes over a stored weight, and what is done with its sums before they are
// stored. It picks the way: plane by plane (depthwise), Winograd's, straight from the image (few output channels), or
// patches times the weight.
//     if (Convolution::takes(binding)) Convolution(call, out_type, false).run(pool, x, bias, nullptr, {}, out);
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "engine/packed_product.h"
#include "engine/winograd_product.h"
#include "kernels/depthwise.h"
#include "mil/conv_window.h"
#include "mil/op.h"

namespace anemone {

// A function of single elements behind a convolution: a range, then anything else.
struct Activation {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  std::function<void(const float* x, int64_t n, float* out)> map = {};
};

class Convolution {
 public:
  // Of one group, or a kernel of its own for each input channel; sizes known.
  static bool takes(const OpBinding& binding);

  // `prepare`: the weight may be kept in another form beside the stored one.
  Convolution(const OpCall& call, const Type& out, bool prepare);

  // bias: one for each output channel; add: laid out as out is; both may be empty.
  void run(ThreadPool& pool, const float* x, const float* bias, const float* add, const Activation& then,
           float* out) const;

  // The patches are the image itself: 1 x 1, no stride, no padding, one group.
  bool is_plain() const;
  // A kernel of its own for each channel, which makes one channel of it.
  bool is_channelwise() const { return depthwise_ && out_[1] == in_[1]; }
  const std::vector<int64_t>& in_sizes() const { return in_; }
  const PackedProduct& product() const { return *product_; }  // where it is plain
  DepthwisePlane plane() const;                               // where it is depthwise
  const float* kernel(int64_t channel) const { return kernels_.data() + channel * k_; }  // of a prepared one

  uint64_t held_bytes() const {
    return winograd_ ? winograd_->held_bytes() : kernels_.size() * sizeof(float);
  }

 private:
  void run_planes(ThreadPool& pool, const float* x, const GemmEnd& end, const Activation& then,
                  float* out) const;
  void run_image(ThreadPool& pool, const float* x, const PackedProduct::Rows& to) const;
  void run_direct(ThreadPool& pool, const PaddedImage& image, const PackedProduct::Rows& to) const;

  std::vector<int64_t> in_, out_;  // sizes: images, channels, then two or three of space
  ops::ConvWindow window_;
  std::vector<int64_t> before_;
  std::shared_ptr<const StoredTensor> weight_;
  int64_t positions_ = 0, k_ = 0;
  bool depthwise_ = false;
  bool direct_ = false;         // few output channels
  std::vector<float> kernels_;  // the weight, decoded, where it is a small one
  std::optional<PackedProduct> product_;
  std::unique_ptr<WinogradProduct> winograd_;
};

}  // namespace anemone
