// The loops of fast.h, written once for all levels. Each fast_<level>.cpp includes this inside a namespace of its own,
// behind what it defines:
//     kLanes, Bytes (4 * kLanes of them), Ints, Floats and the operations on them; kSignedShift
//     load_some_floats(p, n)    so many, up to kLanes, and zeros
//     codes<bits>(p)            as many elements as Bytes has, each in a byte (bits above may be foreign for tables)
//     Table<bits>(plane)        its look_up(codes)
//     Signed, as_signed(bytes), dot(sum, Signed, x): signed by signed bytes, plus kSignedShift for each byte of x
//     SignedTable<bits>(plane)  its look_up(codes): Signed; FAST_SIGNED_TABLE says that the level has its own
//     dot(sum, bytes, x)        bytes below 128 by signed ones; every 32-bit sum takes four neighbors
//     dot_planes(high, low, x)  128 times the one plus the other
//     kValueBytes               of a value of a row and of a column in products of many columns: bytes, or words
//     store_coarse(bytes, p)    signed bytes as these products take them; store_fine(high, low, p, q): 14 bits, as one
//                               word at p, or as two planes at p and q
//     Four, four_bytes(p)       so many bytes of such a row for all lanes; dot_four(sum, Four, x) has kProductShift
//                               too much for each value of x; dot_four_small(): for bytes below 128 as they are
//     kMostRows, kPanels        rows and panels whose sums fit into the registers
//     keep_in_register(v)       of Bytes and Floats: to be loaded once
//     kEightNumbers, kEightWords  with so many columns or more, 4-bit numbers and tables as words go as eight (kEight)
//     kSharedRows               rows that are multiplied side by side with up to 8 columns

#if defined(FAST_UNROLL)  // the level has its own
#elif defined(__clang__)
#define FAST_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FAST_UNROLL _Pragma("GCC unroll 8")
#endif

// Loops of a few steps that become vectors, if they are not unrolled first.
#if defined(__clang__)
#define FAST_VECTORIZE _Pragma("clang loop vectorize(enable)")
#else
#define FAST_VECTORIZE _Pragma("GCC unroll 1")
#endif

constexpr int64_t kBytes = 4 * kLanes, kVectors = kFastStep / kBytes;
constexpr int64_t kAhead =
    8192;  // weights are asked for so many bytes before their use, for the second cache
constexpr int64_t kPanelBlock = fast_block_bytes(kLanes, kValueBytes);

// ---- Weights: a source gives a vector of elements as what dot_with() multiplies. kShift is what its sums have too
// ---- much for each value of x; coarse() gives the elements as signed bytes, and kCoarseShift is the same for them.
// ---- kBlocks: there are weights of it with a scale for every few columns. kEight: so many columns or more go as
// ---- eight, where unpacking costs more than registers. values(): where its columns lie; kSplit: in FastColumn::split
// ---- (fast_nibbles-inl.h). fine() of tables gives all their 14 bits. kFine: load() takes those, or what a row has
// ---- without a choice; else the coarse 8.

#if !defined(FAST_SIGNED_TABLE)
template <int kBits>
class SignedTable {
 public:
  explicit SignedTable(const std::byte* plane) : table_(plane) {}
  FAST_INLINE Signed look_up(const Bytes& code) const { return as_signed(table_.look_up(code)); }

 private:
  Table<kBits> table_;
};
#endif

// Elements of 14 bits: 128 times the one plus the other.
struct Planes {
  Bytes high, low;
};

template <bool kUnsigned>
struct ByteSource {
  static constexpr int kBits = 8, kEight = 9;
  static constexpr bool kBlocks = true, kSplit = false, kTable = false, kFine = true;
  static constexpr float kCoarseShift = kUnsigned ? -128.0f : 0.0f, kShift = kSignedShift + kCoarseShift;
  using Piece = Signed;
  explicit ByteSource(const FastRow&) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.values; }
  Piece load(const uint8_t* p) const { return as_signed(coarse(p)); }
  Bytes coarse(const uint8_t* p) const { return kUnsigned ? flip(load_bytes(p)) : load_bytes(p); }
  static Ints dot_with(const Piece& w, Bytes x) { return dot(zero_ints(), w, x); }
};

template <int kWidth>
struct TableSource {
  static constexpr int kBits = kWidth, kEight = kWidth == 8 ? 5 : 9;
  static constexpr bool kBlocks = false, kSplit = false, kTable = true, kFine = true;
  static constexpr float kShift = 0, kCoarseShift = 0;
  using Piece = Planes;
  explicit TableSource(const FastRow& row)
      : high_(row.table), low_(row.table + kEntries), coarse_(row.table + 2 * kEntries) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.values; }
  Piece load(const uint8_t* p) const {
    const Bytes c = codes<kBits>(p);
    return {high_.look_up(c), low_.look_up(c)};
  }
  Planes fine(const uint8_t* p) const { return load(p); }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<kBits>(p)); }
  static Ints dot_with(const Planes& w, Bytes x) { return dot_planes(w.high, w.low, x); }

 private:
  static constexpr int64_t kEntries = kBits <= 4 ? 16 : 1 << kBits;
  Table<kBits> high_, low_, coarse_;
};

template <int kWidth>
struct CoarseTableSource {
  static constexpr int kBits = kWidth, kEight = kWidth == 8 ? 5 : 9;
  static constexpr bool kBlocks = false, kSplit = false, kFine = false;
  static constexpr float kShift = kSignedShift;
  using Piece = Signed;
  explicit CoarseTableSource(const FastRow& row) : table_(row.table + 2 * (kBits <= 4 ? 16 : 1 << kBits)) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.values; }
  Piece load(const uint8_t* p) const { return table_.look_up(codes<kBits>(p)); }
  static Ints dot_with(const Piece& w, Bytes x) { return dot(zero_ints(), w, x); }

 private:
  SignedTable<kBits> table_;
};

// ---- R rows against N columns ----
// Every column is summed in the same order, whatever R and N are: its bits do not depend on what is beside it.

// Rows that share the loads of columns; a column alone is loaded from the nearest cache, and its rows follow each other
// as one stream.
template <class S, int N>
constexpr int kTileRows = N == 1 || (N == 8 && S::kSplit) ? 1 : kSharedRows;

// The columns as the loops take them. Scales lie behind the values and advance as they do, so a column is one pointer.
template <int N>
struct Columns {
  template <class S>
  Columns(const S*, const FastColumn* x, int64_t k) : behind(fast_padded(k)) {
    for (int64_t n = 0; n < N; ++n) {
      begin[n] = S::values(x[n], k);
      total[n] = *x[n].total;
    }
  }
  FAST_INLINE Bytes values(int n, int64_t i) const { return load_bytes(begin[n] + i); }
  FAST_INLINE Floats scales(int n, int64_t i) const { return load_floats(begin[n] + behind + i); }
  const int8_t* begin[N];
  float total[N];
  const int64_t behind;
};

// A value that R rows use: in a register, else the compiler loads it again for each.
template <int R, class V>
FAST_INLINE V kept(V v) {
  if constexpr (R > 1) keep_in_register(v);
  return v;
}

// The elements [at, at + kFastStep) of R rows, at p[r].
template <class S, int R, int N>
FAST_INLINE void add_step(const S* s, const uint8_t* const* p, int64_t at, const Columns<N>& x,
                          Floats (*sums)[N]) {
  FAST_UNROLL
  for (int64_t v = 0; v < kVectors; ++v) {
    typename S::Piece w[R];
    FAST_UNROLL
    for (int r = 0; r < R; ++r) w[r] = s[r].load(p[r] + v * kBytes * S::kBits / 8);
    const int64_t i = at + v * kBytes;
    FAST_UNROLL
    for (int n = 0; n < N; ++n) {
      const Bytes values = kept<R>(x.values(n, i));
      const Floats scales = kept<R>(x.scales(n, i));
      FAST_UNROLL
      for (int r = 0; r < R; ++r)
        sums[r][n] = multiply_add(to_floats(S::dot_with(w[r], values)), scales, sums[r][n]);
    }
  }
}

// The same with scales of the weight: a0[r] for the first half of the elements, a1[r] for the second.
template <class S, int R, int N>
FAST_INLINE void add_scaled_step(const S* s, const uint8_t* const* p, int64_t at, const float* a0,
                                 const float* a1, const Columns<N>& x, Floats (*sums)[N]) {
  static_assert(kVectors <= 2);
  FAST_UNROLL
  for (int64_t v = 0; v < kVectors; ++v) {
    typename S::Piece w[R];
    Floats scale[R];
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      w[r] = s[r].load(p[r] + v * kBytes * S::kBits / 8);
      scale[r] = kVectors == 1 ? two_halves(a0[r], a1[r]) : all_floats(v == 0 ? a0[r] : a1[r]);
    }
    const int64_t i = at + v * kBytes;
    FAST_UNROLL
    for (int n = 0; n < N; ++n) {
      const Bytes values = kept<R>(x.values(n, i));
      const Floats scales = kept<R>(x.scales(n, i));
      FAST_UNROLL
      for (int r = 0; r < R; ++r) {
        const Floats d = to_floats(S::dot_with(w[r], values));
        sums[r][n] = multiply_add(multiply(d, scales), scale[r], sums[r][n]);
      }
    }
  }
}

// The last elements of a row, in memory that may be read to the end of the step.
template <int kBits>
FAST_INLINE const uint8_t* whole_step(const uint8_t* p, int64_t elements, uint8_t* room) {
  __builtin_memset(room, 0, kFastStep);
  __builtin_memcpy(room, p, static_cast<size_t>(elements * kBits / 8));
  return room;
}

// R sources: they keep their tables in registers.
template <class S, int R>
struct Sources {
  FAST_INLINE explicit Sources(const FastRow* rows) : Sources(rows, std::make_integer_sequence<int, R>()) {}
  S each[R];

 private:
  template <int... I>
  FAST_INLINE Sources(const FastRow* rows, std::integer_sequence<int, I...>) : each{S(rows[I])...} {}
};

// The sums of R rows, lane by lane. `block`: 0, or the columns of the weight that share a scale.
template <class S, int R, int N, bool kScaled>
FAST_INLINE void add_rows(const FastRow* rows, int64_t k, int64_t block, const Columns<N>& x,
                          Floats (*out)[N]) {
  const Sources<S, R> s(rows);
  const uint8_t* p[R];
  Floats sums[R][N];  // of their own: what `out` points to could be anything
  FAST_UNROLL
  for (int r = 0; r < R; ++r) {
    p[r] = reinterpret_cast<const uint8_t*>(rows[r].data);
    FAST_UNROLL
    for (int n = 0; n < N; ++n) sums[r][n] = zero_floats();
  }
  const float* scale[R];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) scale[r] = rows[r].block_scale;
  const auto step = static_cast<uint32_t>(kScaled ? block / kFastBlock : 1);
  uint32_t j = 0;  // of kFastBlock columns
  int64_t i = 0;
  for (; i + kFastStep <= k; i += kFastStep, j += 2) {
    FAST_UNROLL
    for (int r = 0; r < R; ++r) __builtin_prefetch(p[r] + kAhead, 0, 2);
    if constexpr (kScaled) {
      float a0[R], a1[R];
      FAST_UNROLL
      for (int r = 0; r < R; ++r) {
        a0[r] = step == 1 ? scale[r][j] : scale[r][j / step];
        a1[r] = step == 1 ? scale[r][j + 1] : scale[r][(j + 1) / step];
      }
      add_scaled_step<S, R, N>(s.each, p, i, a0, a1, x, sums);
    } else {
      add_step<S, R, N>(s.each, p, i, x, sums);
    }
    FAST_UNROLL
    for (int r = 0; r < R; ++r) p[r] += kFastStep * S::kBits / 8;
  }
  if (i < k) {                        // one block more; what is behind it is multiplied with zeros
    const Sources<S, R> again(rows);  // so that those of the loop stay in registers
    alignas(64) uint8_t room[R][kFastStep];
    const uint8_t* last[R];
    float a[R];
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      last[r] = whole_step<S::kBits>(p[r], k - i, room[r]);
      a[r] = kScaled ? scale[r][j / step] : 0.0f;
    }
    if constexpr (kScaled)
      add_scaled_step<S, R, N>(again.each, last, i, a, a, x, sums);
    else
      add_step<S, R, N>(again.each, last, i, x, sums);
  }
  FAST_UNROLL
  for (int r = 0; r < R; ++r) FAST_UNROLL
  for (int n = 0; n < N; ++n) out[r][n] = sums[r][n];
}

#include "kernels/fast_nibbles-inl.h"

// For C columns, up to four: the sum over the blocks of scale * offset * sum of x, which the sums of a row have too
// much.
template <int C>
FAST_INLINE void block_offsets(const FastRow& row, int64_t blocks, int64_t step, float shift,
                               const FastColumn* x, float* out) {
  static_assert(C <= 4);
  const float* s = row.block_scale;
  const float* z = row.block_offset;
  Floats sums[4] = {zero_floats(), zero_floats(), zero_floats(), zero_floats()};
  int64_t b = 0;
  for (; step == 1 && b < blocks; b += kLanes) {
    const int64_t some = blocks - b < kLanes ? blocks - b : kLanes;
    const Floats middle = all_floats(shift);
    const Floats offset = z ? add(load_some_floats(z + b, some), middle) : middle;
    const Floats factor = multiply(load_some_floats(s + b, some), offset);  // 0 behind the last
    FAST_UNROLL
    for (int c = 0; c < C; ++c)
      sums[c] = multiply_add(factor, load_some_floats(x[c].sums + b, some), sums[c]);
  }
  float totals[4];
  store_four_sums(sums, totals);
  for (; b < blocks; ++b) {
    const float factor = s[b] * (shift + (z ? z[b] : 0.0f));
    FAST_UNROLL
    for (int c = 0; c < C; ++c) {
      float sum = 0;
      for (int64_t j = 0; j < step; ++j) sum += x[c].sums[b * step + j];
      totals[c] += factor * sum;
    }
  }
  FAST_UNROLL
  for (int c = 0; c < C; ++c) out[c] = totals[c];
}

// The results of a row from the sums of its lanes, into out[c][at].
template <class S, int N, bool kScaled>
FAST_INLINE void finish_row(const FastRow& row, const float* totals, int64_t k, int64_t block,
                            const FastColumn* x, const Columns<N>& all, int64_t columns, float* const* out,
                            int64_t at) {
  const float shift = (S::kFine ? row.offset : row.coarse_offset) + S::kShift;
  float results[N];
  if constexpr (kScaled) {
    float less[N] = {};
    if (shift != 0 || row.block_offset)
      for (int64_t c = 0; c < N; c += 4)
        block_offsets<(N < 4 ? N : 4)>(row, k / block, block / kFastBlock, shift, x + c, less + c);
    for (int64_t c = 0; c < N; ++c) results[c] = totals[c] - less[c];
  } else {
    const float scale = S::kFine ? row.scale : row.coarse_scale;
    for (int64_t c = 0; c < N; ++c) results[c] = scale * (totals[c] - shift * all.total[c]);
  }
  for (int64_t c = 0; c < columns; ++c) out[c][at] = results[c];
}

// N columns, of which the last may be there several times: `real` are not.
template <class S, int N, bool kScaled>
FAST_INLINE void multiply_tile(int64_t block, const FastRow* rows, int64_t count, int64_t k,
                               const FastColumn* x, int64_t real, float* const* out, int64_t at) {
  const Columns<N> columns(static_cast<const S*>(nullptr), x, k);
  constexpr int R = kTileRows<S, N>, kTiles = kTileRows<S, N> == 1 ? 4 : 1,
                kSums = (kTiles * R * N + 3) / 4 * 4;
  Floats sums[kSums];
  float totals[kSums];
  for (int q = 0; q < kSums; ++q) sums[q] = zero_floats();
  FastRow tile[R];  // rows that are not there repeat the last
  for (int64_t j = 0; j < count; j += R) {
    const FastRow* from = rows + j;
    if (R > 1 && j + R > count) {
      for (int64_t q = 0; q < R; ++q) tile[q] = rows[j + q < count ? j + q : count - 1];
      from = tile;
    }
    auto* to = reinterpret_cast<Floats(*)[N]>(sums + j * N);
    if constexpr (S::kSplit)
      add_nibble_rows<S, R, N, kScaled>(from, k, block, columns, to);
    else
      add_rows<S, R, N, kScaled>(from, k, block, columns, to);
  }
  for (int q = 0; q < kSums; q += 4) store_four_sums(sums + q, totals + q);
  for (int64_t j = 0; j < count; ++j)
    finish_row<S, N, kScaled>(rows[j], totals + j * N, k, block, x, columns, real, out, at + j);
}

// What a column takes of the nearest cache, and how much of that all columns may have.
constexpr int64_t kNearBytes = 32 << 10;
template <class S>
constexpr int64_t column_bytes(int64_t k) {
  if constexpr (S::kSplit) return k / (2 * S::kRaw * kBytes) * S::kGroupBytes;
  return 2 * k;
}

// Up to four columns at a time (or eight: kEight): more would not leave registers for two rows. A few rows go through
// all columns while they are in the nearest cache. Where the columns are too long for that, all rows go through some.
template <class S, int N, bool kScaled>
void multiply_rows(int64_t block, const FastRow* rows, int64_t count, int64_t k, const FastColumn* x,
                   int64_t x_count, float* const* out) {
  constexpr int64_t kRows = kTileRows<S, N> == 1 ? 4 : kTileRows<S, N>;
  FastColumn columns[2 * N];  // those that are not there repeat the last
  for (int64_t c = 0; c < 2 * N; ++c) columns[c] = x[c < x_count ? c : x_count - 1];
  const int64_t step = x_count * column_bytes<S>(k) <= kNearBytes ? kRows : count;
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t end = count - begin < step ? count : begin + step;
    for (int64_t c = 0; c < x_count; c += N)
      for (int64_t r = begin; r < end; r += kRows)
        multiply_tile<S, N, kScaled>(block, rows + r, end - r < kRows ? end - r : kRows, k, columns + c,
                                     x_count - c < N ? x_count - c : N, out + c, r);
  }
}

template <class S>
void matvec_of(int64_t block, const FastRow* rows, int64_t count, int64_t k, const FastColumn* x,
               int64_t x_count, float* const* out) {
  const auto run = [&](auto number) {
    constexpr int kN = decltype(number)::value;
    if constexpr (S::kBlocks)
      if (block > 0) return multiply_rows<S, kN, true>(block, rows, count, k, x, x_count, out);
    multiply_rows<S, kN, false>(block, rows, count, k, x, x_count, out);
  };
  if (x_count <= 1) return run(std::integral_constant<int, 1>());
  if (x_count <= 2) return run(std::integral_constant<int, 2>());
  if constexpr (S::kEight < 9)
    if (x_count >= S::kEight && x_count * column_bytes<S>(k) <= kNearBytes)
      return run(std::integral_constant<int, 8>());
  if (x_count == 3 || (x_count > 4 && x_count <= 6)) return run(std::integral_constant<int, 3>());
  run(std::integral_constant<int, 4>());
}

#include "kernels/fast_panels-inl.h"

// ---- Activations ----

// 127 / most, and most / 127; for a block that is not finite 0 and NaN, so that what it goes into is NaN.
inline float steps_of(float most, float* scale) {
  const bool finite = most <= 3.4028234e38f;
  *scale = finite ? most / 127.0f : __builtin_nanf("");
  return finite && most > 1e-36f ? 127.0f / most : 0.0f;
}

// A whole number, as the bits of an int32_t; `v` is small.
inline uint32_t nearest_bits(float v) {
  const float q = v + 12582912.0f;  // rounds to nearest
  uint32_t bits;
  __builtin_memcpy(&bits, &q, 4);
  return bits - 0x4b400000u;
}

inline void quantize_column(const float* x, int64_t k, int8_t* values, float* scales, float* sums,
                            float* total, int8_t* split) {
  float all = 0;
  alignas(64) float edge[kFastBlock] = {};  // the last block, where it is not whole
  const int64_t padded = fast_padded(k);
  for (int64_t b = 0; b < padded; b += kFastBlock) {
    const int64_t some = k - b;
    const float* block = some > 0 ? x + b : edge;
    if (some > 0 && some < kFastBlock) {
      __builtin_memcpy(edge, block, static_cast<size_t>(some) * sizeof(float));
      block = edge;
    } else if (some <= 0) {
      __builtin_memset(edge, 0, sizeof edge);
    }
    uint32_t most = 0;  // magnitudes order as their bits do
    FAST_VECTORIZE
    for (int i = 0; i < kFastBlock; ++i) {
      uint32_t bits;
      __builtin_memcpy(&bits, block + i, 4);
      bits &= 0x7fffffffu;
      most = bits > most ? bits : most;
    }
    float largest, scale;
    __builtin_memcpy(&largest, &most, 4);
    const float inverse = steps_of(largest, &scale);
    const uint32_t keep = inverse == 0 ? 0 : ~0u;
    int32_t sum = 0;
    FAST_VECTORIZE
    for (int i = 0; i < kFastBlock; ++i) {
      const uint32_t value = nearest_bits(block[i] * inverse) & keep;
      values[b + i] = static_cast<int8_t>(value & 0xffu);
      sum += static_cast<int32_t>(value);
    }
    for (int i = 0; i < kFastBlock / 4; ++i) scales[b / 4 + i] = scale;
    sums[b / kFastBlock] = scale * static_cast<float>(sum);
    all += sums[b / kFastBlock];
  }
  *total = all;
  if (split) split_column(values, scales, k, split);
}

// The scale of each column of a block, and what its values are multiplied with; `keep` is 0 for those that become 0.
struct PanelSteps {
  alignas(64) float scale[kLanes], inverse[kLanes];
  alignas(64) uint32_t keep[kLanes];

  explicit PanelSteps(const float (*rows)[kLanes]) {
    alignas(64) uint32_t most[kLanes] = {};
    for (int i = 0; i < kFastBlock; ++i) FAST_VECTORIZE
    for (int c = 0; c < kLanes; ++c) {
      uint32_t bits;
      __builtin_memcpy(&bits, &rows[i][c], 4);
      bits &= 0x7fffffffu;
      most[c] = bits > most[c] ? bits : most[c];
    }
    for (int c = 0; c < kLanes; ++c) {
      float largest;
      __builtin_memcpy(&largest, &most[c], 4);
      inverse[c] = steps_of(largest, &scale[c]);
      keep[c] = inverse[c] == 0 ? 0 : ~0u;
    }
  }
};

// A block as whole numbers, those of a lane side by side; and their sums.
inline void pack_block(const float (*rows)[kLanes], const PanelSteps& steps, uint8_t* out, int32_t* sum) {
  constexpr int kTogether = 4 / kValueBytes;  // of a lane
  for (int i = 0; i < kFastBlock; i += kTogether) {
    alignas(64) uint32_t words[kLanes] = {};
    for (int j = 0; j < kTogether; ++j) FAST_VECTORIZE
    for (int c = 0; c < kLanes; ++c) {
      const uint32_t value = nearest_bits(rows[i + j][c] * steps.inverse[c]) & steps.keep[c];
      sum[c] += static_cast<int32_t>(value);
      words[c] |= (value & (kValueBytes == 1 ? 0xffu : 0xffffu)) << (32 / kTogether * j);
    }
    __builtin_memcpy(out + i * kValueBytes * kLanes, words, sizeof words);
  }
}

// kLanes columns, of which there are `columns`.
inline void pack_panel(const float* x, int64_t stride, int64_t k, int64_t columns, std::byte* panel) {
  auto* out = reinterpret_cast<uint8_t*>(panel);
  alignas(64) float rows[kFastBlock][kLanes] = {}, totals[kLanes] = {};
  const int64_t padded = fast_padded(k);
  for (int64_t b = 0; b < padded; b += kFastBlock, out += kPanelBlock) {
    const int64_t some = k - b < 0 ? 0 : k - b < kFastBlock ? k - b : kFastBlock;
    for (int64_t i = 0; i < some; ++i) {
      const float* from = x + (b + i) * stride;
      if (columns == kLanes)
        __builtin_memcpy(rows[i], from, sizeof rows[i]);
      else
        __builtin_memcpy(rows[i], from, static_cast<size_t>(columns) * sizeof(float));
    }
    __builtin_memset(rows + some, 0, static_cast<size_t>(kFastBlock - some) * sizeof rows[0]);
    const PanelSteps steps(rows);
    alignas(64) float scaled[kLanes];
    alignas(64) int32_t sum[kLanes] = {};
    pack_block(rows, steps, out, sum);
    for (int c = 0; c < kLanes; ++c) {
      scaled[c] = steps.scale[c] * static_cast<float>(sum[c]);
      totals[c] += scaled[c];
      sum[c] *= -kProductShift;
    }
    uint8_t* beside = out + kBlockBytes * kLanes;
    __builtin_memcpy(beside, steps.scale, sizeof scaled);
    __builtin_memcpy(beside + sizeof scaled, scaled, sizeof scaled);
    __builtin_memcpy(beside + 2 * sizeof scaled, sum, sizeof sum);
  }
  __builtin_memcpy(out, totals, sizeof totals);
}

// ---- By kind ----

// f(the type of source), as pointers to nothing.
template <class F>
void with_source(FastKind kind, F f) {
  switch (kind) {
    case FastKind::int8: return f(static_cast<ByteSource<false>*>(nullptr));
    case FastKind::uint8: return f(static_cast<ByteSource<true>*>(nullptr));
    case FastKind::table1: return f(static_cast<TableSource<1>*>(nullptr));
    case FastKind::table2: return f(static_cast<TableSource<2>*>(nullptr));
    case FastKind::table3: return f(static_cast<TableSource<3>*>(nullptr));
    case FastKind::table4: return f(static_cast<NibbleTable<true>*>(nullptr));
    case FastKind::table6: return f(static_cast<TableSource<6>*>(nullptr));
    case FastKind::table8: return f(static_cast<TableSource<8>*>(nullptr));
    case FastKind::number4: return f(static_cast<NumberSource*>(nullptr));
  }
}

// The same for tables of which 8 bits will do.
template <class F>
void with_coarse_table(FastKind kind, F f) {
  switch (kind) {
    case FastKind::table1: return f(static_cast<CoarseTableSource<1>*>(nullptr));
    case FastKind::table2: return f(static_cast<CoarseTableSource<2>*>(nullptr));
    case FastKind::table3: return f(static_cast<CoarseTableSource<3>*>(nullptr));
    case FastKind::table4: return f(static_cast<NibbleTable<false>*>(nullptr));
    case FastKind::table6: return f(static_cast<CoarseTableSource<6>*>(nullptr));
    default: return f(static_cast<CoarseTableSource<8>*>(nullptr));
  }
}

inline void matvec_level(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count,
                         int64_t k, const FastColumn* x, int64_t x_count, float* const* out) {
  const auto multiply = [&](auto* type) {
    matvec_of<std::remove_pointer_t<decltype(type)>>(block, rows, count, k, x, x_count, out);
  };
  fast_is_table(kind) && !fine ? with_coarse_table(kind, multiply) : with_source(kind, multiply);
}

// f(type of the source, std::true_type for all 14 bits of tables).
template <class F>
void with_expanded(FastKind kind, bool fine, F f) {
  with_source(kind, [&](auto* type) {
    using S = std::remove_pointer_t<decltype(type)>;
    if constexpr (S::kTable)
      if (fine) return f(type, std::true_type());
    f(type, std::false_type());
  });
}

inline void gemm_level(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count,
                       const FastPanels& x, float* out, int64_t out_stride, std::byte* room) {
  with_expanded(kind, fine, [&](auto* type, auto is_fine) {
    gemm_of<std::remove_pointer_t<decltype(type)>, is_fine>(block, rows, count, x, out, out_stride, room);
  });
}
