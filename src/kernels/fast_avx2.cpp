// The kernels of fast.h for AVX2: bytes are multiplied in pairs to 16 bits, so one side is kept below 128 or unsigned.
#include "kernels/fast_level.h"

#include <hwy/base.h>

#include <type_traits>
#include <utility>

#if HWY_ARCH_X86
#include <immintrin.h>

#define FAST_INLINE inline __attribute__((always_inline))
HWY_PUSH_ATTRIBUTES("avx2,fma,f16c")
namespace anemone::fast_avx2 {

constexpr int64_t kLanes = 8, kMostRows = 4, kPanels = 1, kSharedRows = 1;
constexpr int kEightNumbers = 9, kEightWords = 7;
constexpr float kSignedShift = 0;
constexpr int64_t kValueBytes = 2;
constexpr int32_t kProductShift = 0;

using Bytes = __m256i;
using Ints = __m256i;
using Floats = __m256;

FAST_INLINE Bytes load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
FAST_INLINE void store_bytes(Bytes v, void* p) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
FAST_INLINE Ints load_ints(const void* p) { return load_bytes(p); }
FAST_INLINE Floats load_floats(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
FAST_INLINE void store_floats(Floats v, float* p) { _mm256_storeu_ps(p, v); }
FAST_INLINE Ints zero_ints() { return _mm256_setzero_si256(); }
FAST_INLINE Floats zero_floats() { return _mm256_setzero_ps(); }
FAST_INLINE Floats all_floats(float f) { return _mm256_set1_ps(f); }
FAST_INLINE Floats two_halves(float a, float) {
  return all_floats(a);
}  // never asked for: a vector is one block
FAST_INLINE Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
FAST_INLINE Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
FAST_INLINE Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
FAST_INLINE Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
FAST_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
template <class V>
FAST_INLINE void keep_in_register(V&) {}
FAST_INLINE Bytes flip(Bytes v) { return _mm256_xor_si256(v, _mm256_set1_epi8(-128)); }

FAST_INLINE void store_four_sums(const Floats* v, float* out) {
  const __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

FAST_INLINE __m128i load_8(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
FAST_INLINE __m128i load_16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

FAST_INLINE Ints times_128(Ints v) { return _mm256_slli_epi32(v, 7); }
FAST_INLINE Floats spread(const float* p, int64_t count) {
  const __m128i wanted =
      _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int32_t>(count)), _mm_setr_epi32(0, 1, 2, 3));
  return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_maskload_ps(p, wanted)),
                                  _mm256_setr_epi32(0, 0, 2, 2, 1, 1, 3, 3));
}
FAST_INLINE Floats spread_four(const float* p, int64_t count) {
  const Floats first = all_floats(*p);
  return count > 1 ? _mm256_blend_ps(first, all_floats(p[1]), 0xf0)
                   : _mm256_blend_ps(first, zero_floats(), 0xf0);
}
FAST_INLINE Floats load_some_floats(const float* p, int64_t count) {
  const Ints lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lanes));
}
FAST_INLINE Bytes first_halves(Bytes a, Bytes b) { return _mm256_unpacklo_epi64(a, b); }
FAST_INLINE Bytes second_halves(Bytes a, Bytes b) { return _mm256_unpackhi_epi64(a, b); }
FAST_INLINE Bytes load_some(const uint8_t* p, int64_t count) {
  alignas(32) uint8_t room[32] = {};
  __builtin_memcpy(room, p, static_cast<size_t>(count));
  return load_bytes(room);
}
struct Nibbles {
  Bytes even, odd;
};
FAST_INLINE Nibbles nibbles(Bytes v) {
  const Bytes mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(v, mask), _mm256_and_si256(_mm256_srli_epi16(v, 4), mask)};
}

// Codes of 3 or 6 bits: the two bytes that hold one go to 16 bits of their own, a product moves the code to the top.
// Half a vector, 16 codes, is 2 * kBits bytes from `begin` of what is loaded for it.
template <int kBits>
struct Places {
  alignas(32) uint8_t bytes[2][32] = {};
  alignas(32) uint16_t factor[2][16] = {};
  constexpr Places() {
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 16; ++i) {
        const int bit = i * kBits,
                  byte = bit / 8 + (half == 0    ? 0
                                    : kBits == 6 ? 4
                                                 : 2),
                  part = i / 8, at = i % 8;
        bytes[part][half * 16 + 2 * at] = static_cast<uint8_t>(byte);
        bytes[part][half * 16 + 2 * at + 1] = static_cast<uint8_t>(byte < 15 ? byte + 1 : byte);
        factor[part][half * 8 + at] = static_cast<uint16_t>(1u << (16 - kBits - bit % 8));
      }
  }
};

template <int kBits>
FAST_INLINE Bytes odd_codes(const uint8_t* p) {
  static constexpr Places<kBits> kPlaces;
  const Bytes raw =
      kBits == 6 ? _mm256_set_m128i(load_16(p + 8), load_16(p)) : _mm256_set_m128i(load_8(p + 4), load_8(p));
  Bytes parts[2];
  for (int i = 0; i < 2; ++i) {
    const Bytes pairs = _mm256_shuffle_epi8(raw, load_bytes(kPlaces.bytes[i]));
    parts[i] = _mm256_srli_epi16(_mm256_mullo_epi16(pairs, load_bytes(kPlaces.factor[i])), 16 - kBits);
  }
  return _mm256_packus_epi16(parts[0], parts[1]);
}

template <int kBits>
FAST_INLINE Bytes codes(const uint8_t* p) {
  if constexpr (kBits == 8) {
    return load_bytes(p);
  } else if constexpr (kBits == 4) {
    const Bytes v = _mm256_cvtepu8_epi16(load_16(p));
    return _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi16(v, 4)), _mm256_set1_epi8(15));
  } else if constexpr (kBits == 2) {
    const Bytes v = _mm256_cvtepu8_epi32(load_8(p));
    const Bytes two = _mm256_or_si256(v, _mm256_slli_epi32(v, 12));
    return _mm256_and_si256(_mm256_or_si256(two, _mm256_slli_epi32(two, 6)), _mm256_set1_epi8(3));
  } else if constexpr (kBits == 1) {
    int32_t word;
    __builtin_memcpy(&word, p, 4);
    const Bytes which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const Bytes bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
    const Bytes v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), which), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(v, bit), _mm256_set1_epi8(1));
  } else {
    return odd_codes<kBits>(p);
  }
}

template <int kBits>
class Table {
 public:
  explicit Table(const std::byte* plane) : plane_(plane) {
    if constexpr (kParts <= 4)
      for (int i = 0; i < kParts; ++i) table_[i] = part(i);
  }
  FAST_INLINE Bytes look_up(Bytes code) const {
    if constexpr (kParts == 1) {
      return _mm256_shuffle_epi8(table_[0], code);
    } else {
      const Bytes low = _mm256_and_si256(code, _mm256_set1_epi8(15));
      return select<kBits - 4>(0, low, code);
    }
  }

 private:
  FAST_INLINE Bytes part(int i) const {
    return _mm256_broadcastsi128_si256(load_16(reinterpret_cast<const uint8_t*>(plane_) + 16 * i));
  }
  // The value from 2^kLog parts of 16 entries: the bit above them decides between two halves.
  template <int kLog>
  FAST_INLINE Bytes select(int first, Bytes low, Bytes code) const {
    if constexpr (kLog == 0) {
      return _mm256_shuffle_epi8(kParts <= 4 ? table_[kParts <= 4 ? first : 0] : part(first), low);
    } else {
      const Bytes a = select<kLog - 1>(first, low, code),
                  b = select<kLog - 1>(first + (1 << (kLog - 1)), low, code);
      return _mm256_blendv_epi8(a, b, _mm256_slli_epi16(code, 4 - kLog));  // its bit in each byte's highest
    }
  }

  static constexpr int kParts = kBits <= 4 ? 1 : 1 << (kBits - 4);
  const std::byte* plane_;
  Bytes table_[kParts <= 4 ? kParts : 1];
};

FAST_INLINE Ints add_pairs(Ints sum, Bytes words, int16_t factor) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(factor)));
}

struct Signed {
  Bytes value, size;
};
FAST_INLINE Signed as_signed(Bytes v) { return {v, _mm256_abs_epi8(v)}; }
// 2 * 128 * 127 is still below 2^15.
FAST_INLINE Ints dot(Ints sum, const Signed& w, Bytes x) {
  return add_pairs(sum, _mm256_maddubs_epi16(w.size, _mm256_sign_epi8(x, w.value)), 1);
}
FAST_INLINE Ints dot(Ints sum, Bytes w, Bytes x) { return add_pairs(sum, _mm256_maddubs_epi16(w, x), 1); }
FAST_INLINE Ints dot_planes(Bytes high, Bytes low, Bytes x) {
  const Ints sum = _mm256_madd_epi16(_mm256_maddubs_epi16(high, x), _mm256_set1_epi16(128));
  return add_pairs(sum, _mm256_maddubs_epi16(low, x), 1);
}

// Eight times 15 * 127 is below 2^15 as well.
template <int kCount>
FAST_INLINE Ints dot_numbers(Ints sum, const Bytes* w, const Bytes* x) {
  const Bytes a = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], x[0]), _mm256_maddubs_epi16(w[1], x[1]));
  if constexpr (kCount == 2) return add_pairs(sum, a, 1);
  const Bytes b = _mm256_add_epi16(_mm256_maddubs_epi16(w[2], x[2]), _mm256_maddubs_epi16(w[3], x[3]));
  return add_pairs(sum, _mm256_add_epi16(a, b), 1);
}
FAST_INLINE Ints dot_words(const Bytes* w, const Bytes* x) {
  const Ints a = _mm256_add_epi32(_mm256_madd_epi16(w[0], x[0]), _mm256_madd_epi16(w[1], x[1]));
  const Ints b = _mm256_add_epi32(_mm256_madd_epi16(w[2], x[2]), _mm256_madd_epi16(w[3], x[3]));
  return _mm256_add_epi32(a, b);
}

// Products of many columns take words: a product and a sum for two elements, with nothing done to a row before.
FAST_INLINE __m128i lower(Bytes v) { return _mm256_castsi256_si128(v); }
FAST_INLINE __m128i upper(Bytes v) { return _mm256_extracti128_si256(v, 1); }
FAST_INLINE void store_coarse(Bytes v, uint8_t* p) {
  store_bytes(_mm256_cvtepi8_epi16(lower(v)), p);
  store_bytes(_mm256_cvtepi8_epi16(upper(v)), p + sizeof(Bytes));
}
FAST_INLINE Bytes fine_words(__m128i high, __m128i low) {
  const Bytes words =
      _mm256_add_epi16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(high), 7), _mm256_cvtepu8_epi16(low));
  return _mm256_sub_epi16(words, _mm256_set1_epi16(8192));
}
FAST_INLINE void store_fine(Bytes high, Bytes low, uint8_t* p, uint8_t*) {
  store_bytes(fine_words(lower(high), lower(low)), p);
  store_bytes(fine_words(upper(high), upper(low)), p + sizeof(Bytes));
}
using Four = Bytes;
FAST_INLINE Four four_bytes(const uint8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}
FAST_INLINE Ints dot_four(Ints sum, Four w, Bytes x) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
}
FAST_INLINE Ints dot_four_small(Ints sum, Four w, Bytes x) { return dot_four(sum, w, x); }

// The bytes of a word are looked up each on its own, and interleaved.
template <bool kFine>
class WordTable {
 public:
  explicit WordTable(const std::byte* table) {
    const auto* p = reinterpret_cast<const uint8_t*>(table);
    const Bytes words =
        kFine ? fine_words(load_16(p), load_16(p + 16)) : _mm256_cvtepi8_epi16(load_16(p + 32));
    low_ = in_order(_mm256_and_si256(words, _mm256_set1_epi16(255)));
    high_ = in_order(_mm256_srli_epi16(words, 8));
  }
  FAST_INLINE void look_up(Bytes raw, Bytes* out) const {
    const Nibbles c = nibbles(raw);
    interleave(c.even, out);
    interleave(c.odd, out + 2);
  }

 private:
  FAST_INLINE void interleave(Bytes code, Bytes* out) const {
    const Bytes low = _mm256_shuffle_epi8(low_, code), high = _mm256_shuffle_epi8(high_, code);
    out[0] = _mm256_unpacklo_epi8(low, high);
    out[1] = _mm256_unpackhi_epi8(low, high);
  }
  // Sixteen words below 256 as bytes, in both halves.
  static Bytes in_order(Bytes words) {
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm256_broadcastsi128_si256(bytes);
  }
  Bytes low_, high_;
};
constexpr int64_t word_of(int64_t e) { return (e % 2 * 2 + e / 16 % 2) * 16 + e / 32 * 8 + e / 2 % 8; }

#define FAST_WORDS
#include "kernels/fast_loops-inl.h"

}  // namespace anemone::fast_avx2
HWY_POP_ATTRIBUTES

namespace anemone {
const FastLevel* fast_level_avx2() {
  static constexpr FastLevel kLevel{.name = "avx2",
                                    .lanes = fast_avx2::kLanes,
                                    .value_bytes = fast_avx2::kValueBytes,
                                    .split_bytes = fast_avx2::split_bytes,
                                    .column = fast_avx2::quantize_column,
                                    .matvec = fast_avx2::matvec_level,
                                    .pack = fast_avx2::pack_panel,
                                    .gemm = fast_avx2::gemm_level};
  return &kLevel;
}
}  // namespace anemone
#endif
