// Vectors of weights of 1 to 8 bits that stand for the values of a table, for use inside other kernels; included
// once per SIMD target.
#if defined(ANEMONE_KERNELS_PACKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANEMONE_KERNELS_PACKED_INL_H_
#undef ANEMONE_KERNELS_PACKED_INL_H_
#else
#define ANEMONE_KERNELS_PACKED_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A value of a table that lies in 2^kLog registers. The index may have more bits than that: only so many count.
template <int kLog, class D>
HWY_INLINE hn::Vec<D> look_up(D d, const hn::Vec<D>* table, hn::Vec<hn::RebindToUnsigned<D>> index) {
  const hn::RebindToUnsigned<D> du;
  constexpr uint32_t kLanes = hn::MaxLanes(D());
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (kLog == 1) return hn::Vec<D>{_mm512_permutex2var_ps(table[0].raw, index.raw, table[1].raw)};
#endif
  if constexpr (kLog == 0) {
    const hn::RebindToSigned<D> di;
    const auto lane = hn::BitCast(di, hn::And(index, hn::Set(du, kLanes - 1)));
    return hn::TableLookupLanes(table[0], hn::IndicesFromVec(d, lane));
  } else {
    constexpr uint32_t kHalf = kLanes << (kLog - 1);
    const auto low = look_up<kLog - 1>(d, table, index);
    const auto high = look_up<kLog - 1>(d, table + (1 << (kLog - 1)), index);
    return hn::IfThenElse(hn::RebindMask(d, hn::TestBit(index, hn::Set(du, kHalf))), high, low);
  }
}

// Where the elements of a vector lie among 16 bytes: for each, its byte and the next one as what
// TableLookupBytes takes, and how far it is to be shifted then.
template <int kBits, uint32_t kLanes>
struct PackedLanes {
  alignas(64) uint32_t bytes[kLanes] = {}, shift[kLanes] = {};
  constexpr PackedLanes() {
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t bit = i * kBits, byte = bit / 8;
      bytes[i] = byte | (byte < 15 ? byte + 1 : byte) << 8 | byte << 16 | byte << 24;
      shift[i] = bit % 8;
    }
  }
};

// A row of packed elements, element 0 in the lowest bits of its first byte. A vector of them is loaded with 16
// bytes, of which it needs fewer: what lies behind must be readable.
template <int kBits>
class TableWeights {
 public:
  using D = hn::ScalableTag<float>;
  static constexpr int64_t kBitsEach = kBits, kLoads = 16;  // bytes

  TableWeights(const uint8_t* row, const float* table) : row_(row), table_(table) {
    const D d;
    if constexpr (kTables > 0 && kEntries >= kLanes) {
      for (uint32_t i = 0; i < kTables; ++i) registers_[i] = hn::LoadU(d, table + i * kLanes);
    } else if constexpr (kTables > 0) {
      HWY_ALIGN float repeated[kLanes];
      for (uint32_t i = 0; i < kLanes; ++i) repeated[i] = table[i % kEntries];
      registers_[0] = hn::Load(d, repeated);
    }
  }

  // The elements from i on, a multiple of the lanes.
  HWY_INLINE hn::Vec<D> load(D d, int64_t i) const {
    if constexpr (kLanes < 4 || kLanes > 16) {
      HWY_ALIGN float values[kLanes];
      for (uint32_t lane = 0; lane < kLanes; ++lane) values[lane] = one(i + lane);
      return hn::Load(d, values);
    } else {
      static constexpr PackedLanes<kBits, kLanes> kPlaces;
      const hn::RebindToUnsigned<D> du;
      const hn::Repartition<uint8_t, D> d8;
      const auto bytes = hn::LoadDup128(d8, row_ + i * kBits / 8);
      const auto places = hn::BitCast(d8, hn::Load(du, kPlaces.bytes));
      auto shift = hn::Load(du, kPlaces.shift);
      if constexpr (kLanes * kBits % 8 != 0)
        shift = hn::Add(shift, hn::Set(du, static_cast<uint32_t>(i * kBits % 8)));
      const auto index = hn::Shr(hn::BitCast(du, hn::TableLookupBytes(bytes, places)), shift);
      if constexpr (kTables > 0) {
        return look_up<kLog>(d, registers_, index);
      } else {
        const hn::RebindToSigned<D> di;
        return hn::GatherIndex(d, table_, hn::BitCast(di, hn::And(index, hn::Set(du, kEntries - 1))));
      }
    }
  }

  HWY_INLINE float one(int64_t i) const {
    const int64_t bit = i * kBits;
    const int shift = static_cast<int>(bit & 7);
    uint32_t word = row_[bit >> 3];
    if (shift + kBits > 8) word |= uint32_t{row_[(bit >> 3) + 1]} << 8;
    return table_[word >> shift & (kEntries - 1)];
  }

 private:
  // The table lies in so many registers; 0: more than there are, and it is looked up in memory.
  static constexpr uint32_t kLanes = hn::MaxLanes(D()), kEntries = 1u << kBits;
  static constexpr uint32_t kNeeded = kEntries <= kLanes ? 1 : kEntries / kLanes;
  static constexpr uint32_t kMost = kLanes == 16 ? 16 : 8;
  static constexpr uint32_t kTables = kNeeded <= kMost ? kNeeded : 0;
  static constexpr int kLog = kTables <= 1 ? 0 : kTables == 2 ? 1 : kTables == 4 ? 2 : kTables == 8 ? 3 : 4;

  const uint8_t* row_;
  const float* table_;
  hn::Vec<D> registers_[kTables > 0 ? kTables : 1];
};

}  // namespace HWY_NAMESPACE
}  // namespace anemone
HWY_AFTER_NAMESPACE();

#endif
