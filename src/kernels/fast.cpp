#include "kernels/fast.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/fast_level.h"
#include "kernels/quantize.h"

#include <hwy/highway.h>

#if HWY_ARCH_X86 && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace anemone {
namespace {

int64_t entries_of(int bits) { return std::max<int64_t>(16, int64_t{1} << bits); }

#if HWY_ARCH_X86
// A process must ask Linux for the registers of tiles, once.
bool has_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr unsigned kTiles = 1u << 24, kBytes = 1u << 25;
  constexpr int kAskForRegisters = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTiles) && (d & kBytes) &&
         syscall(SYS_arch_prctl, kAskForRegisters, kTileData) == 0;
#else
  return false;
#endif
}
#endif

std::vector<const FastLevel*> find_levels() {
  std::vector<const FastLevel*> found;
#if HWY_ARCH_X86
  const int64_t targets = hwy::SupportedTargets();
  if (targets & HWY_AVX3) {
    // Highway has no name for the two extensions that the best levels need.
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi")) {
      if (has_tiles()) found.push_back(fast_level_amx());
      found.push_back(fast_level_avx512());
    }
    found.push_back(fast_level_avx512bw());
  }
  if (targets & HWY_AVX2) found.push_back(fast_level_avx2());
#endif
  found.push_back(fast_level_portable());
  return found;
}

const std::vector<const FastLevel*>& levels() {
  static const std::vector<const FastLevel*> all = find_levels();
  return all;
}

std::atomic<const FastLevel*>& chosen() {
  static std::atomic<const FastLevel*> level = levels().front();
  return level;
}

const FastLevel& level() { return *chosen().load(std::memory_order_relaxed); }

int64_t split_bytes(int64_t k) { return (level().split_bytes(k) + 63) / 64 * 64; }

// The middle of the distances between neighbours; `values` are in order.
float median_gap(std::span<const float> values) {
  float gaps[256];
  int64_t count = 0;
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] > values[i - 1]) gaps[count++] = values[i] - values[i - 1];
  if (count == 0) return 0;
  std::nth_element(gaps, gaps + count / 2, gaps + count);
  return gaps[count / 2];
}

// The 8 bits of a table: equal steps from its least value to its largest or a little beyond, with 0 among them. Of
// several sizes the one that rounds the values least: with few values one size is much better than another.
struct CoarseSteps {
  CoarseSteps(const float* values, int64_t count) {
    constexpr int kSizes = 16;
    float least = 0, most = 0;
    for (int64_t i = 0; i < count; ++i) {
      least = std::min(least, values[i]);
      most = std::max(most, values[i]);
    }
    const float first = most / 254 - least / 254;
    if (!(first > 0)) return;
    float sizes[kSizes], inverse[kSizes], error[kSizes] = {};
    for (int c = 0; c < kSizes; ++c) {
      sizes[c] = first * (1 + static_cast<float>(c) / (10 * kSizes));
      inverse[c] = 1 / sizes[c];
    }
    for (int64_t i = 0; i < count; ++i)
      for (int c = 0; c < kSizes; ++c) {
        constexpr float kRound = 12582912.0f;  // what is added to it becomes whole
        const float v = values[i] * inverse[c], e = v - ((v + kRound) - kRound);
        error[c] += e * e;
      }
    for (int c = 0; c < kSizes; ++c) error[c] *= sizes[c] * sizes[c];
    size = sizes[std::min_element(error, error + kSizes) - error];
    zero = std::nearbyint(-127 - least / size);
  }
  float size = 1, zero = 0;  // zero: what 0 becomes
};

uint32_t code_at(const std::byte* data, int bits, int64_t i) {
  uint32_t code = 0;
  for (int64_t b = 0; b < bits; ++b) {
    const int64_t at = i * bits + b;
    code |= (std::to_integer<uint32_t>(data[at / 8]) >> (at % 8) & 1) << b;
  }
  return code;
}

// What element i of a row stands for before its scale.
double plain_value(FastKind kind, const FastRow& row, int64_t i, bool coarse) {
  const int bits = fast_bits(kind);
  const uint32_t code = code_at(row.data, bits, i);
  const int64_t entries = entries_of(bits);
  const auto entry = [&](int64_t plane) { return row.table[plane * entries + code]; };
  switch (kind) {
    case FastKind::int8: return static_cast<int8_t>(code);
    case FastKind::uint8: return code;
    case FastKind::number4:
      return coarse ? std::to_integer<int8_t>(entry(1)) : std::to_integer<uint8_t>(entry(0));
    default:
      if (coarse) return std::to_integer<int8_t>(entry(2));
      return 128.0 * std::to_integer<uint8_t>(entry(0)) + std::to_integer<uint8_t>(entry(1));
  }
}

}  // namespace

int fast_bits(FastKind kind) {
  static constexpr int kBits[] = {8, 8, 1, 2, 3, 4, 6, 8, 4};
  return kBits[static_cast<size_t>(kind)];
}

int64_t fast_table_bytes(int bits) { return 3 * entries_of(bits); }

FastScales fast_table(const float* values, int bits, std::byte* out) noexcept {
  const int64_t count = int64_t{1} << bits, entries = entries_of(bits);
  const float most = largest_magnitude(values, count);
  FastScales scales;
  scales.finite = std::isfinite(most);
  scales.fine = most > 0 ? most / (kFastMiddle - 1) : 1;
  // Halves and floats whose scale would be no number of its own are too small to matter.
  if (!scales.finite || scales.fine < 0x1p-120f) {
    std::memset(out, 0, static_cast<size_t>(3 * entries));
    std::fill_n(out, entries, std::byte{64});  // 128 * 64 = kFastMiddle
    return scales;
  }
  const CoarseSteps steps(values, count);
  scales.coarse = steps.size;
  scales.coarse_offset = steps.zero;
  const float fine = 1 / scales.fine, coarse = 1 / scales.coarse;
  for (int64_t i = 0; i < entries; ++i) {  // small tables are repeated: a code may have foreign bits above it
    const float v = values[i % count];
    const auto q =
        static_cast<int32_t>(nearest_step(v * fine, 1 - kFastMiddle, kFastMiddle - 1) + kFastMiddle);
    out[i] = static_cast<std::byte>(q >> 7);
    out[entries + i] = static_cast<std::byte>(q & 127);
    out[2 * entries + i] =
        static_cast<std::byte>(static_cast<int8_t>(nearest_step(v * coarse + steps.zero, -128, 127)));
  }
  return scales;
}

bool fast_coarse_fits(const float* values, int bits, const FastScales& scales) {
  const int64_t count = int64_t{1} << bits;
  if (bits == 1 || !scales.finite) return true;
  float sizes[256], ordered[256];
  for (int64_t i = 0; i < count; ++i) sizes[i] = std::fabs(values[i]);
  std::nth_element(sizes, sizes + count / 2, sizes + count);
  if (scales.coarse <= 0.0165f * sizes[count / 2]) return true;
  std::copy_n(values, count, ordered);
  std::sort(ordered, ordered + count);
  return ordered[0] == ordered[count - 1] ||
         scales.coarse <= 0.055f * median_gap({ordered, static_cast<size_t>(count)});
}

void fast_numbers(bool is_signed, std::byte* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<std::byte>(is_signed ? i ^ 8 : i);
    out[16 + i] = static_cast<std::byte>(static_cast<int8_t>(is_signed && i >= 8 ? i - 16 : i));
  }
}

bool fast_splits(FastKind kind) { return kind == FastKind::table4 || kind == FastKind::number4; }

int64_t fast_column_bytes(int64_t k) {
  const int64_t padded = fast_padded(k);
  return padded + padded / 4 * 4 + split_bytes(k) + (padded / kFastBlock * 4 + 4 + 63) / 64 * 64;
}

FastColumn fast_column_at(const std::byte* room, int64_t k) noexcept {
  const int64_t padded = fast_padded(k);
  const auto* scales = reinterpret_cast<const float*>(room + padded);
  const auto* split = reinterpret_cast<const int8_t*>(scales + padded / 4);
  const auto* sums = reinterpret_cast<const float*>(split + split_bytes(k));
  return {reinterpret_cast<const int8_t*>(room), scales, sums, sums + padded / kFastBlock, split};
}

FastColumn fast_column(const float* x, int64_t k, bool split, std::byte* room) noexcept {
  const FastColumn out = fast_column_at(room, k);
  level().column(x, k, const_cast<int8_t*>(out.values), const_cast<float*>(out.scales),
                 const_cast<float*>(out.sums), const_cast<float*>(out.total),
                 split ? const_cast<int8_t*>(out.split) : nullptr);
  return out;
}

void fast_matvec(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count, int64_t k,
                 const FastColumn* x, int64_t columns, float* const* out) noexcept {
  level().matvec(kind, block, fine, rows, count, k, x, columns, out);
}

int64_t fast_panel_columns() noexcept { return level().lanes; }

int64_t fast_panels_bytes(int64_t k, int64_t columns) noexcept {
  const FastLevel& l = level();
  return (columns + l.lanes - 1) / l.lanes * fast_panel_bytes(k, l.lanes, l.value_bytes);
}

void fast_pack(const float* x, int64_t stride, int64_t k, int64_t columns, int64_t begin, int64_t end,
               std::byte* out) noexcept {
  const FastLevel& l = level();
  for (int64_t p = begin; p < end; ++p)
    l.pack(x + p * l.lanes, stride, k, std::min(l.lanes, columns - p * l.lanes),
           out + p * fast_panel_bytes(k, l.lanes, l.value_bytes));
}

int64_t fast_gemm_rows() noexcept { return level().rows; }

int64_t fast_room_bytes(bool fine, int64_t count, int64_t k) noexcept {
  const FastLevel& l = level();
  const int64_t padded = fast_padded(k), rows = (count + l.tile - 1) / l.tile * l.tile;
  const int64_t scales = l.tile > 1 ? padded / kFastBlock * l.tile * 2 * 4 : 0;
  return (fine ? 2 : l.value_bytes) * rows * padded + scales;
}

void fast_gemm(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count,
               const FastPanels& x, float* out, int64_t out_stride, std::byte* room) noexcept {
  level().gemm(kind, block, fine, rows, count, x, out, out_stride, room);
}

void fast_product_plain(FastKind kind, int64_t block, const FastRow* rows, int64_t count, int64_t k,
                        const FastColumn* x, int64_t columns, bool coarse, float* const* out) noexcept {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const FastRow& row = rows[r];
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        double offset = coarse ? row.coarse_offset : row.offset, scale = 1;
        if (block > 0) {
          scale = row.block_scale[i / block];
          if (row.block_offset) offset += row.block_offset[i / block];
        }
        sum += scale * (plain_value(kind, row, i, coarse) - offset) * x[c].values[i] * x[c].scales[i / 4];
      }
      out[c][r] = static_cast<float>(sum * (block > 0 ? 1.0 : coarse ? row.coarse_scale : row.scale));
    }
}

std::span<const char* const> fast_level_names() noexcept {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> all;
    for (const FastLevel* l : levels()) all.push_back(l->name);
    return all;
  }();
  return names;
}

const char* fast_level_name() noexcept { return level().name; }

void fast_choose_level(std::string_view name) noexcept {
  for (const FastLevel* l : levels())
    if (l->name == name) chosen() = l;
}

}  // namespace anemone
