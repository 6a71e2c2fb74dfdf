// Weights of four bits, a part of fast_loops-inl.h. A byte has two elements: the low halves of a vector of bytes are
// the even ones, the high halves the odd ones. So a column is kept apart in the same way (FastColumn::split), and
// nothing is moved to its place. From a level it takes, beside the rest:
//     Nibbles{even, odd}, nibbles(bytes)   the halves, for look_up() (bits above may be foreign)
//     load_some(p, count)                  so many bytes, and zeros
//     first_halves(a, b), second_halves()  of every 16 bytes the first eight: those of a, then those of b
//     spread(p, count)                     so many floats (kLanes / 2 at most), each for two lanes, and zeros: those of
//                                          every pair of lanes as first_halves() leaves their blocks
//     spread_four(p, count)                so many floats (kLanes / 4 at most), each for four lanes, and zeros
//     dot_numbers<count>(sum, w, x)        four vectors, or two, of bytes of 0 to 15 by signed ones
//     FAST_WORDS                           defined: tables are multiplied as words (fast_nibble_words-inl.h), else as
//                                          two planes of bytes (fast_nibble_bytes-inl.h)

// Two vectors of weights are one group: a block of 32 elements is 16 bytes, and first_halves() leaves it two lanes. So
// a lane has the sum of 16 elements, and what comes after that sum is rare. What is left at the end of a row and fits
// into one vector is half a group: a block has four lanes.
constexpr int64_t kPairGroup = 4 * kBytes, kPairBytes = 6 * kBytes, kHalfGroup = 2 * kBytes;
inline int64_t pairs_bytes(int64_t k) { return (k + kPairGroup - 1) / kPairGroup * kPairBytes; }
// Numbers of four bits are multiplied as 0 to 15 and this less: a group of a column says how much that is.
constexpr int32_t kNibbleMiddle = 8;

// Vectors of elements, and of a column: four in a group, two in a half. In a column the scale of each lane is behind
// them.
template <int kCount>
struct Some {
  Bytes v[kCount];
};
template <int kCount>
FAST_INLINE Some<kCount> load_vectors(const int8_t* p) {
  Some<kCount> out;
  FAST_UNROLL
  for (int i = 0; i < kCount; ++i) out.v[i] = load_bytes(p + i * kBytes);
  return out;
}
// The codes of a group: even, odd, even, odd. Of a half: even, odd.
template <int kCount>
FAST_INLINE Some<kCount> pair_codes(const Bytes* raw) {
  if constexpr (kCount == 2) {
    const Nibbles a = nibbles(raw[0]);
    return {{a.even, a.odd}};
  } else {
    const Nibbles a = nibbles(first_halves(raw[0], raw[1])), b = nibbles(second_halves(raw[0], raw[1]));
    return {{a.even, a.odd, b.even, b.odd}};
  }
}

struct NumberSource {
  static constexpr int kBits = 4, kEight = kEightNumbers;
  static constexpr bool kBlocks = true, kSplit = true, kTable = false, kHalf = true, kFine = true;
  static constexpr float kShift = -kNibbleMiddle, kCoarseShift = 0;
  static constexpr int64_t kRaw = 2, kGroupBytes = kPairBytes;
  template <int kCount>
  using Piece = Some<kCount>;
  explicit NumberSource(const FastRow& row) : positive_(row.table), coarse_(row.table + 16) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.split; }
  template <int kCount>
  FAST_INLINE Piece<kCount> split(const Bytes* raw) const {
    Piece<kCount> out = pair_codes<kCount>(raw);
    FAST_UNROLL
    for (Bytes& v : out.v) v = positive_.look_up(v);
    return out;
  }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<4>(p)); }
  template <int kCount>
  static FAST_INLINE Ints dot_with(const Piece<kCount>& w, const int8_t* group, const Some<kCount>& x) {
    return dot_numbers<kCount>(load_ints(group + (kCount + 1) * kBytes), w.v, x.v);
  }

 private:
  Table<4> positive_, coarse_;
};

#if defined(FAST_WORDS)
#include "kernels/fast_nibble_words-inl.h"
template <bool kFine>
using NibbleTable = NibbleWords<kFine>;
#else
#include "kernels/fast_nibble_bytes-inl.h"
template <bool kFine>
using NibbleTable = std::conditional_t<kFine, NibblePlanes, CoarseNibblePlane>;
#endif

// A group of R rows, or a half of one. `scale`: those of the weight, by lane.
template <class S, int kCount, int R, int N, bool kScaled>
FAST_INLINE void add_group(const S* s, const Bytes (*raw)[S::kRaw], const Floats* scale, const Columns<N>& x,
                           int64_t at, Floats (*sums)[N]) {
  typename S::template Piece<kCount> w[R];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) w[r] = s[r].template split<kCount>(raw[r]);
  FAST_UNROLL
  for (int n = 0; n < N; ++n) {
    const int8_t* group = x.begin[n] + at;
    Some<kCount> values = load_vectors<kCount>(group);
    FAST_UNROLL
    for (Bytes& v : values.v) v = kept<R>(v);
    const Floats scales = kept<R>(load_floats(group + kCount * kBytes));
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      const Floats d = to_floats(S::template dot_with<kCount>(w[r], group, values));
      if constexpr (kScaled)
        sums[r][n] = multiply_add(multiply(d, scales), scale[r], sums[r][n]);
      else
        sums[r][n] = multiply_add(d, scales, sums[r][n]);
    }
  }
}

// The scales of a group, or a half of one, whose first block is `first`. Each is for `step` blocks. Behind the last one
// they are 0; kWhole: none is.
template <int kCount, bool kWhole>
FAST_INLINE Floats scales_from(const float* scale, int64_t first, int64_t step, int64_t blocks) {
  constexpr int64_t kMost = kCount * kBytes / kFastBlock;
  const int64_t some = kWhole || blocks - first > kMost ? kMost : blocks - first;
  const auto spread_all = [&](const float* p) {
    return kCount == 2 ? spread_four(p, some) : spread(p, some);
  };
  if (step == 1) {
    __builtin_prefetch(scale + first + kAhead / (kFastBlock / 2), 0, 2);  // as far ahead as the elements are
    return spread_all(scale + first);
  }
  float each[kMost] = {};
  for (int64_t i = 0; i < some; ++i) each[i] = scale[(first + i) / step];
  return spread_all(each);
}

// The next bytes of a row, as vectors; behind the last are zeros, which are multiplied with zeros.
template <int64_t kRaw, bool kWhole>
FAST_INLINE void load_raw(const uint8_t* p, int64_t left, Bytes* raw) {
  FAST_UNROLL
  for (int64_t v = 0; v < kRaw; ++v, left -= kBytes)
    raw[v] = kWhole || left >= kBytes ? load_bytes(p + v * kBytes)
                                      : load_some(p + v * kBytes, left > 0 ? left : 0);
}

// The sums of R rows, lane by lane, as add_rows() gives them.
template <class S, int R, int N, bool kScaled>
FAST_INLINE void add_nibble_rows(const FastRow* rows, int64_t k, int64_t block, const Columns<N>& x,
                                 Floats (*out)[N]) {
  constexpr int64_t kStep = S::kRaw * kBytes;
  const Sources<S, R> s(rows);
  const uint8_t* p[R];
  Floats sums[R][N];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) {
    p[r] = reinterpret_cast<const uint8_t*>(rows[r].data);
    FAST_UNROLL
    for (int n = 0; n < N; ++n) sums[r][n] = zero_floats();
  }
  const int64_t step = kScaled ? block / kFastBlock : 1, blocks = k / kFastBlock, bytes = k / 2;
  // A group, or half of one; not whole: the last.
  const auto add = [&](auto vectors, auto whole, int64_t at) {
    constexpr int kCount = decltype(vectors)::value;
    constexpr bool kWhole = decltype(whole)::value;
    Bytes raw[R][S::kRaw];
    Floats scale[R];
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      FAST_UNROLL
      for (int64_t v = 0; v < kStep; v += 64) __builtin_prefetch(p[r] + at + v + kAhead, 0, 2);
      load_raw<kCount == 4 ? S::kRaw : 1, kWhole>(p[r] + at, bytes - at, raw[r]);
      if (kScaled)
        scale[r] = scales_from<kCount, kWhole>(rows[r].block_scale, at / (kFastBlock / 2), step, blocks);
    }
    add_group<S, kCount, R, N, kScaled>(s.each, raw, scale, x, at / kStep * S::kGroupBytes, sums);
  };
  constexpr std::integral_constant<int, 4> kGroup;
  constexpr std::integral_constant<int, 2> kHalf;
  int64_t at = 0;
  for (; at + kStep <= bytes; at += kStep) add(kGroup, std::true_type(), at);
  if constexpr (S::kHalf)
    if (at < bytes && bytes - at <= kBytes) {
      add(kHalf, std::false_type(), at);
      at = bytes;
    }
  if (at < bytes) add(kGroup, std::false_type(), at);
  FAST_UNROLL
  for (int r = 0; r < R; ++r) FAST_UNROLL
  for (int n = 0; n < N; ++n) out[r][n] = sums[r][n];
}

// FastColumn::split from the other parts of a column: for each group the values as pair_codes() leaves the weights, the
// scale of each lane, and what kNibbleMiddle takes from it. Behind that what tables need.
inline int64_t split_bytes(int64_t k) { return pairs_bytes(k) + table_bytes(k); }

// Element 2 * j of byte j of a lane. kCount: of a group, or of a half of one.
template <int kCount>
struct LaneBytes {
  static constexpr int64_t block(int64_t lane) {
    return kCount == 2 ? lane / 4 : lane / 4 + lane % 4 / 2 * (kLanes / 4);
  }
  static constexpr int64_t element(int64_t lane, int64_t half) {
    return kCount == 2 ? lane * 8 : block(lane) * kFastBlock + half * 16 + lane % 2 * 8;
  }
};

template <int kCount>
inline void split_group(const int8_t* values, const float* scales, int64_t some, int8_t* out) {
  using Lane = LaneBytes<kCount>;
  alignas(64) int8_t group[kCount * kBytes] = {};
  alignas(64) float scale[kLanes] = {};
  alignas(64) int32_t less[kLanes];
  __builtin_memcpy(group, values, static_cast<size_t>(some));
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    if (Lane::block(lane) < some / kFastBlock) scale[lane] = scales[Lane::block(lane) * (kFastBlock / 4)];
    int32_t sum = 0;
    for (int64_t half = 0; half < kCount / 2; ++half) {
      const int8_t* from = group + Lane::element(lane, half);
      int8_t* to = out + half * 2 * kBytes + lane * 4;
      for (int64_t j = 0; j < 4; ++j) {
        to[j] = from[2 * j];
        to[kBytes + j] = from[2 * j + 1];
        sum += from[2 * j] + from[2 * j + 1];
      }
    }
    less[lane] = -kNibbleMiddle * sum;
  }
  __builtin_memcpy(out + kCount * kBytes, scale, sizeof scale);
  __builtin_memcpy(out + (kCount + 1) * kBytes, less, sizeof less);
}

inline void split_column(const int8_t* values, const float* scales, int64_t k, int8_t* out) {
  split_for_tables(values, scales, k, out + pairs_bytes(k));
  const int64_t padded = fast_padded(k);
  for (int64_t i = 0; i < k; i += kPairGroup, out += kPairBytes) {
    const int64_t some = padded - i < kPairGroup ? padded - i : kPairGroup;
    if (k - i <= kHalfGroup)
      split_group<2>(values + i, scales + i / 4, some, out);
    else
      split_group<4>(values + i, scales + i / 4, some, out);
  }
}
