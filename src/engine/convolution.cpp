#include "engine/convolution.h"

#include <algorithm>

#include "engine/kernel_choice.h"
#include "kernels/direct.h"
#include "kernels/gemm.h"

namespace anemone {
namespace {

// Winograd's way pays for itself from so many outputs and channels on; its copy of a weight is at most so large.
constexpr int64_t kLeastPositions = 144, kLeastChannels = 16;
constexpr uint64_t kMostPrepared = 16 << 20;
// Packed patches that are multiplied with no more rows than these cost more than they give, if rows of the output fill
// vectors.
constexpr int64_t kDirectRows = 16, kDirectColumns = 32, kDirectGrain = 1 << 10;

const Type* operand_type(const OpBinding& b, std::string_view name) {
  const Operand* operand = find_operand(b, name);
  return operand ? &operand->type : nullptr;
}

bool all_are(std::span<const int64_t> values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [value](int64_t v) { return v == value; });
}

}  // namespace

bool Convolution::takes(const OpBinding& b) {
  if (b.op->name != "conv") return false;
  const Type *x = operand_type(b, "x"), *weight = operand_type(b, "weight");
  if (!x || !weight || !x->fixed() || !weight->fixed() || x->rank() < 3 || x->rank() > 5 ||
      weight->rank() != x->rank() || weight->size() == 0 || x->size() == 0)
    return false;
  // One input channel a group: of several channels they are all groups.
  return x->dim(1) == weight->dim(1) || (x->rank() == 4 && weight->dim(1) == Dim(1));
}

Convolution::Convolution(const OpCall& c, const Type& out, bool prepare)
    : in_(c.type("x").dims()),
      out_(out.dims()),
      window_(ops::conv_window(c, static_cast<int>(in_.size()) - 2)) {
  before_ = sliding_window(std::span(c.type("x").shape).subspan(2), c.text("pad_type"), window_.kernel,
                           window_.strides, window_.dilations, window_.pad, false)
                .before;
  weight_ = c.stored("weight");
  if (!weight_) weight_ = stored_dense(c.type("weight"), c.data("weight"));
  if (in_.size() == 3) {  // one row of an image
    in_.insert(in_.begin() + 2, 1);
    out_.insert(out_.begin() + 2, 1);
    before_.insert(before_.begin(), 0);
    for (auto* sizes : {&window_.kernel, &window_.strides, &window_.dilations})
      sizes->insert(sizes->begin(), 1);
  }
  const std::vector<int64_t> w = c.type("weight").dims();
  k_ = c.type("weight").size() / w[0];
  positions_ = out.size() / (out_[0] * out_[1]);
  depthwise_ = w[1] != in_[1];
  direct_ = !depthwise_ && in_.size() == 4 && w[0] <= kDirectRows && out_[3] >= kDirectColumns && !is_plain();
  if (direct_ || (depthwise_ && prepare)) kernels_ = decode_floats(*weight_);
  if (depthwise_ || direct_) return;
  product_.emplace(weight_, w[0], k_);
  const bool three = window_.kernel == std::vector<int64_t>{3, 3} && all_are(window_.strides, 1) &&
                     all_are(window_.dilations, 1);
  if (prepare && three && positions_ >= kLeastPositions && std::min(w[0], w[1]) >= kLeastChannels &&
      WinogradProduct::bytes_for(w[0], w[1]) <= kMostPrepared)
    winograd_ = std::make_unique<WinogradProduct>(weight_, w[0], w[1]);
}

bool Convolution::is_plain() const {
  return !depthwise_ && all_are(window_.kernel, 1) && all_are(window_.strides, 1) &&
         std::equal(in_.begin() + 2, in_.end(), out_.begin() + 2);
}

void Convolution::run(ThreadPool& pool, const float* x, const float* bias, const float* add,
                      const Activation& then, float* out) const {
  const GemmEnd end{.bias = bias, .add = add, .low = then.low, .high = then.high};
  if (depthwise_) return run_planes(pool, x, end, then, out);
  int64_t image_size = in_[1];
  for (size_t i = 2; i < in_.size(); ++i) image_size *= in_[i];
  for (int64_t image = 0; image < in_[0]; ++image) {
    const int64_t offset = image * out_[1] * positions_;
    const GemmEnd here = end.from(0, offset);
    const float* from = x + image * image_size;
    if (winograd_ &&
        winograd_->run(pool, from, {in_[1], in_[2], in_[3], out_[2], out_[3]}, before_, here, out + offset)) {
      if (then.map)
        pool.parallel_for(out_[1], 1, [&](int64_t begin, int64_t stop) {
          for (float* row = out + offset + begin * positions_; begin < stop; ++begin, row += positions_)
            then.map(row, positions_, row);
        });
      continue;
    }
    run_image(pool, from, {out + offset, positions_, here, then.map});
  }
}

DepthwisePlane Convolution::plane() const {
  DepthwisePlane plane{in_[2], in_[3], out_[2], out_[3]};
  for (size_t i = 0; i < 2; ++i) {
    plane.kernel[i] = window_.kernel[i];
    plane.stride[i] = window_.strides[i];
    plane.dilation[i] = window_.dilations[i];
    plane.before[i] = before_[i];
  }
  return plane;
}

// A kernel of its own for each plane of the input; several planes of the output may come from one.
void Convolution::run_planes(ThreadPool& pool, const float* x, const GemmEnd& end, const Activation& then,
                             float* out) const {
  const DepthwisePlane plane = this->plane();
  const int64_t from_one = out_[1] / in_[1], plane_size = in_[2] * in_[3];
  const Tiles weight(kernels_.empty() ? weight_.get() : nullptr, kernels_.data());
  pool.parallel_for(out_[0] * out_[1], 1, [&](int64_t begin, int64_t stop) {
    thread_local DepthwiseRoom room;
    std::vector<float> scratch;
    for (int64_t unit = begin; unit < stop; ++unit) {
      const int64_t channel = unit % out_[1], image = unit / out_[1];
      const float* kernel = weight.floats(channel * k_, (channel + 1) * k_, scratch);
      float* to = out + unit * positions_;
      const GemmEnd here = end.from(channel, unit * positions_);
      depthwise(plane, x + (image * in_[1] + channel / from_one) * plane_size, kernel, here, room, to);
      if (then.map) then.map(to, positions_, to);
    }
  });
}

// Each row of the output on its own, long ones in pieces.
void Convolution::run_direct(ThreadPool& pool, const PaddedImage& image,
                             const PackedProduct::Rows& to) const {
  const std::vector<int64_t> offsets = image.offsets();
  const int64_t pieces = (out_[3] + kDirectGrain - 1) / kDirectGrain;
  pool.parallel_for(out_[2] * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t y = unit / pieces, x = unit % pieces * kDirectGrain,
                    count = std::min(kDirectGrain, out_[3] - x);
      const int64_t offset = y * out_[3] + x;
      float* out = to.out + offset;
      direct_row({image.row(y) + x, offsets.data(), k_}, kernels_.data(), out_[1], count,
                 to.end.from(0, offset), out, to.stride);
      for (int64_t r = 0; r < out_[1] && to.map; ++r) to.map(out + r * to.stride, count, out + r * to.stride);
    }
  });
}

// Patches of one image times the weight.
void Convolution::run_image(ThreadPool& pool, const float* x, const PackedProduct::Rows& to) const {
  if (is_plain())
    return product_->run(
        pool, positions_,
        [&](int64_t from, int64_t depth, int64_t first, int64_t count, float* packed) {
          pack_columns({x + from * positions_ + first, positions_, 1}, count, depth, packed);
        },
        to);
  if (in_.size() == 4) {
    thread_local FloatRoom padded;
    const PaddedImage image(window_, before_, x, {in_[1], in_[2], in_[3], out_[2], out_[3]}, pool, padded);
    if (direct_) return run_direct(pool, image, to);
    return product_->run(
        pool, positions_,
        [&](int64_t from, int64_t depth, int64_t first, int64_t count, float* packed) {
          image.pack(from, depth, first, count, packed);
        },
        to);
  }
  const ops::Patches patches(window_, std::span(in_).subspan(1), before_, std::span(out_).subspan(2));
  product_->run(
      pool, positions_,
      [&](int64_t from, int64_t depth, int64_t first, int64_t count, float* packed) {
        thread_local FloatRoom room;
        float* const gathered = room.at_least(depth * count);
        patches.gather(x, from, from + depth, first, first + count, gathered);
        pack_columns({gathered, count, 1}, count, depth, packed);
      },
      to);
}

}  // namespace anemone
