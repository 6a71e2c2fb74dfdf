// Pruning: which elements a weight keeps.
#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/encoded.h"
#include "compress/histogram.h"

namespace anemone {
namespace {

constexpr size_t kMagnitudes = 1 << 15, kWideMagnitudes = 1 << 19;

uint32_t wide_magnitude(float v) { return (std::bit_cast<uint32_t>(v) & 0x7fffffffu) >> 12; }

class Rows {
 public:
  explicit Rows(const Weight& weight)
      : values_(weight), count_(weight.dims()[0]), row_(values_.size() / std::max<int64_t>(1, count_)) {}

  int64_t count() const { return count_; }
  int64_t row() const { return row_; }
  const WeightValues& values() const { return values_; }

  // Keeps what lies above a magnitude: a pattern of fp16, or a float.
  void above(int64_t begin, int64_t end, uint32_t pattern, float magnitude, uint8_t* out) const {
    if (values_.half()) {
      std::vector<uint16_t> room;
      const uint16_t* h = values_.halves(begin * row_, end * row_, room);
      for (int64_t i = 0; i < (end - begin) * row_; ++i) out[i] = (h[i] & 0x7fffu) > pattern;
    } else {
      std::vector<float> room;
      const float* v = values_.floats(begin * row_, end * row_, room);
      for (int64_t i = 0; i < (end - begin) * row_; ++i) out[i] = std::abs(v[i]) > magnitude;
    }
    values_.release(begin * row_, end * row_);
  }

  // How many magnitudes of each size there are.
  std::vector<uint64_t> magnitudes(ThreadPool& pool) const {
    std::vector<uint64_t> out(values_.half() ? kMagnitudes : kWideMagnitudes);
    std::mutex mutex;
    pool.parallel_for(count_, 8, [&](int64_t begin, int64_t end) {
      std::vector<uint64_t> own(out.size());
      std::vector<uint16_t> halves;
      std::vector<float> floats;
      for (int64_t r = begin; r < end; ++r) {
        if (values_.half()) {
          const uint16_t* h = values_.halves(r * row_, (r + 1) * row_, halves);
          for (int64_t i = 0; i < row_; ++i) ++own[h[i] & 0x7fffu];
        } else {
          const float* v = values_.floats(r * row_, (r + 1) * row_, floats);
          for (int64_t i = 0; i < row_; ++i) ++own[wide_magnitude(v[i])];
        }
      }
      std::lock_guard lock(mutex);
      for (size_t i = 0; i < own.size(); ++i) out[i] += own[i];
    });
    return out;
  }

 private:
  WeightValues values_;
  int64_t count_, row_;
};

// Of every m values along the input channels, the n smallest go.
class SmallestOfM {
 public:
  SmallestOfM(const Weight& weight, int64_t n, int64_t m)
      : rows_(weight), dims_(weight.dims()), n_(n), m_(m), across_rows_(weight.input_axis == 0) {
    std::vector<int64_t> inside(dims_.begin() + (across_rows_ ? 0 : 1), dims_.end());
    axis_ = axis_of(inside, weight.input_axis - (across_rows_ ? 0 : 1));
  }

  void operator()(int64_t begin, int64_t end, uint8_t* out) const {
    if (!across_rows_) {
      std::vector<float> room;
      for (int64_t r = begin; r < end; ++r) {
        const float* v = rows_.values().floats(r * rows_.row(), (r + 1) * rows_.row(), room);
        choose(v, axis_.outer, axis_.slices, axis_.inner, out + (r - begin) * rows_.row());
      }
      return;
    }
    const int64_t first = begin / m_ * m_, last = std::min(dims_[0], (end + m_ - 1) / m_ * m_);
    std::vector<float> room;
    const float* v = rows_.values().floats(first * rows_.row(), last * rows_.row(), room);
    std::vector<uint8_t> kept(room.size());
    choose(v, 1, last - first, rows_.row(), kept.data());
    std::copy(kept.begin() + (begin - first) * rows_.row(), kept.begin() + (end - first) * rows_.row(), out);
  }

  const Rows& rows() const { return rows_; }

 private:
  void choose(const float* v, int64_t outer, int64_t slices, int64_t inner, uint8_t* out) const {
    std::vector<int64_t> order;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t s = 0; s < slices; s += m_)
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t size = std::min(m_, slices - s), at = (o * slices + s) * inner + i;
          order.resize(static_cast<size_t>(size));
          std::iota(order.begin(), order.end(), int64_t{0});
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return std::abs(v[at + a * inner]) < std::abs(v[at + b * inner]);
          });
          // A last group that is not full is taken to end in zeros.
          const int64_t gone = std::max<int64_t>(0, n_ - (m_ - size));
          for (int64_t k = 0; k < size; ++k) {
            const int64_t place = at + order[static_cast<size_t>(k)] * inner;
            out[place] = k >= gone && v[place] != 0;
          }
        }
  }

  Rows rows_;
  std::vector<int64_t> dims_;
  int64_t n_, m_;
  bool across_rows_;
  Axis axis_;
};

std::shared_ptr<const Mask> counted(RowCodes rows, int64_t count, int64_t row, ThreadPool& pool) {
  auto mask = std::make_shared<Mask>();
  mask->rows = std::move(rows);
  std::vector<int64_t> kept(static_cast<size_t>(count));
  pool.parallel_for(count, 8, [&](int64_t begin, int64_t end) {
    constexpr int64_t kRows = 32;
    std::vector<uint8_t> bits(static_cast<size_t>(row * kRows));
    for (int64_t r = begin; r < end; r += kRows) {
      const int64_t stop = std::min(end, r + kRows);
      mask->rows(r, stop, bits.data());
      for (int64_t i = r; i < stop; ++i)
        kept[static_cast<size_t>(i)] =
            std::accumulate(bits.begin() + (i - r) * row, bits.begin() + (i - r + 1) * row, int64_t{0});
    }
  });
  mask->before.assign(1, 0);
  for (const int64_t n : kept) mask->before.push_back(mask->before.back() + n);
  if (mask->kept() == 0) {  // a tensor of no elements cannot be stored: one zero stays
    std::fill(mask->before.begin() + 1, mask->before.end(), 1);
    mask->rows = [row](int64_t begin, int64_t end, uint8_t* out) {
      std::fill_n(out, (end - begin) * row, uint8_t{0});
      if (begin == 0) out[0] = 1;
    };
  }
  return mask;
}

std::shared_ptr<const Mask> above(std::shared_ptr<const Rows> rows, uint32_t pattern, float magnitude,
                                  ThreadPool& pool) {
  return counted(
      [rows, pattern, magnitude](int64_t begin, int64_t end, uint8_t* out) {
        rows->above(begin, end, pattern, magnitude, out);
      },
      rows->count(), rows->row(), pool);
}

}  // namespace

std::shared_ptr<const Mask> prune(const Weight& weight, const PruneForm& form, ThreadPool& pool) {
  if (form.m > 0) {
    const int64_t channels = weight.dims()[static_cast<size_t>(weight.input_axis)];
    if (form.m > channels)
      throw errorf("{}:{} does not fit the {} input channels of '{}'", form.n, form.m, channels, weight.name)
          .hint(fmt::format("use m up to {}, or leave it out with --skip {}", channels, weight.name));
    const auto choice = std::make_shared<const SmallestOfM>(weight, form.n, form.m);
    return counted([choice](int64_t begin, int64_t end, uint8_t* out) { (*choice)(begin, end, out); },
                   choice->rows().count(), choice->rows().row(), pool);
  }
  auto rows = std::make_shared<const Rows>(weight);
  if (form.threshold) {
    uint16_t pattern = half_from_float(static_cast<float>(std::min(*form.threshold, 65504.0)));
    while (pattern > 0 && static_cast<double>(half_to_float(pattern)) > *form.threshold) --pattern;
    return above(rows, pattern, static_cast<float>(*form.threshold), pool);
  }
  if (*form.sparsity == 0) return above(rows, 0, 0.0f, pool);
  const std::vector<uint64_t> sizes = rows->magnitudes(pool);
  // As coremltools counts: everything up to the percentile goes, equal magnitudes together.
  const auto target =
      static_cast<uint64_t>(*form.sparsity * static_cast<double>(rows->values().size() - 1)) + 1;
  uint64_t seen = 0;
  size_t at = 0;
  for (; at + 1 < sizes.size(); ++at)
    if ((seen += sizes[at]) >= target) break;
  const auto last = static_cast<uint32_t>(at);
  return above(rows, last, std::bit_cast<float>(last << 12 | 0xfffu), pool);
}

std::shared_ptr<const Mask> mask_of(const Weight& weight, ThreadPool& pool) {
  return above(std::make_shared<const Rows>(weight), 0, 0.0f, pool);
}

}  // namespace anemone
