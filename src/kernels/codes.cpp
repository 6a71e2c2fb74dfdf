#include "kernels/codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codes.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once for each target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that 16 codes are whole vectors on every target.
using DF = hn::CappedTag<float, 16>;
using D8 = hn::FixedTag<uint8_t, 16>;

// 16 codes in a register, by way of the stack: a store that the loads are forwarded from.
HWY_INLINE void emit(hn::Vec<D8> codes, hn::Vec<DF> zero, hn::Vec<DF> scale, float* out) {
  const DF df;
  const hn::Rebind<int32_t, DF> di;
  HWY_ALIGN uint8_t bytes[16];
  hn::Store(codes, D8(), bytes);
  for (size_t i = 0; i < 16; i += hn::Lanes(df)) {
    const auto wide = hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(hn::Rebind<uint8_t, DF>(), bytes + i)));
    hn::StoreU(hn::Mul(hn::Sub(wide, zero), scale), df, out + i);
  }
}

// Whole groups of 16 bytes; gives the number of codes that it made.
int64_t nibbles(const uint8_t* in, int64_t count, float zero, float scale, float* out) {
  const auto z = hn::Set(DF(), zero), s = hn::Set(DF(), scale);
  int64_t done = 0;
  for (; done + 32 <= count; done += 32) {
    const auto v = hn::LoadU(D8(), in + done / 2);
    const auto low = hn::And(v, hn::Set(D8(), uint8_t{15})), high = hn::ShiftRight<4>(v);
    emit(hn::InterleaveLower(D8(), low, high), z, s, out + done);
    emit(hn::InterleaveUpper(D8(), low, high), z, s, out + done + 16);
  }
  return done;
}

int64_t octets(const uint8_t* in, int64_t count, float zero, float scale, float* out) {
  const auto z = hn::Set(DF(), zero), s = hn::Set(DF(), scale);
  int64_t done = 0;
  for (; done + 16 <= count; done += 16) emit(hn::LoadU(D8(), in + done), z, s, out + done);
  return done;
}

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace anemone {

HWY_EXPORT(nibbles);
HWY_EXPORT(octets);

void decode_codes_plain(const std::byte* in, int bits, int64_t first, int64_t count, float zero, float scale,
                        float* out) noexcept {
  const unsigned mask = (1U << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = (first + i) * bits;
    const unsigned code = (std::to_integer<unsigned>(in[bit / 8]) >> (bit % 8)) & mask;
    out[i] = (static_cast<float>(code) - zero) * scale;
  }
}

void decode_codes(const std::byte* in, int bits, int64_t first, int64_t count, float zero, float scale,
                  float* out) noexcept {
  int64_t done = 0;
  const auto* bytes = reinterpret_cast<const uint8_t*>(in);
  if (bits == 4 && first % 2 == 0)
    done = HWY_DYNAMIC_DISPATCH(nibbles)(bytes + first / 2, count, zero, scale, out);
  else if (bits == 8)
    done = HWY_DYNAMIC_DISPATCH(octets)(bytes + first, count, zero, scale, out);
  decode_codes_plain(in, bits, first + done, count - done, zero, scale, out + done);
}

}  // namespace anemone

#endif  // HWY_ONCE
