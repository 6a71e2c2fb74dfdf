// Each decoder unpacks 16 elements into signed bytes with byte-wide operations, then widens, scales and
// stores them. One core, AVX2, to fp16, rows in the second-level cache (bench/decode): Q8_0 28.8 GB/s of
// output from 15.3 of input, Q4_0 25.9 from 7.3, Q4_K 20.1 from 5.7; a memcpy of the same output 57.7. Every
// product below is exact in fp32 (a half has 11 significant bits, scales and levels at most 13 together), so
// neither the order of the factors nor a fused multiply-add can change a bit of the result.
#include "kernels/dequant_simd.h"

#include "kernels/dequant_plain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dequant_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {

// At most 16 lanes, so that sub-blocks of 16 are whole vectors on every target.
using DF = hn::CappedTag<float, 16>;
using D8 = hn::FixedTag<uint8_t, 16>;
using V8 = hn::Vec<D8>;

HWY_INLINE V8 load(const uint8_t* in) { return hn::LoadU(D8(), in); }
HWY_INLINE V8 low_nibbles(V8 v) { return hn::And(v, hn::Set(D8(), uint8_t{15})); }
HWY_INLINE V8 high_nibbles(V8 v) { return hn::ShiftRight<4>(v); }
HWY_INLINE V8 minus(V8 v, uint8_t offset) { return hn::Sub(v, hn::Set(D8(), offset)); }

HWY_INLINE hn::Vec<DF> broadcast_half(const uint8_t* in) {
  const DF df;
  return widen_half(df, hn::Set(hn::Rebind<uint16_t, DF>(), load_at<uint16_t>(in)));
}

HWY_INLINE hn::Vec<DF> widen(const int8_t* q) {
  const hn::Rebind<int32_t, DF> di;
  return hn::ConvertTo(DF(), hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, DF>(), q)));
}

// out = q * scale (+ bias), for 16 elements each.
template <class Out>
HWY_INLINE void emit(const int8_t* q, hn::Vec<DF> scale, Out* out) {
  const DF df;
  for (size_t i = 0; i < 16; i += hn::Lanes(df)) store_as(df, hn::Mul(widen(q + i), scale), out + i);
}
template <class Out>
HWY_INLINE void emit(const int8_t* q, hn::Vec<DF> scale, hn::Vec<DF> bias, Out* out) {
  const DF df;
  for (size_t i = 0; i < 16; i += hn::Lanes(df))
    store_as(df, hn::Add(hn::Mul(widen(q + i), scale), bias), out + i);
}
// The same from 16 bytes in a register, by way of the stack: a store that the loads are forwarded from.
template <class Out>
HWY_INLINE void emit(V8 q, hn::Vec<DF> scale, Out* out) {
  HWY_ALIGN int8_t bytes[16];
  hn::Store(q, D8(), reinterpret_cast<uint8_t*>(bytes));
  emit(bytes, scale, out);
}
template <class Out>
HWY_INLINE void emit(V8 q, hn::Vec<DF> scale, hn::Vec<DF> bias, Out* out) {
  HWY_ALIGN int8_t bytes[16];
  hn::Store(q, D8(), reinterpret_cast<uint8_t*>(bytes));
  emit(bytes, scale, bias, out);
}

template <class Out>
void q8_0(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 34, out += 32) {
    const auto d = broadcast_half(in);
    const auto* q = reinterpret_cast<const int8_t*>(in + 2);
    emit(q, d, out);
    emit(q + 16, d, out + 16);
  }
}

template <class Out>
void q4_0(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 18, out += 32) {
    const auto d = broadcast_half(in);
    const V8 q = load(in + 2);
    emit(minus(low_nibbles(q), 8), d, out);
    emit(minus(high_nibbles(q), 8), d, out + 16);
  }
}

template <class Out>
void q4_1(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 20, out += 32) {
    const auto d = broadcast_half(in), m = broadcast_half(in + 2);
    const V8 q = load(in + 4);
    emit(low_nibbles(q), d, m, out);
    emit(high_nibbles(q), d, m, out + 16);
  }
}

// 16 where the bit of an element is set, else 0, for 16 elements whose bits are two bytes.
HWY_INLINE V8 fifth_bits(const uint8_t* in) {
  HWY_ALIGN static constexpr uint8_t kSpread[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  HWY_ALIGN static constexpr uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const hn::FixedTag<uint16_t, 8> d16;
  const V8 both = hn::BitCast(D8(), hn::Set(d16, load_at<uint16_t>(in)));
  const V8 bit = hn::Load(D8(), kBit);
  const V8 spread = hn::TableLookupBytes(both, hn::Load(D8(), kSpread));
  return hn::IfThenElseZero(hn::Eq(hn::And(spread, bit), bit), hn::Set(D8(), uint8_t{16}));
}

template <class Out>
void q5_0(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 22, out += 32) {
    const auto d = broadcast_half(in);
    const V8 q = load(in + 6);
    emit(minus(hn::Or(low_nibbles(q), fifth_bits(in + 2)), 16), d, out);
    emit(minus(hn::Or(high_nibbles(q), fifth_bits(in + 4)), 16), d, out + 16);
  }
}

template <class Out>
void q5_1(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 24, out += 32) {
    const auto d = broadcast_half(in), m = broadcast_half(in + 2);
    const V8 q = load(in + 8);
    emit(hn::Or(low_nibbles(q), fifth_bits(in + 4)), d, m, out);
    emit(hn::Or(high_nibbles(q), fifth_bits(in + 6)), d, m, out + 16);
  }
}

// A level for each of 16 nibbles.
HWY_INLINE V8 look_up(const int8_t* levels, V8 nibbles) {
  return hn::TableLookupBytes(hn::LoadU(D8(), reinterpret_cast<const uint8_t*>(levels)), nibbles);
}

template <class Out>
void iq4_nl(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 18, out += 32) {
    const auto d = broadcast_half(in);
    const V8 q = load(in + 2);
    emit(look_up(kIq4Levels, low_nibbles(q)), d, out);
    emit(look_up(kIq4Levels, high_nibbles(q)), d, out + 16);
  }
}

template <class Out>
void iq4_xs(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 136) {
    const auto d = broadcast_half(in);
    const auto high = load_at<uint16_t>(in + 2);
    for (int s = 0; s < 8; ++s, out += 32) {
      const int scale = ((in[4 + s / 2] >> 4 * (s % 2) & 15) | (high >> 2 * s & 3) << 4) - 32;
      const auto ds = hn::Mul(d, hn::Set(DF(), static_cast<float>(scale)));
      const V8 q = load(in + 8 + 16 * s);
      emit(look_up(kIq4Levels, low_nibbles(q)), ds, out);
      emit(look_up(kIq4Levels, high_nibbles(q)), ds, out + 16);
    }
  }
}

template <class Out>
void mxfp4(const uint8_t* in, int64_t blocks, Out* out) {
  for (; blocks > 0; --blocks, in += 17, out += 32) {
    const auto d = hn::Set(DF(), mxfp4_scale(in[0]));
    const V8 q = load(in + 1);
    emit(look_up(kFp4Doubled, low_nibbles(q)), d, out);
    emit(look_up(kFp4Doubled, high_nibbles(q)), d, out + 16);
  }
}

// Two bits of 16 elements; layer is 0 to 3.
HWY_INLINE V8 crumbs(V8 v, int layer) {
  return hn::And(hn::ShiftRightSame(v, 2 * layer), hn::Set(D8(), uint8_t{3}));
}

template <class Out>
void q2_k(const uint8_t* in, int64_t blocks, Out* out) {
  const DF df;
  for (; blocks > 0; --blocks, in += 84) {
    const auto d = broadcast_half(in + 80), dmin = broadcast_half(in + 82);
    for (int k = 0; k < 16; ++k, out += 16) {  // 16 elements: half k/8, layer k/2%4
      const auto scale = hn::Mul(d, hn::Set(df, static_cast<float>(in[k] & 15)));
      const auto bias = hn::Neg(hn::Mul(dmin, hn::Set(df, static_cast<float>(in[k] >> 4))));
      emit(crumbs(load(in + 16 + 32 * (k / 8) + 16 * (k % 2)), k / 2 % 4), scale, bias, out);
    }
  }
}

template <class Out>
void q3_k(const uint8_t* in, int64_t blocks, Out* out) {
  const DF df;
  for (; blocks > 0; --blocks, in += 110) {
    const auto d = broadcast_half(in + 108);
    for (int k = 0; k < 16; ++k, out += 16) {
      const auto scale = hn::Mul(d, hn::Set(df, static_cast<float>(q3_scale(in + 96, k))));
      const V8 q = crumbs(load(in + 32 + 32 * (k / 8) + 16 * (k % 2)), k / 2 % 4);
      const V8 bit = hn::Set(D8(), static_cast<uint8_t>(1 << (k / 2)));
      const V8 clear = hn::AndNot(load(in + 16 * (k % 2)), bit);
      emit(hn::Sub(q, hn::IfThenElseZero(hn::Eq(clear, bit), hn::Set(D8(), uint8_t{4}))), scale, out);
    }
  }
}

template <class Out>
void q4_k(const uint8_t* in, int64_t blocks, Out* out) {
  const DF df;
  for (; blocks > 0; --blocks, in += 144) {
    const auto d = broadcast_half(in), dmin = broadcast_half(in + 2);
    for (int j = 0; j < 8; ++j, out += 32) {
      const auto scale = hn::Mul(d, hn::Set(df, static_cast<float>(k_scale(in + 4, j))));
      const auto bias = hn::Neg(hn::Mul(dmin, hn::Set(df, static_cast<float>(k_min(in + 4, j)))));
      for (int h = 0; h < 32; h += 16) {
        const V8 q = load(in + 16 + 32 * (j / 2) + h);
        emit(j % 2 ? high_nibbles(q) : low_nibbles(q), scale, bias, out + h);
      }
    }
  }
}

template <class Out>
void q5_k(const uint8_t* in, int64_t blocks, Out* out) {
  const DF df;
  for (; blocks > 0; --blocks, in += 176) {
    const auto d = broadcast_half(in), dmin = broadcast_half(in + 2);
    for (int j = 0; j < 8; ++j, out += 32) {
      const auto scale = hn::Mul(d, hn::Set(df, static_cast<float>(k_scale(in + 4, j))));
      const auto bias = hn::Neg(hn::Mul(dmin, hn::Set(df, static_cast<float>(k_min(in + 4, j)))));
      const V8 bit = hn::Set(D8(), static_cast<uint8_t>(1 << j));
      for (int h = 0; h < 32; h += 16) {
        const V8 q = load(in + 48 + 32 * (j / 2) + h);
        const auto set = hn::Eq(hn::And(load(in + 16 + h), bit), bit);
        const V8 fifth = hn::IfThenElseZero(set, hn::Set(D8(), uint8_t{16}));
        emit(hn::Or(j % 2 ? high_nibbles(q) : low_nibbles(q), fifth), scale, bias, out + h);
      }
    }
  }
}

template <class Out>
void q6_k(const uint8_t* in, int64_t blocks, Out* out) {
  const DF df;
  for (; blocks > 0; --blocks, in += 210) {
    const auto d = broadcast_half(in + 208);
    for (int k = 0; k < 16; ++k, out += 16) {  // 16 elements: half k/8, group k/2%4
      const int half = k / 8, group = k / 2 % 4, l = 16 * (k % 2);
      const auto scale = hn::Mul(d, hn::Set(df, static_cast<float>(static_cast<int8_t>(in[192 + k]))));
      const V8 four = load(in + 64 * half + 32 * (group % 2) + l);
      const V8 two = crumbs(load(in + 128 + 32 * half + l), group);
      const V8 q = hn::Or(group / 2 ? high_nibbles(four) : low_nibbles(four), hn::ShiftLeft<4>(two));
      emit(minus(q, 32), scale, out);
    }
  }
}

template <class Out>
BlockDecoder<Out> choose(BlockType type) {
  switch (type) {
    case BlockType::q8_0: return q8_0<Out>;
    case BlockType::q4_0: return q4_0<Out>;
    case BlockType::q4_1: return q4_1<Out>;
    case BlockType::q5_0: return q5_0<Out>;
    case BlockType::q5_1: return q5_1<Out>;
    case BlockType::iq4_nl: return iq4_nl<Out>;
    case BlockType::iq4_xs: return iq4_xs<Out>;
    case BlockType::mxfp4: return mxfp4<Out>;
    case BlockType::q2_k: return q2_k<Out>;
    case BlockType::q3_k: return q3_k<Out>;
    case BlockType::q4_k: return q4_k<Out>;
    case BlockType::q5_k: return q5_k<Out>;
    case BlockType::q6_k: return q6_k<Out>;
    default: return nullptr;
  }
}

BlockDecoder<float> ChooseToFloat(BlockType type) { return choose<float>(type); }
BlockDecoder<uint16_t> ChooseToHalf(BlockType type) { return choose<uint16_t>(type); }

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anemone {

HWY_EXPORT(ChooseToFloat);
HWY_EXPORT(ChooseToHalf);

BlockDecoder<float> simd_decoder_to_float(BlockType type) noexcept {
  return HWY_DYNAMIC_DISPATCH(ChooseToFloat)(type);
}
BlockDecoder<uint16_t> simd_decoder_to_half(BlockType type) noexcept {
  return HWY_DYNAMIC_DISPATCH(ChooseToHalf)(type);
}

}  // namespace anemone
#endif
