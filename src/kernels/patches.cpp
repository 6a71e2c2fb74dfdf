#include "kernels/patches.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/patches.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[p * line + i] = x[phases * i + p] for `count` of each phase, as far as whole vectors go; gives how many i.
int64_t Split2Impl(const float* HWY_RESTRICT x, int64_t count, int64_t line, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + line + i);
  }
  return i;
}

int64_t Split4Impl(const float* HWY_RESTRICT x, int64_t count, int64_t line, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b, c, e;
    hn::LoadInterleaved4(d, x + 4 * i, a, b, c, e);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + line + i);
    hn::StoreU(c, d, out + 2 * line + i);
    hn::StoreU(e, d, out + 3 * line + i);
  }
  return i;
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

HWY_EXPORT(Split2Impl);
HWY_EXPORT(Split4Impl);
HWY_EXPORT(PackPatchesImpl);

int64_t floats_beyond() { return HWY_MAX_BYTES / sizeof(float); }

void pad_row(const float* row, int64_t width, int64_t before, int64_t phases, int64_t line,
             float* to) noexcept {
  if (phases == 1) {
    const int64_t count = std::min(width, line - before);
    if (count > 0) std::memcpy(to + before, row, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  int64_t begin = 0, end = 0;  // the columns that were split in vectors
  if (phases == 2 || phases == 4) {
    // From the first column on that falls into phase 0.
    const int64_t skip = (phases - before % phases) % phases, at = (before + skip) / phases;
    const int64_t count = std::min((width - skip) / phases, line - at);
    if (count > 0) {
      const int64_t done =
          phases == 2 ? HWY_DYNAMIC_DISPATCH(Split2Impl)(row + skip, count, line, to + at)
                      : HWY_DYNAMIC_DISPATCH(Split4Impl)(row + skip, count, line, to + at);
      begin = skip;
      end = skip + phases * done;
    }
  }
  for (int64_t c = 0; c < width; ++c) {
    if (c == begin) c = end;
    if (c >= width) break;
    if (const int64_t at = c + before; at / phases < line) to[at % phases * line + at / phases] = row[c];
  }
}

void pack_patches(const float* data, const PatchPanel& panel, int64_t from, int64_t depth,
                  float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(PackPatchesImpl)(data, panel, from, depth, out);
}

void pad_row_plain(const float* row, int64_t width, int64_t before, int64_t phases, int64_t line,
                   float* to) noexcept {
  for (int64_t c = 0; c < width; ++c)
    if (const int64_t at = c + before; at / phases < line) to[at % phases * line + at / phases] = row[c];
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
