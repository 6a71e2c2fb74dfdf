#include "kernels/patches.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/patches.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "kernels/finish-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

int64_t floats_of_vector() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

// out[p * line + i] = x[4 * i + p] for i from `done` on, as far as vectors of D go; gives how far.
template <class D>
HWY_INLINE int64_t split_fours(D d, const float* HWY_RESTRICT x, int64_t done, int64_t count, int64_t line,
                               float* HWY_RESTRICT out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; done + lanes <= count; done += lanes) {
    hn::Vec<D> a, b, c, e;
    hn::LoadInterleaved4(d, x + 4 * done, a, b, c, e);
    hn::StoreU(a, d, out + done);
    hn::StoreU(b, d, out + line + done);
    hn::StoreU(c, d, out + 2 * line + done);
    hn::StoreU(e, d, out + 3 * line + done);
  }
  return done;
}

#if HWY_TARGET != HWY_SCALAR
// Two phases: the even columns of rows go to one line, the odd ones to the other.
void place_pairs(const float* HWY_RESTRICT row, const PaddedRows& h, int64_t rows, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = h.before % 2, even_at = h.before / 2, odd_at = (h.before + 1) / 2;
  const int64_t even_count = std::min((h.width + 1) / 2, h.line - even_at);
  const int64_t odd_count = std::min(h.width / 2, h.line - odd_at);
  const int64_t both = std::max<int64_t>(std::min(even_count, odd_count), 0), whole = both / lanes * lanes,
                left = both - whole;
  const int64_t low_left = std::min(2 * left, lanes), high_left = 2 * left - low_left;
  for (int64_t r = 0; r < rows; ++r, row += h.width, to += 2 * h.line) {
    float* HWY_RESTRICT even = to + first * h.line + even_at;
    float* HWY_RESTRICT odd = to + (1 - first) * h.line + odd_at;
    for (int64_t i = 0; i < whole; i += lanes) {
      const auto low = hn::LoadU(d, row + 2 * i), high = hn::LoadU(d, row + 2 * i + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, even + i);
      hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + i);
    }
    if (left > 0) {
      const auto low = load_some(d, row + 2 * whole, low_left);
      const auto high = load_some(d, row + 2 * whole + lanes, high_left);
      store_some(d, hn::ConcatEven(d, high, low), even + whole, left);
      store_some(d, hn::ConcatOdd(d, high, low), odd + whole, left);
    }
    for (int64_t i = both; i < even_count; ++i) even[i] = row[2 * i];
    for (int64_t i = both; i < odd_count; ++i) odd[i] = row[2 * i + 1];
  }
}
#endif

// Where the columns of a row go if there are phases: the first `skip` alone, then `count` groups of all phases from
// place `at` of each line, then what is left. The same for all rows, and divisions are slow.
struct ColumnPlaces {
  explicit ColumnPlaces(const PaddedRows& h) {
    phase = h.before % h.phases;
    skip = phase > 0 ? h.phases - phase : 0;
    at = (h.before + skip) / h.phases;
    const int64_t groups = h.width > skip ? (h.width - skip) / h.phases : 0;
    count = groups < h.line - at ? groups : h.line - at;
  }
  int64_t phase = 0, skip = 0, at = 0, count = 0;
};

// Rows without phases: they are copied.
void copy_rows(const float* HWY_RESTRICT row, const PaddedRows& h, int64_t rows, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t count = h.width < h.line - h.before ? h.width : h.line - h.before;
  const int64_t whole = count > 0 ? count / lanes * lanes : 0, width = h.width, line = h.line;
  to += h.before;
  for (int64_t r = 0; r < rows; ++r, row += width, to += line) {
    for (int64_t i = 0; i < whole; i += lanes) hn::StoreU(hn::LoadU(d, row + i), d, to + i);
    if (whole < count) store_some(d, load_some(d, row + whole, count - whole), to + whole, count - whole);
  }
}

// The columns of one row with phases, each to its place.
HWY_INLINE void place_columns(const float* HWY_RESTRICT row, const PaddedRows& h, const ColumnPlaces& places,
                              float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> few;
  const int64_t skip = places.skip, at = places.at, count = places.count;
  for (int64_t c = 0; c < skip && c < h.width && at - 1 < h.line; ++c)
    to[(places.phase + c) * h.line + at - 1] = row[c];
  int64_t done = 0;
  if (h.phases == 4) {
    done = split_fours(d, row + skip, 0, count, h.line, to + at);
    done = split_fours(few, row + skip, done, count, h.line, to + at);
  }
  for (int64_t i = done; at + i < h.line && skip + h.phases * i < h.width; ++i)
    for (int64_t p = 0; p < h.phases && skip + h.phases * i + p < h.width; ++p)
      to[p * h.line + at + i] = row[skip + h.phases * i + p];
}

void place_rows(const float* HWY_RESTRICT row, const PaddedRows& h, int64_t rows, float* HWY_RESTRICT to) {
  if (h.phases == 1) return copy_rows(row, h, rows, to);
#if HWY_TARGET != HWY_SCALAR  // which has no halves of a vector
  if (h.phases == 2) return place_pairs(row, h, rows, to);
#endif
  const ColumnPlaces places(h);
  for (int64_t r = 0; r < rows; ++r) place_columns(row + r * h.width, h, places, to + r * h.pitch());
}

void fill_floats(float value, int64_t count, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto fill = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(fill, d, to + i);
  if (i < count) store_some(d, fill, to + i, count - i);
}

void PadRowsImpl(const float* HWY_RESTRICT image, const PaddedRows& h, int64_t first, int64_t count,
                 bool fresh, float* HWY_RESTRICT to) {
  // Rows above the image, in it, and below it.
  const int64_t pitch = h.pitch(), above = first < 0 ? (-first < count ? -first : count) : 0;
  const int64_t left = h.height - first - above;
  const int64_t inside = left < 0 ? 0 : left < count - above ? left : count - above;
  if (fresh) {
    fill_floats(h.fill, count * pitch, to);
  } else {
    fill_floats(h.fill, above * pitch, to);
    fill_floats(h.fill, (count - above - inside) * pitch, to + (above + inside) * pitch);
  }
  if (inside > 0) place_rows(image + (first + above) * h.width, h, inside, to + above * pitch);
}

// Whole vectors, also beyond the end of a stretch: what lies there is written again by the next stretch or row. The
// last row is copied exactly: another thread may own what lies behind it.
void PackPatchesImpl(const float* HWY_RESTRICT data, const PatchPanel& p, int64_t from, int64_t depth,
                     float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto taps = static_cast<int64_t>(p.taps.size());
  int64_t tap = from % taps;
  const float* plane = data + from / taps * p.plane;
  for (int64_t r = 0; r < depth; ++r, out += p.width) {
    const float* HWY_RESTRICT source = plane + p.taps[static_cast<size_t>(tap)];
    if (r + 1 < depth) {
      for (const PatchStretch& s : p.stretches)
        for (int64_t i = 0; i < s.count; i += lanes)
          hn::StoreU(hn::LoadU(d, source + s.begin + i), d, out + s.at + i);
    } else {
      for (const PatchStretch& s : p.stretches)
        for (int64_t i = 0; i < s.count; ++i) out[s.at + i] = source[s.begin + i];
    }
    for (int64_t i = p.columns; i < p.width; ++i) out[i] = 0;
    if (++tap == taps) {
      tap = 0;
      plane += p.plane;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(floats_of_vector);
HWY_EXPORT(PadRowsImpl);
HWY_EXPORT(PackPatchesImpl);

int64_t floats_beyond() { return HWY_DYNAMIC_DISPATCH(floats_of_vector)(); }

void pad_rows(const float* image, const PaddedRows& how, int64_t first, int64_t count, bool fresh,
              float* to) noexcept {
  HWY_DYNAMIC_DISPATCH(PadRowsImpl)(image, how, first, count, fresh, to);
}

void pack_patches(const float* data, const PatchPanel& panel, int64_t from, int64_t depth,
                  float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(PackPatchesImpl)(data, panel, from, depth, out);
}

void pad_rows_plain(const float* image, const PaddedRows& how, int64_t first, int64_t count,
                    float* to) noexcept {
  for (int64_t r = first; r < first + count; ++r, to += how.pitch()) {
    std::fill_n(to, how.pitch(), how.fill);
    for (int64_t c = 0; c < how.width && r >= 0 && r < how.height; ++c)
      if (const int64_t at = c + how.before; at / how.phases < how.line)
        to[at % how.phases * how.line + at / how.phases] = image[r * how.width + c];
  }
}

void pack_patches_plain(const float* data, const PatchPanel& panel, int64_t from, int64_t depth,
                        float* out) noexcept {
  const auto taps = static_cast<int64_t>(panel.taps.size());
  for (int64_t r = 0; r < depth; ++r) {
    std::fill_n(out + r * panel.width, panel.width, 0.0f);
    const float* source =
        data + (from + r) / taps * panel.plane + panel.taps[static_cast<size_t>((from + r) % taps)];
    for (const PatchStretch& s : panel.stretches)
      std::copy_n(source + s.begin, s.count, out + r * panel.width + s.at);
  }
}

}  // namespace anemone
#endif  // HWY_ONCE
