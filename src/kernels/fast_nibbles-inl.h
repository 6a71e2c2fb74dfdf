// Weights of four bits, a part of fast_loops-inl.h. A byte has two elements: the low halves of a vector of bytes are
// the even ones, the high halves the odd ones. So a column is kept apart in the same way (FastColumn::split), and
// nothing is moved to its place. From a level it takes, beside the rest:
//     Nibbles{even, odd}, nibbles(bytes)   the halves, for look_up() (bits above may be foreign)
//     load_some(p, count)                  so many bytes, and zeros
//     first_halves(a, b), second_halves()  of every 16 bytes the first eight: those of a, then those of b
//     spread(p, count)                     so many floats (kLanes / 2 at most), each for two lanes, and zeros: those of
//                                          every pair of lanes as first_halves() leaves their blocks
//     dot_numbers(sum, w, x)               four vectors of bytes of 0 to 15 by signed ones
//     FAST_WORDS                           defined: tables are multiplied as words (fast_nibble_words-inl.h), else as
//                                          two planes of bytes (fast_nibble_bytes-inl.h)

// Two vectors of weights are one group: a block of 32 elements is 16 bytes, and first_halves() leaves it two lanes. So
// a lane has the sum of 16 elements, and what comes after that sum is rare.
constexpr int64_t kPairGroup = 4 * kBytes, kPairBytes = 6 * kBytes;
// Numbers of four bits are multiplied as 0 to 15 and this less: a group of a column says how much that is.
constexpr int32_t kNibbleMiddle = 8;

// Four vectors of elements, and of a column.
struct Quad {
  Bytes v[4];
};
FAST_INLINE Quad load_quad(const int8_t* p) {
  return {{load_bytes(p), load_bytes(p + kBytes), load_bytes(p + 2 * kBytes), load_bytes(p + 3 * kBytes)}};
}
// The codes of a group: even, odd, even, odd.
FAST_INLINE Quad pair_codes(const Bytes* raw) {
  const Nibbles a = nibbles(first_halves(raw[0], raw[1])), b = nibbles(second_halves(raw[0], raw[1]));
  return {{a.even, a.odd, b.even, b.odd}};
}

struct NumberSource {
  static constexpr int kBits = 4, kEight = kManyRegisters ? 7 : 9;
  static constexpr bool kBlocks = true, kSplit = true, kTable = false;
  static constexpr float kShift = -kNibbleMiddle, kCoarseShift = 0;
  static constexpr int64_t kRaw = 2, kGroupBytes = kPairBytes, kScalesAt = 4 * kBytes;
  using Piece = Quad;
  explicit NumberSource(const FastRow& row) : positive_(row.table), coarse_(row.table + 16) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.split; }
  FAST_INLINE Piece split(const Bytes* raw) const {
    const Quad c = pair_codes(raw);
    return {{positive_.look_up(c.v[0]), positive_.look_up(c.v[1]), positive_.look_up(c.v[2]),
             positive_.look_up(c.v[3])}};
  }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<4>(p)); }
  static FAST_INLINE Ints dot_with(const Piece& w, const int8_t* group, const Quad& x) {
    return dot_numbers(load_ints(group + 5 * kBytes), w.v, x.v);
  }

 private:
  Table<4> positive_, coarse_;
};

#if defined(FAST_WORDS)
#include "kernels/fast_nibble_words-inl.h"
using NibbleTable = NibbleWords;
#else
#include "kernels/fast_nibble_bytes-inl.h"
using NibbleTable = NibblePlanes;
#endif

// A group of R rows. `scale`: those of the weight, by lane.
template <class S, int R, int N, bool kScaled>
FAST_INLINE void add_group(const S* s, const Bytes (*raw)[S::kRaw], const Floats* scale, const Columns<N>& x,
                           int64_t at, Floats (*sums)[N]) {
  typename S::Piece w[R];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) w[r] = s[r].split(raw[r]);
  FAST_UNROLL
  for (int n = 0; n < N; ++n) {
    const int8_t* group = x.begin[n] + at;
    Quad values = load_quad(group);
    FAST_UNROLL
    for (Bytes& v : values.v) v = kept<R>(v);
    const Floats scales = kept<R>(load_floats(group + S::kScalesAt));
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      const Floats d = to_floats(S::dot_with(w[r], group, values));
      if constexpr (kScaled)
        sums[r][n] = multiply_add(multiply(d, scales), scale[r], sums[r][n]);
      else
        sums[r][n] = multiply_add(d, scales, sums[r][n]);
    }
  }
}

// The scales of a group whose first block is `first`. Each is for `step` blocks. Behind the last one they are 0.
FAST_INLINE Floats scales_from(const float* scale, int64_t first, int64_t step, int64_t blocks) {
  constexpr int64_t kMost = kPairGroup / kFastBlock;
  const int64_t some = blocks - first < kMost ? blocks - first : kMost;
  if (step == 1) {
    __builtin_prefetch(scale + first + kAhead / (kFastBlock / 2), 0, 2);  // as far ahead as the elements are
    return spread(scale + first, some);
  }
  float each[kMost];
  for (int64_t i = 0; i < some; ++i) each[i] = scale[(first + i) / step];
  return spread(each, some);
}

// The next bytes of a row, as vectors; behind the last are zeros, which are multiplied with zeros.
template <int64_t kRaw>
FAST_INLINE void load_raw(const uint8_t* p, int64_t left, Bytes* raw) {
  FAST_UNROLL
  for (int64_t v = 0; v < kRaw; ++v, left -= kBytes)
    raw[v] = left >= kBytes ? load_bytes(p + v * kBytes) : load_some(p + v * kBytes, left > 0 ? left : 0);
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
  const auto add = [&](int64_t at, int64_t left) {
    Bytes raw[R][S::kRaw];
    Floats scale[R];
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      FAST_UNROLL
      for (int64_t v = 0; v < kStep; v += 64) __builtin_prefetch(p[r] + at + v + kAhead, 0, 2);
      load_raw<S::kRaw>(p[r] + at, left, raw[r]);
      if (kScaled) scale[r] = scales_from(rows[r].block_scale, at / (kFastBlock / 2), step, blocks);
    }
    add_group<S, R, N, kScaled>(s.each, raw, scale, x, at / kStep * S::kGroupBytes, sums);
  };
  int64_t at = 0;
  for (; at + kStep <= bytes; at += kStep) add(at, kStep);
  if (at < bytes) add(at, bytes - at);
  FAST_UNROLL
  for (int r = 0; r < R; ++r) FAST_UNROLL
  for (int n = 0; n < N; ++n) out[r][n] = sums[r][n];
}

// FastColumn::split from the other parts of a column: for each group the values as pair_codes() leaves the weights, the
// scale of each lane, and what kNibbleMiddle takes from it. Behind that what tables need.
inline int64_t pairs_bytes(int64_t k) { return (k + kPairGroup - 1) / kPairGroup * kPairBytes; }
inline int64_t split_bytes(int64_t k) { return pairs_bytes(k) + table_bytes(k); }

inline void split_column(const int8_t* values, const float* scales, int64_t k, int8_t* out) {
  split_for_tables(values, scales, k, out + pairs_bytes(k));
  const int64_t padded = fast_padded(k);
  for (int64_t i = 0; i < k; i += kPairGroup, out += kPairBytes) {
    alignas(64) int8_t group[kPairGroup] = {};
    alignas(64) float scale[kLanes] = {};
    alignas(64) int32_t less[kLanes];
    const int64_t some = padded - i < kPairGroup ? padded - i : kPairGroup;
    __builtin_memcpy(group, values + i, static_cast<size_t>(some));
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t block = lane / 4 + lane % 4 / 2 * (kLanes / 4);
      if (block < some / kFastBlock) scale[lane] = scales[i / 4 + block * (kFastBlock / 4)];
      int32_t sum = 0;
      for (int64_t half = 0; half < 2; ++half) {
        const int8_t* from = group + block * kFastBlock + half * 16 + lane % 2 * 8;
        int8_t* to = out + half * 2 * kBytes + lane * 4;
        for (int64_t j = 0; j < 4; ++j) {
          to[j] = from[2 * j];
          to[kBytes + j] = from[2 * j + 1];
          sum += from[2 * j] + from[2 * j + 1];
        }
      }
      less[lane] = -kNibbleMiddle * sum;
    }
    __builtin_memcpy(out + 4 * kBytes, scale, sizeof scale);
    __builtin_memcpy(out + 5 * kBytes, less, sizeof less);
  }
}
