#include "verify/element_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "verify/package_weights.h"

namespace anemone {
namespace {

// Half an ulp of half, and the smallest number below its range; a margin for factors applied in fp32.
double half_rounding(double value) { return std::abs(value) * 0x1.01p-11 + 0x1p-24; }

// Rounding to the nearest step, a scale that was itself rounded to half, and the product rounded to half again.
constexpr double kSteps = 0.56;
// The same at either end of a range with an offset, which is a whole number and may cut off up to half a step.
constexpr double kEdgeSteps = 1.1;
// The same where errors of other columns are made up for.
constexpr double kWeighedSteps = 6;
// Below this many bits converters cut off what is far out, so that the rest has finer steps.
constexpr int kFewBits = 6;

struct Range {
  double lowest, highest;
};

Range integer_range(DType dtype, int bits) {
  const bool is_signed = dtype == DType::int8 || dtype == DType::int4;
  const double count = std::ldexp(1.0, bits);
  // Converters use signed integers symmetrically.
  return is_signed ? Range{-count / 2 + 1, count / 2 - 1} : Range{0, count - 1};
}

int bits_of(const std::string& form) {
  const size_t at = form.find_first_of("0123456789");
  return at == std::string::npos ? 0 : std::atoi(form.c_str() + at);
}

}  // namespace

ElementBound::ElementBound(const StoredTensor& stored, const std::string& form) : layout_(stored.layout()) {
  const Shape& dims = stored.type().shape;
  rows_ = dims.empty() ? 1 : std::max<int64_t>(1, dims[0].size());
  columns_ = std::max<int64_t>(1, stored.type().size() / rows_);
  if (form.empty()) return;
  if (form == "fp16" || form == "fp32") {
    kind_ = Kind::half;
  } else if (form == kPlainSparse) {
    kind_ = Kind::kept;
  } else if (layout_.dtype == DType::none || layout_.rows_per_index > 1) {
    kind_ = Kind::none;
  } else if (layout_.indices()) {
    kind_ = Kind::palette;
  } else if (layout_.scale) {
    bits_ = bits_of(form);
    kind_ = Kind::integer;
    const Range range = integer_range(layout_.dtype, bits_);
    lowest_ = bits_ < kFewBits ? range.lowest : -INFINITY;
    highest_ = bits_ < kFewBits ? range.highest : INFINITY;
  }
}

ElementBound ElementBound::of_table(bool int8) {
  ElementBound out;
  out.kind_ = int8 ? Kind::integer : Kind::half;
  out.lowest_ = -INFINITY;
  out.highest_ = INFINITY;
  return out;
}

size_t ElementBound::entry_slots() const {
  constexpr size_t kMost = 4096;
  const auto palettes = static_cast<size_t>((rows_ + rows_of_palette() - 1) / rows_of_palette());
  const size_t slots = palettes * palette_entries();
  return slots <= kMost ? slots : 0;
}

int64_t ElementBound::blocks() const {
  const int64_t per = layout_.columns_per_scale;
  return per > 0 ? (columns_ + per - 1) / per : 1;
}

int64_t ElementBound::scale_row(int64_t row) const {
  return row / std::max<int64_t>(1, layout_.rows_per_scale) * blocks();
}

size_t ElementBound::scales() const {
  if (kind_ != Kind::integer || !layout_.scale) return 0;
  const int64_t shared = std::max<int64_t>(1, layout_.rows_per_scale);
  return static_cast<size_t>((rows_ + shared - 1) / shared * blocks());
}

size_t ElementBound::scale_of(int64_t row, int64_t column) const {
  const int64_t per = layout_.columns_per_scale;
  return static_cast<size_t>(scale_row(row) + (per > 0 ? column / per : 0));
}

int64_t ElementBound::columns_of_scale() const {
  return layout_.columns_per_scale > 0 ? layout_.columns_per_scale : columns_;
}

int64_t ElementBound::first_row(size_t scale) const {
  return static_cast<int64_t>(scale) / blocks() * std::max<int64_t>(1, layout_.rows_per_scale);
}

int64_t ElementBound::first_column(size_t scale) const {
  return static_cast<int64_t>(scale) % blocks() * layout_.columns_per_scale;
}

double ElementBound::step(size_t scale) const { return std::abs(static_cast<double>(layout_.scale[scale])); }

// Integers go from -n to n, or over as many steps with an offset. Scales are rounded to half, and some converters leave
// a little room.
double ElementBound::coarsest_step(double largest) const {
  return 1.1 * 2 * largest / (std::ldexp(1.0, bits_) - 2) + 0x1p-23;
}

int64_t ElementBound::rows_of_palette() const { return std::max<int64_t>(1, layout_.rows_per_lut); }

int64_t ElementBound::palette_of(int64_t row) const {
  return kind_ == Kind::palette ? row / rows_of_palette() : 0;
}

size_t ElementBound::palette_entries() const {
  return kind_ == Kind::palette ? size_t{1} << dtype_bits(layout_.dtype) : 0;
}

ElementBound::Row ElementBound::row(int64_t row) const {
  Row out;
  out.bound_ = this;
  if (kind_ != Kind::integer && kind_ != Kind::palette) return out;
  if (layout_.scale) out.scales_ = layout_.scale.from(scale_row(row));
  if (layout_.offset) out.offsets_ = layout_.offset + scale_row(row);
  if (kind_ != Kind::palette) return out;
  const int64_t entries = int64_t{1} << dtype_bits(layout_.dtype);
  const int64_t first = row / std::max<int64_t>(1, layout_.rows_per_lut) * entries;
  std::vector<float> table(static_cast<size_t>(entries));
  if (layout_.lut)
    std::copy_n(layout_.lut + first, entries, table.begin());
  else
    layout_.tables->read(first, first + entries, table.data());
  out.entries_.assign(table.begin(), table.end());
  std::sort(out.entries_.begin(), out.entries_.end());
  return out;
}

ElementBound::Row ElementBound::table_row(double largest) const {
  Row out;
  out.bound_ = this;
  out.scale_ = largest / 127;
  return out;
}

double ElementBound::Row::scale(int64_t column) const {
  const int64_t per = bound_->layout_.columns_per_scale;
  return scales_ ? static_cast<double>(scales_[per > 0 ? column / per : 0]) : scale_;
}

double ElementBound::Row::offset(int64_t column) const {
  const int64_t per = bound_->layout_.columns_per_scale;
  return offsets_ ? static_cast<double>(offsets_[per > 0 ? column / per : 0]) : 0;
}

size_t ElementBound::Row::nearest(double target) const {
  const auto above = std::lower_bound(entries_.begin(), entries_.end(), target);
  const auto at = static_cast<size_t>(above - entries_.begin());
  if (at == entries_.size()) return at - 1;
  if (at == 0) return 0;
  return *above - target < target - *(above - 1) ? at : at - 1;
}

size_t ElementBound::Row::entry(int64_t column, double have) const {
  const double s = scale(column);
  return nearest(s != 0 ? have / s + offset(column) : 0);
}

bool ElementBound::Row::cut(double code, double want, double have, double scale) const {
  return (code >= bound_->highest_ - 0.5 && (want > have) == (scale > 0)) ||
         (code <= bound_->lowest_ + 0.5 && (want < have) == (scale > 0));
}

double ElementBound::Row::step(int64_t column, double want, double have) const {
  if (bound_->kind_ != Kind::integer) return 0;
  const double s = scale(column);
  if (std::isinf(bound_->highest_)) return std::abs(s);  // nothing is cut off
  return s == 0 || cut(have / s + offset(column), want, have, s) ? 0 : std::abs(s);
}

double ElementBound::Row::limit(int64_t column, double want, double have, bool weighed) const {
  const double rounding = half_rounding(want);
  if (bound_->kind_ == Kind::none) return INFINITY;
  if (bound_->kind_ == Kind::kept) return have == 0 ? INFINITY : rounding;
  if (bound_->kind_ == Kind::half) return rounding;
  const double s = scale(column), o = offset(column);
  if (bound_->kind_ == Kind::integer) {
    if (std::isinf(bound_->highest_) && !offsets_)
      return (weighed ? kWeighedSteps : kSteps) * std::abs(s) + rounding;
    const double code = s != 0 ? have / s + o : 0;
    if (cut(code, want, have, s)) return INFINITY;
    const bool edge = offsets_ && (code <= 0.5 || code >= std::ldexp(1.0, bound_->bits_) - 1.5);
    return (weighed ? kWeighedSteps : edge ? kEdgeSteps : kSteps) * std::abs(s) + rounding;
  }
  const auto error = [&](size_t entry) { return std::abs((entries_[entry] - o) * s - want); };
  const size_t near = nearest(s != 0 ? want / s + o : 0);
  double most = error(near);
  if (weighed) {
    const size_t reach = std::max<size_t>(2, entries_.size() / 5);
    most = std::max(error(near - std::min(near, reach)), error(std::min(entries_.size() - 1, near + reach)));
  }
  return most * (1 + 0x1p-9) + 2 * half_rounding(have) + rounding;
}

void ElementBound::Row::undo_rounding(std::span<float> values) const {
  const auto count = static_cast<int64_t>(values.size()), per = bound_->layout_.columns_per_scale;
  for (int64_t begin = 0; begin < count; begin += per > 0 ? per : count) {
    const int64_t end = per > 0 ? std::min(count, begin + per) : count;
    const auto s = static_cast<float>(scale(begin)), o = static_cast<float>(offset(begin));
    if (s == 0) continue;
    float* v = values.data();
    if (bound_->kind_ == Kind::integer) {
      const float inverse = 1 / s;
      for (int64_t i = begin; i < end; ++i) v[i] = (std::rint(v[i] * inverse + o) - o) * s;
    } else if (bound_->kind_ == Kind::palette) {
      for (int64_t i = begin; i < end; ++i)
        v[i] = static_cast<float>(
            (entries_[nearest(static_cast<double>(v[i]) / scale(begin) + offset(begin))] - offset(begin)) *
            scale(begin));
    }
  }
}

}  // namespace anemone
