// Weights as small integers: value = scale * (q - offset), with one scale per tensor, channel or block.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/encoded.h"
#include "kernels/quantize.h"
#include "mil/stored_blocks.h"

namespace anemone {
namespace {

constexpr int64_t kChunk = 1 << 14;  // elements decoded at once: they stay in the first cache

constexpr int kShrinks = 9;       // ranges that are tried beside the full one,
constexpr double kShrink = 0.04;  // each that much narrower

// Of one block: value = scale * (q - zero).
struct Quantum {
  float scale = 1;
  int zero = 0;
};

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

void widen(Range& r, const uint16_t* halves, int64_t count) {
  const HalfRange found = half_range(halves, count);
  const float low = half_to_float(found.low), high = half_to_float(found.high);
  if (!std::isfinite(low) || !std::isfinite(high)) throw errorf("a weight is not finite");
  r = {std::min(r.low, low), std::max(r.high, high)};
}

class IntegerFit {
 public:
  IntegerFit(const Weight& weight, const IntegerForm& form, std::vector<int64_t> parts,
             std::span<const float> importance)
      : form_(form),
        importance_(importance.begin(), importance.end()),
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
      chunks(begin, end, [&](const auto* v, int64_t count, int64_t block) {
        widen(into[static_cast<size_t>(block)], v, count);
      });
      values_.release(begin * row_, end * row_);
      if (rows_apart) return;
      std::lock_guard lock(mutex);
      for (size_t i = 0; i < own.size(); ++i)
        ranges[i] = {std::min(ranges[i].low, own[i].low), std::max(ranges[i].high, own[i].high)};
    });
    const std::vector<Quantum> steps = refine(ranges, rows_apart, pool);
    for (const Quantum& step : steps) {
      e.scales.push_back(step.scale);
      if (!form_.symmetric || !dtype_is_signed(form_.dtype)) e.offsets.push_back(step.zero);
    }
    steps_ = steps;
  }

  // The code nearest to a value in a matrix.
  float nearest(int64_t row, int64_t column, float value, uint8_t& code) const {
    const Quantum& step = step_at(row, column);
    const auto least = static_cast<float>(low_ - step.zero), most = static_cast<float>(high_ - step.zero);
    const float q = nearest_step(value / step.scale, least, most);
    code = static_cast<uint8_t>(static_cast<int32_t>(q) + step.zero);
    return values_.half() ? round_to_half(step.scale * q) : step.scale * q;
  }

  // What a code of a matrix stands for.
  float value(int64_t row, int64_t column, uint8_t code) const {
    const Quantum& step = step_at(row, column);
    const int q = dtype_is_signed(form_.dtype) ? sign_extended(code) : code;
    const float v = step.scale * static_cast<float>(q - step.zero);
    return values_.half() ? round_to_half(v) : v;
  }

  void codes(int64_t begin, int64_t end, uint8_t* out) const {
    chunks(begin, end, [&](const auto* v, int64_t count, int64_t block) {
      const Quantum& step = steps_[static_cast<size_t>(block)];
      const auto least = static_cast<float>(low_ - step.zero), most = static_cast<float>(high_ - step.zero);
      round(v, count, 1.0f / step.scale, least, most, step.zero, out);
      out += count;
    });
    values_.release(begin * row_, end * row_);
  }

 private:
  // Calls f(values, count, block) for the runs of the rows [begin, end) that share a block, on halves where the
  // weight holds halves.
  template <class F>
  void chunks(int64_t begin, int64_t end, F f) const {
    std::vector<uint16_t> halves;
    std::vector<float> floats;
    for (int64_t at = begin * row_; at < end * row_; at += kChunk) {
      const int64_t stop = std::min(end * row_, at + kChunk);
      const auto give = [&](const auto* v) {
        blocks_.runs(at, stop, [&](int64_t b, int64_t e, int64_t block) { f(v + (b - at), e - b, block); });
      };
      values_.half() ? give(values_.halves(at, stop, halves)) : give(values_.floats(at, stop, floats));
    }
  }

  static void round(const uint16_t* v, int64_t count, float inverse, float least, float most, int zero,
                    uint8_t* out) {
    quantize_halves(v, count, inverse, least, most, zero, out);
  }
  static void round(const float* v, int64_t count, float inverse, float least, float most, int zero,
                    uint8_t* out) {
    if (zero == 0 && least == -127 && most == 127)
      return quantize_int8(v, count, inverse, reinterpret_cast<int8_t*>(out));
    for (int64_t i = 0; i < count; ++i)
      out[i] = static_cast<uint8_t>(static_cast<int32_t>(nearest_step(v[i] * inverse, least, most)) + zero);
  }

  Quantum make_step(double scale, int zero) const {
    const auto most = static_cast<float>(std::max(high_ - zero, zero - low_));
    return {stored_scale(static_cast<float>(scale), most, values_.half()), zero};
  }

  // The steps to choose from: the range of the values first.
  std::vector<Quantum> candidates(Range r) const {
    std::vector<Quantum> out;
    const double high = static_cast<double>(r.high), low = static_cast<double>(r.low);
    const double span = form_.symmetric ? 2 * std::max(high, -low) : high - low;
    if (form_.symmetric) {
      const int zero = dtype_is_signed(form_.dtype) ? 0 : high_ / 2;
      if (!searches()) return {{int8_scale(std::max(r.high, -r.low), values_.half()), zero}};
      out.push_back(make_step(span / (high_ - low_), zero));
      for (int k = 1; k <= kShrinks; ++k)
        out.push_back(make_step(span * (1 - kShrink * k) / (high_ - low_), zero));
      return out;
    }
    const double zero = span > 0 ? (low_ * high - high_ * low) / span : 0;
    // Both neighbours of the zero point; and the span rounded to fp16 first, as coremltools does.
    const double rounded = static_cast<double>(round_to_half(static_cast<float>(span)));
    for (const double s : {span, values_.half() ? rounded : span})
      for (const double z : {std::nearbyint(zero), std::floor(zero), std::ceil(zero)})
        add(out, s / (high_ - low_), z);
    for (int k = 1; searches() && k <= kShrinks; ++k)
      for (const double z : {std::floor(zero), std::ceil(zero)})
        add(out, span * (1 - kShrink * k) / (high_ - low_), z);
    return out;
  }

  void add(std::vector<Quantum>& out, double scale, double zero) const {
    const Quantum made = make_step(scale, std::clamp(static_cast<int>(zero), low_, high_));
    for (const Quantum& other : out)
      if (other.scale == made.scale && other.zero == made.zero) return;
    out.push_back(made);
  }

  // With 16 levels it helps to clip the largest values: their error is smaller than the gain of finer steps
  // for all others.
  bool searches() const { return dtype_bits(form_.dtype) == 4; }

  const Quantum& step_at(int64_t row, int64_t column) const {
    return steps_[static_cast<size_t>(row * parts_[0] / dims_[0] * parts_[1] +
                                      column * parts_[1] / dims_[1])];
  }

  int sign_extended(uint8_t code) const {
    return dtype_bits(form_.dtype) == 4 ? static_cast<int8_t>(code << 4) / 16 : static_cast<int8_t>(code);
  }

  // weights: of each value's error, or none.
  double error(const Quantum& step, const float* v, const float* weights, int64_t count) const {
    const float inverse = 1.0f / step.scale;
    const auto least = static_cast<float>(low_ - step.zero), most = static_cast<float>(high_ - step.zero);
    float sum = 0;
    if (weights) {
      for (int64_t i = 0; i < count; ++i) {
        const float d = v[i] - step.scale * nearest_step(v[i] * inverse, least, most);
        sum += weights[i] * d * d;
      }
      return static_cast<double>(sum);
    }
    for (int64_t i = 0; i < count; ++i) {
      const float d = v[i] - step.scale * nearest_step(v[i] * inverse, least, most);
      sum += d * d;
    }
    return static_cast<double>(sum);
  }

  // The best candidate of each block, by the error over its values.
  std::vector<Quantum> refine(const std::vector<Range>& ranges, bool rows_apart, ThreadPool& pool) const {
    if (form_.symmetric && !searches()) {  // one step is all there is to choose from
      std::vector<Quantum> out;
      for (const Range& r : ranges) out.push_back(candidates(r)[0]);
      return out;
    }
    std::vector<std::vector<Quantum>> choices;
    bool any = false;
    for (const Range& r : ranges) {
      choices.push_back(candidates(r));
      any = any || choices.back().size() > 1;
    }
    std::vector<std::vector<double>> errors(ranges.size());
    for (size_t b = 0; b < errors.size(); ++b) errors[b].resize(choices[b].size());
    const auto rows = [&](int64_t begin, int64_t end) {
      std::vector<float> room;
      for (int64_t at = begin * row_; at < end * row_; at += kChunk) {
        const int64_t stop = std::min(end * row_, at + kChunk);
        const float* v = values_.floats(at, stop, room);
        blocks_.runs(at, stop, [&](int64_t b, int64_t f, int64_t block) {
          const auto i = static_cast<size_t>(block);
          for (int64_t from = b; from < f;) {
            const int64_t column = from % row_,
                          n = importance_.empty() ? f - b : std::min(f - from, row_ - column);
            const float* weights = importance_.empty() ? nullptr : importance_.data() + column;
            for (size_t c = 0; c < choices[i].size(); ++c)
              errors[i][c] += error(choices[i][c], v + (from - at), weights, n);
            from += n;
          }
        });
      }
      values_.release(begin * row_, end * row_);
    };
    // Sums over several rows are made in one order, so that they do not depend on the threads.
    if (any && rows_apart) pool.parallel_for(dims_[0], 8, rows);
    if (any && !rows_apart) rows(0, dims_[0]);
    std::vector<Quantum> out;
    for (size_t b = 0; b < choices.size(); ++b)
      out.push_back(choices[b][static_cast<size_t>(std::min_element(errors[b].begin(), errors[b].end()) -
                                                   errors[b].begin())]);
    return out;
  }

  IntegerForm form_;
  std::vector<float> importance_;  // of each column of a matrix; empty: all alike
  WeightValues values_;
  std::vector<int64_t> dims_, parts_;
  Blocks blocks_;
  int64_t row_;
  int low_, high_;
  std::vector<Quantum> steps_;
};

}  // namespace

void encode_integers(Encoded& e, const Weight& weight, const IntegerForm& form, ThreadPool& pool,
                     std::span<const float> importance) {
  std::vector<int64_t> parts(e.dims.size(), 1);
  const auto out = static_cast<size_t>(weight.output_axis), in = static_cast<size_t>(weight.input_axis);
  if (form.per != IntegerForm::Per::tensor) parts[out] = e.dims[out];
  if (form.per == IntegerForm::Per::block) parts[in] = e.dims[in] / form.block;
  auto fit = std::make_shared<IntegerFit>(weight, form, parts, importance);
  fit->fit(e, pool);
  e.scale_dims = parts;
  e.code_dims = e.dims;
  e.code_dtype = form.dtype;
  if (weight.is_matrix()) {
    e.nearest = [fit](int64_t row, int64_t column, float value, uint8_t& code) {
      return fit->nearest(row, column, value, code);
    };
    e.value = [fit](int64_t row, int64_t column, uint8_t code) { return fit->value(row, column, code); };
  }
  e.codes = [fit](int64_t begin, int64_t end, uint8_t* codes) { fit->codes(begin, end, codes); };
}

}  // namespace anemone
