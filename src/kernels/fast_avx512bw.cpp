// The kernels of fast.h for AVX-512 without VNNI and VBMI: products as with AVX2, in vectors of twice the width.
#include "kernels/fast_level.h"

#include <hwy/base.h>

#include <type_traits>
#include <utility>

#if HWY_ARCH_X86
#include <immintrin.h>

#define FAST_INLINE inline __attribute__((always_inline))
HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512vl,avx512dq,avx512bw")
namespace anemone::fast_avx512bw {

constexpr int64_t kLanes = 16, kMostRows = 6, kPanels = 2, kSharedRows = 2;
constexpr int kEightNumbers = 7, kEightWords = 9;
constexpr float kSignedShift = 0;
constexpr int64_t kValueBytes = 2;
constexpr int32_t kProductShift = 0;

#include "kernels/fast_avx512-inl.h"

struct Nibbles {
  Bytes even, odd;
};
FAST_INLINE Nibbles nibbles(Bytes v) {
  const Bytes mask = _mm512_set1_epi8(15);
  return {_mm512_and_si512(v, mask), _mm512_and_si512(_mm512_srli_epi16(v, 4), mask)};
}

// Codes of 3 or 6 bits: sixteen of them are 2 * kBits bytes, which go to a quarter of the vector. The two bytes that
// hold a code go to 16 bits of their own, and a shift moves the code to the bottom.
template <int kBits>
struct Places {
  alignas(64) int32_t words[16] = {};
  alignas(64) uint8_t bytes[2][64] = {};
  alignas(64) uint16_t shift[2][32] = {};
  constexpr Places() {
    for (int quarter = 0; quarter < 4; ++quarter) {
      const int begin = quarter * 2 * kBits;
      for (int i = 0; i < 4; ++i) words[4 * quarter + i] = begin / 4 + i;
      for (int i = 0; i < 16; ++i) {
        const int bit = i * kBits, byte = begin % 4 + bit / 8, part = i / 8, at = 8 * quarter + i % 8;
        bytes[part][2 * at] = static_cast<uint8_t>(byte);
        bytes[part][2 * at + 1] = static_cast<uint8_t>(byte + 1);
        shift[part][at] = static_cast<uint16_t>(bit % 8);
      }
    }
  }
};

template <int kBits>
FAST_INLINE Bytes odd_codes(const uint8_t* p) {
  static constexpr Places<kBits> kPlaces;
  const Bytes raw = _mm512_permutexvar_epi32(load_ints(kPlaces.words), load_some(p, 8 * kBits));
  const Bytes mask = _mm512_set1_epi16((1 << kBits) - 1);
  Bytes parts[2];
  for (int i = 0; i < 2; ++i) {
    const Bytes pairs = _mm512_shuffle_epi8(raw, load_bytes(kPlaces.bytes[i]));
    parts[i] = _mm512_and_si512(_mm512_srlv_epi16(pairs, load_bytes(kPlaces.shift[i])), mask);
  }
  return _mm512_packus_epi16(parts[0], parts[1]);
}

template <int kBits>
FAST_INLINE Bytes codes(const uint8_t* p) {
  if constexpr (kBits == 8) {
    return load_bytes(p);
  } else if constexpr (kBits == 4) {
    const Bytes v = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_and_si512(_mm512_or_si512(v, _mm512_slli_epi16(v, 4)), _mm512_set1_epi8(15));
  } else if constexpr (kBits == 2) {
    const Bytes v = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const Bytes two = _mm512_or_si512(v, _mm512_slli_epi32(v, 12));
    return _mm512_and_si512(_mm512_or_si512(two, _mm512_slli_epi32(two, 6)), _mm512_set1_epi8(3));
  } else if constexpr (kBits == 1) {
    uint64_t bits;
    __builtin_memcpy(&bits, p, 8);
    return _mm512_maskz_set1_epi8(bits, 1);
  } else {
    return odd_codes<kBits>(p);
  }
}

FAST_INLINE __m128i load_16(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

template <int kBits>
class Table {
 public:
  explicit Table(const std::byte* plane) : plane_(plane) {
    if constexpr (kParts <= 4)
      for (int i = 0; i < kParts; ++i) table_[i] = part(i);
  }
  FAST_INLINE Bytes look_up(Bytes code) const {
    if constexpr (kParts == 1)
      return _mm512_shuffle_epi8(table_[0], code);
    else
      return select<kBits - 4>(0, _mm512_and_si512(code, _mm512_set1_epi8(15)), code);
  }

 private:
  FAST_INLINE Bytes part(int i) const { return _mm512_broadcast_i32x4(load_16(plane_ + 16 * i)); }
  // The value from 2^kLog parts of 16 entries: the bit above them decides between two halves.
  template <int kLog>
  FAST_INLINE Bytes select(int first, Bytes low, Bytes code) const {
    if constexpr (kLog == 0) {
      return _mm512_shuffle_epi8(kParts <= 4 ? table_[kParts <= 4 ? first : 0] : part(first), low);
    } else {
      const Bytes a = select<kLog - 1>(first, low, code),
                  b = select<kLog - 1>(first + (1 << (kLog - 1)), low, code);
      const Bytes bit = _mm512_set1_epi8(static_cast<char>(8 << kLog));
      return _mm512_mask_blend_epi8(_mm512_test_epi8_mask(code, bit), a, b);
    }
  }

  static constexpr int kParts = kBits <= 4 ? 1 : 1 << (kBits - 4);
  const std::byte* plane_;
  Bytes table_[kParts <= 4 ? kParts : 1];
};

FAST_INLINE Ints add_pairs(Ints sum, Bytes words, int16_t factor) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(words, _mm512_set1_epi16(factor)));
}

// No instruction takes the sign of a byte to another: those of x are turned where the weight is negative.
struct Signed {
  Bytes size;
  __mmask64 negative;
};
FAST_INLINE Signed as_signed(Bytes v) { return {_mm512_abs_epi8(v), _mm512_movepi8_mask(v)}; }
// 2 * 128 * 127 is still below 2^15.
FAST_INLINE Ints dot(Ints sum, const Signed& w, Bytes x) {
  const Bytes turned = _mm512_mask_sub_epi8(x, w.negative, zero_ints(), x);
  return add_pairs(sum, _mm512_maddubs_epi16(w.size, turned), 1);
}
FAST_INLINE Ints dot(Ints sum, Bytes w, Bytes x) { return add_pairs(sum, _mm512_maddubs_epi16(w, x), 1); }
FAST_INLINE Ints dot_planes(Bytes high, Bytes low, Bytes x) {
  const Ints sum = _mm512_madd_epi16(_mm512_maddubs_epi16(high, x), _mm512_set1_epi16(128));
  return add_pairs(sum, _mm512_maddubs_epi16(low, x), 1);
}

// Eight times 15 * 127 is below 2^15 as well.
template <int kCount>
FAST_INLINE Ints dot_numbers(Ints sum, const Bytes* w, const Bytes* x) {
  const Bytes a = _mm512_add_epi16(_mm512_maddubs_epi16(w[0], x[0]), _mm512_maddubs_epi16(w[1], x[1]));
  if constexpr (kCount == 2) return add_pairs(sum, a, 1);
  const Bytes b = _mm512_add_epi16(_mm512_maddubs_epi16(w[2], x[2]), _mm512_maddubs_epi16(w[3], x[3]));
  return add_pairs(sum, _mm512_add_epi16(a, b), 1);
}
FAST_INLINE Ints dot_words(const Bytes* w, const Bytes* x) {
  const Ints a = _mm512_add_epi32(_mm512_madd_epi16(w[0], x[0]), _mm512_madd_epi16(w[1], x[1]));
  const Ints b = _mm512_add_epi32(_mm512_madd_epi16(w[2], x[2]), _mm512_madd_epi16(w[3], x[3]));
  return _mm512_add_epi32(a, b);
}

// Products of many columns take words: a product and a sum for two elements, with nothing done to a row before.
FAST_INLINE __m256i lower(Bytes v) { return _mm512_castsi512_si256(v); }
FAST_INLINE __m256i upper(Bytes v) { return _mm512_extracti64x4_epi64(v, 1); }
FAST_INLINE void store_coarse(Bytes v, uint8_t* p) {
  store_bytes(_mm512_cvtepi8_epi16(lower(v)), p);
  store_bytes(_mm512_cvtepi8_epi16(upper(v)), p + sizeof(Bytes));
}
FAST_INLINE Bytes fine_words(__m256i high, __m256i low) {
  const Bytes words =
      _mm512_add_epi16(_mm512_slli_epi16(_mm512_cvtepu8_epi16(high), 7), _mm512_cvtepu8_epi16(low));
  return _mm512_sub_epi16(words, _mm512_set1_epi16(8192));
}
FAST_INLINE void store_fine(Bytes high, Bytes low, uint8_t* p, uint8_t*) {
  store_bytes(fine_words(lower(high), lower(low)), p);
  store_bytes(fine_words(upper(high), upper(low)), p + sizeof(Bytes));
}
using Four = Bytes;
FAST_INLINE Four four_bytes(const uint8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}
FAST_INLINE Ints dot_four(Ints sum, Four w, Bytes x) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(w, x));
}
FAST_INLINE Ints dot_four_small(Ints sum, Four w, Bytes x) { return dot_four(sum, w, x); }

// Words of 16 bits have four codes, and a look-up goes by the lowest five bits: the table is there twice.
template <bool kFine>
class WordTable {
 public:
  explicit WordTable(const std::byte* table) {
    const auto plane = [&](int i) { return _mm256_castsi128_si256(load_16(table + 16 * i)); };
    table_ = _mm512_broadcast_i64x4(
        lower(kFine ? fine_words(plane(0), plane(1)) : _mm512_cvtepi8_epi16(plane(2))));
  }
  FAST_INLINE void look_up(Bytes raw, Bytes* out) const {
    out[0] = _mm512_permutexvar_epi16(raw, table_);
    out[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(raw, 4), table_);
    out[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(raw, 8), table_);
    out[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(raw, 12), table_);
  }

 private:
  Bytes table_;
};
constexpr int64_t word_of(int64_t e) { return e % 4 * 32 + e / 4; }

#define FAST_WORDS
#include "kernels/fast_loops-inl.h"

}  // namespace anemone::fast_avx512bw
HWY_POP_ATTRIBUTES

namespace anemone {
const FastLevel* fast_level_avx512bw() {
  static constexpr FastLevel kLevel{.name = "avx512bw",
                                    .lanes = fast_avx512bw::kLanes,
                                    .value_bytes = fast_avx512bw::kValueBytes,
                                    .split_bytes = fast_avx512bw::split_bytes,
                                    .column = fast_avx512bw::quantize_column,
                                    .matvec = fast_avx512bw::matvec_level,
                                    .pack = fast_avx512bw::pack_panel,
                                    .gemm = fast_avx512bw::gemm_level};
  return &kLevel;
}
}  // namespace anemone
#endif
