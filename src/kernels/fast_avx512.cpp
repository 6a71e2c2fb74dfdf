// The kernels of fast.h for AVX-512 with VNNI and VBMI: a dot product of four bytes is one instruction, and so is a
// look-up in 64 bytes. Highway has neither. With AMX, products of many columns are those of tiles.
#include "kernels/fast_level.h"

#include <hwy/base.h>

#include <optional>
#include <type_traits>
#include <utility>

#if HWY_ARCH_X86
#include <immintrin.h>

#define FAST_INLINE inline __attribute__((always_inline))
HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512vl,avx512dq,avx512bw,avx512vbmi,avx512vnni")
namespace anemone::fast_avx512 {

constexpr int64_t kLanes = 16, kMostRows = 6, kPanels = 2, kSharedRows = 2;
constexpr int kEightNumbers = 9;
// Signed bytes are multiplied as unsigned ones, 128 too large.
constexpr float kSignedShift = 128;
constexpr int64_t kValueBytes = 1;
constexpr int32_t kProductShift = 128;

#include "kernels/fast_avx512-inl.h"

struct Nibbles {
  Bytes even, odd;
};
FAST_INLINE Nibbles nibbles(Bytes v) { return {v, _mm512_srli_epi16(v, 4)}; }

// Eight codes of b bits are b bytes: each goes to eight bytes of its own, and from there by its bit.
template <int kBits>
struct Places {
  alignas(64) uint8_t spread[64] = {}, shift[64] = {};
  constexpr Places() {
    for (int i = 0; i < 64; ++i) {
      spread[i] = static_cast<uint8_t>((i / 8 * kBits + i % 8) & 63);
      shift[i] = static_cast<uint8_t>(i % 8 * kBits);
    }
  }
};

template <int kBits>
FAST_INLINE Bytes codes(const uint8_t* p) {
  if constexpr (kBits == 8) {
    return load_bytes(p);
  } else {
    static constexpr Places<kBits> kPlaces;
    Bytes raw;
    if constexpr (kBits == 4)
      raw = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    else if constexpr (kBits == 2)
      raw = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    else
      raw = _mm512_maskz_loadu_epi8((1ull << (8 * kBits)) - 1, p);
    const Bytes spread = _mm512_permutexvar_epi8(_mm512_load_si512(kPlaces.spread), raw);
    return _mm512_multishift_epi64_epi8(_mm512_load_si512(kPlaces.shift), spread);
  }
}

// Look-ups go by the lowest six bits of a code (all eight for the largest table).
template <int kBits>
class Table {
 public:
  explicit Table(const std::byte* plane) {
    if constexpr (kBits <= 4) {
      table_[0] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(plane)));
    } else {
      for (int i = 0; i < kParts; ++i) table_[i] = load_bytes(plane + 64 * i);
    }
  }
  FAST_INLINE void flip_all() {
    for (Bytes& v : table_) v = flip(v);
  }
  FAST_INLINE Bytes look_up(Bytes code) const {
    if constexpr (kBits < 8) {
      return _mm512_permutexvar_epi8(code, table_[0]);
    } else {
      const Bytes low = _mm512_permutex2var_epi8(table_[0], code, table_[1]);
      const Bytes high = _mm512_permutex2var_epi8(table_[2], code, table_[3]);
      return _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), low, high);
    }
  }

 private:
  static constexpr int kParts = kBits == 8 ? 4 : 1;
  Bytes table_[kParts];
};

FAST_INLINE Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }

struct Signed {
  Bytes plus128;
};
FAST_INLINE Signed as_signed(Bytes v) { return {flip(v)}; }

#define FAST_SIGNED_TABLE
template <int kBits>
class SignedTable {
 public:
  explicit SignedTable(const std::byte* plane) : table_(plane) { table_.flip_all(); }
  FAST_INLINE Signed look_up(Bytes code) const { return {table_.look_up(code)}; }

 private:
  Table<kBits> table_;
};

FAST_INLINE Ints dot(Ints sum, Signed w, Bytes x) { return _mm512_dpbusd_epi32(sum, w.plus128, x); }
FAST_INLINE Ints dot(Ints sum, Bytes w, Bytes x) { return _mm512_dpbusd_epi32(sum, w, x); }
FAST_INLINE Ints dot_planes(Bytes high, Bytes low, Bytes x) {
  return _mm512_dpbusd_epi32(_mm512_slli_epi32(_mm512_dpbusd_epi32(zero_ints(), high, x), 7), low, x);
}

template <int kCount>
FAST_INLINE Ints dot_numbers(Ints sum, const Bytes* w, const Bytes* x) {
  for (int i = 0; i < kCount; ++i) sum = dot(sum, w[i], x[i]);
  return sum;
}

FAST_INLINE void store_coarse(Bytes v, uint8_t* p) { store_bytes(flip(v), p); }
FAST_INLINE void store_fine(Bytes high, Bytes low, uint8_t* p, uint8_t* q) {
  store_bytes(high, p);
  store_bytes(low, q);
}
using Four = Bytes;
FAST_INLINE Four four_bytes(const uint8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}
FAST_INLINE Ints dot_four(Ints sum, Four w, Bytes x) { return _mm512_dpbusd_epi32(sum, w, x); }
FAST_INLINE Ints dot_four_small(Ints sum, Four w, Bytes x) { return dot_four(sum, w, x); }

#include "kernels/fast_loops-inl.h"
#include "kernels/fast_tiles-inl.h"

}  // namespace anemone::fast_avx512
HWY_POP_ATTRIBUTES

namespace anemone {
namespace {

constexpr FastLevel kVectors{.name = "avx512",
                             .lanes = fast_avx512::kLanes,
                             .value_bytes = fast_avx512::kValueBytes,
                             .split_bytes = fast_avx512::split_bytes,
                             .column = fast_avx512::quantize_column,
                             .matvec = fast_avx512::matvec_level,
                             .pack = fast_avx512::pack_panel,
                             .gemm = fast_avx512::gemm_level};

constexpr FastLevel with_tiles(FastLevel level) {
  level.name = "amx";
  level.rows = 2 * fast_avx512::kTileHeight;
  level.tile = fast_avx512::kTileHeight;
  level.gemm = fast_avx512::tile_gemm_level;
  return level;
}
constexpr FastLevel kTiles = with_tiles(kVectors);

}  // namespace

const FastLevel* fast_level_avx512() { return &kVectors; }
const FastLevel* fast_level_amx() { return &kTiles; }

}  // namespace anemone
#endif
