// Weights as small integers: value = scale * (q - offset), with one scale per tensor, channel or block.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/encoded.h"
#include "mil/stored_blocks.h"

namespace anemone {
namespace {

constexpr int64_t kChunk = 1 << 14;  // elements decoded at once: they stay in the first cache

struct Range {
  float low = 0, high = 0;  // with zero between them
};

void widen(Range& r, const float* v, int64_t count) {
  float low = r.low, high = r.high;
  float odd = 0;  // becomes NaN with a value that is not finite
  for (int64_t i = 0; i < count; ++i) {
    low = std::min(low, v[i]);
    high = std::max(high, v[i]);
    odd += v[i] * 0.0f;
  }
  if (!(odd == 0)) throw errorf("a weight is not finite");
  r = {low, high};
}

class IntegerFit {
 public:
  IntegerFit(const Weight& weight, const IntegerForm& form, std::vector<int64_t> parts)
      : form_(form),
        values_(weight),
        dims_(weight.dims()),
        parts_(std::move(parts)),
        blocks_(dims_, parts_),
        row_(values_.size() / std::max<int64_t>(1, dims_[0])) {
    const int bits = dtype_bits(form.dtype), half_range = 1 << (bits - 1);
    const bool is_signed = dtype_is_signed(form.dtype);
    low_ = is_signed ? -half_range : 0;
    high_ = low_ + 2 * half_range - 1;
    if (form.symmetric) is_signed ? ++low_ : --high_;
  }

  void fit(Encoded& e, ThreadPool& pool) {
    std::vector<Range> ranges(static_cast<size_t>(blocks_.count()));
    const bool rows_apart = parts_[0] == dims_[0];  // no block spans two rows
    std::mutex mutex;
    pool.parallel_for(dims_[0], 8, [&](int64_t begin, int64_t end) {
      std::vector<Range> own(rows_apart ? 0 : ranges.size());
      std::vector<Range>& into = rows_apart ? ranges : own;
      std::vector<float> room;
      for (int64_t at = begin * row_; at < end * row_; at += kChunk) {
        const int64_t stop = std::min(end * row_, at + kChunk);
        const float* v = values_.floats(at, stop, room);
        blocks_.runs(at, stop, [&](int64_t b, int64_t f, int64_t block) {
          widen(into[static_cast<size_t>(block)], v + (b - at), f - b);
        });
      }
      values_.release(begin * row_, end * row_);
      if (rows_apart) return;
      std::lock_guard lock(mutex);
      for (size_t i = 0; i < own.size(); ++i)
        ranges[i] = {std::min(ranges[i].low, own[i].low), std::max(ranges[i].high, own[i].high)};
    });
    for (const Range& r : ranges) choose(r, e);
    scales_ = e.scales;
    zeros_.resize(scales_.size());
    for (size_t i = 0; i < zeros_.size(); ++i)
      zeros_[i] = e.offsets.empty() ? 0.0f : static_cast<float>(e.offsets[i]);
  }

  void codes(int64_t begin, int64_t end, uint8_t* out) const {
    // Adding 1.5 * 2^23 leaves the rounded integer in the low bits: no call to a rounding function.
    constexpr float kMagic = 12582912.0f;
    std::vector<float> room;
    const auto low = static_cast<float>(low_), high = static_cast<float>(high_);
    for (int64_t at = begin * row_; at < end * row_; at += kChunk) {
      const int64_t stop = std::min(end * row_, at + kChunk);
      const float* values = values_.floats(at, stop, room);
      blocks_.runs(at, stop, [&](int64_t b, int64_t e, int64_t block) {
        const float* v = values + (b - at);
        const float inverse = 1.0f / scales_[static_cast<size_t>(block)],
                    zero = zeros_[static_cast<size_t>(block)];
        const float least = low - zero, most = high - zero;
        for (int64_t i = 0; i < e - b; ++i) {
          const float clipped = std::min(most, std::max(least, v[i] * inverse));
          const float rounded = (clipped + kMagic) - kMagic;
          out[i] = static_cast<uint8_t>(static_cast<int32_t>(rounded + zero));
        }
        out += e - b;
      });
    }
    values_.release(begin * row_, end * row_);
  }

 private:
  // Scale and offset of a block. The integers are made with the scale as it is stored, so that rounding it
  // costs nothing. A block of zeros gets the scale 1: nothing is divided by zero.
  void choose(Range r, Encoded& e) const {
    const bool half = values_.half();
    const int steps = high_ - low_;
    double span = static_cast<double>(r.high) - static_cast<double>(r.low);
    if (form_.symmetric) span = 2 * std::max(static_cast<double>(r.high), -static_cast<double>(r.low));
    auto scale = static_cast<float>(span / steps);
    if (half) scale = round_to_half(scale);
    if (scale == 0 || std::isinf(1.0f / scale)) scale = span > 0 ? (half ? 0x1p-24f : 0x1p-126f) : 1.0f;
    e.scales.push_back(scale);
    if (form_.symmetric) {
      if (!dtype_is_signed(form_.dtype)) e.offsets.push_back(high_ / 2);
      return;
    }
    const double zero =
        span > 0 ? (low_ * static_cast<double>(r.high) - high_ * static_cast<double>(r.low)) / span : 0;
    e.offsets.push_back(std::clamp(static_cast<int>(std::nearbyint(zero)), low_, high_));
  }

  IntegerForm form_;
  WeightValues values_;
  std::vector<int64_t> dims_, parts_;
  Blocks blocks_;
  int64_t row_;
  int low_, high_;
  std::vector<float> scales_, zeros_;
};

}  // namespace

void encode_integers(Encoded& e, const Weight& weight, const IntegerForm& form, ThreadPool& pool) {
  std::vector<int64_t> parts(e.dims.size(), 1);
  const auto out = static_cast<size_t>(weight.output_axis), in = static_cast<size_t>(weight.input_axis);
  if (form.per != IntegerForm::Per::tensor) parts[out] = e.dims[out];
  if (form.per == IntegerForm::Per::block) parts[in] = e.dims[in] / form.block;
  auto fit = std::make_shared<IntegerFit>(weight, form, parts);
  fit->fit(e, pool);
  e.scale_dims = parts;
  e.code_dims = e.dims;
  e.code_dtype = form.dtype;
  e.codes = [fit](int64_t begin, int64_t end, uint8_t* codes) { fit->codes(begin, end, codes); };
}

}  // namespace anemone
