// Weights of four bits, a part of fast_loops-inl.h. A byte has two elements: the low halves of a vector of bytes are
// the even ones, the high halves the odd ones. So a column is kept apart in the same way (FastColumn::split), and
// nothing is moved to its place. From a level it takes, beside the rest:
//     Nibbles{even, odd}, nibbles(bytes)   the halves, for look_up() (bits above may be foreign)
//     load_some(p, count)                  so many bytes, and zeros
//     spread(p, count)                     so many floats (kLanes / 4 at most), each for four lanes, and zeros
//     times_128(ints)

// A group: the elements of a vector of bytes, and what belongs to them in FastColumn::split.
constexpr int64_t kGroup = 2 * kBytes, kGroupBytes = 4 * kBytes, kGroupBlocks = kGroup / kFastBlock;
// Numbers of four bits are multiplied as 0 to 15 and this less: a group of a column says how much that is.
constexpr int32_t kNibbleMiddle = 8;

struct NibbleTable {
  static constexpr int kBits = 4;
  static constexpr bool kBlocks = false, kSlow = false, kSplit = true, kTable = true;
  static constexpr float kShift = 0, kCoarseShift = 0;
  struct Piece {
    Bytes even_high, odd_high, even_low, odd_low;
  };
  explicit NibbleTable(const FastRow& row)
      : high_(row.table), low_(row.table + 16), coarse_(row.table + 32) {}
  FAST_INLINE Piece split(Bytes raw) const {
    const Nibbles c = nibbles(raw);
    return {high_.look_up(c.even), high_.look_up(c.odd), low_.look_up(c.even), low_.look_up(c.odd)};
  }
  Planes fine(const uint8_t* p) const {
    const Bytes c = codes<4>(p);
    return {high_.look_up(c), low_.look_up(c)};
  }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<4>(p)); }
  static FAST_INLINE Ints dot_with(const Piece& w, const int8_t*, Bytes even, Bytes odd) {
    const Ints high = dot(dot(zero_ints(), w.even_high, even), w.odd_high, odd);
    return dot(dot(times_128(high), w.even_low, even), w.odd_low, odd);
  }

 private:
  Table<4> high_, low_, coarse_;
};

struct NumberSource {
  static constexpr int kBits = 4;
  static constexpr bool kBlocks = true, kSlow = false, kSplit = true, kTable = false;
  static constexpr float kShift = -kNibbleMiddle, kCoarseShift = 0;
  struct Piece {
    Bytes even, odd;
  };
  explicit NumberSource(const FastRow& row) : positive_(row.table), coarse_(row.table + 16) {}
  FAST_INLINE Piece split(Bytes raw) const {
    const Nibbles c = nibbles(raw);
    return {positive_.look_up(c.even), positive_.look_up(c.odd)};
  }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<4>(p)); }
  static FAST_INLINE Ints dot_with(const Piece& w, const int8_t* less, Bytes even, Bytes odd) {
    return dot(dot(load_ints(less), w.even, even), w.odd, odd);
  }

 private:
  Table<4> positive_, coarse_;
};

// A group of R rows. `scale`: those of the weight, by lane.
template <class S, int R, int N, bool kScaled>
FAST_INLINE void add_group(const S* s, const Bytes* raw, const Floats* scale, const Columns<N>& x, int64_t at,
                           Floats (*sums)[N]) {
  typename S::Piece w[R];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) w[r] = s[r].split(raw[r]);
  FAST_UNROLL
  for (int n = 0; n < N; ++n) {
    const int8_t* group = x.begin[n] + at;
    const Bytes even = kept<R>(load_bytes(group)), odd = kept<R>(load_bytes(group + kBytes));
    const Floats scales = kept<R>(load_floats(group + 2 * kBytes));
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      const Floats d = to_floats(S::dot_with(w[r], group + 3 * kBytes, even, odd));
      if constexpr (kScaled)
        sums[r][n] = multiply_add(multiply(d, scales), scale[r], sums[r][n]);
      else
        sums[r][n] = multiply_add(d, scales, sums[r][n]);
    }
  }
}

// The scales of a group whose first block is `first`. Each is for `step` blocks. Behind the last one they are 0.
FAST_INLINE Floats scales_from(const float* scale, int64_t first, int64_t step, int64_t blocks) {
  const int64_t some = blocks - first < kGroupBlocks ? blocks - first : kGroupBlocks;
  if (step == 1) {
    __builtin_prefetch(scale + first + kAhead / (kFastBlock / 2), 0, 2);  // as far ahead as the elements are
    return spread(scale + first, some);
  }
  float each[kGroupBlocks];
  for (int64_t i = 0; i < some; ++i) each[i] = scale[(first + i) / step];
  return spread(each, some);
}

// The sums of R rows, lane by lane, as add_rows() gives them.
template <class S, int R, int N, bool kScaled>
FAST_INLINE void add_nibble_rows(const FastRow* rows, int64_t k, int64_t block, const Columns<N>& x,
                                 Floats (*out)[N]) {
  const Sources<S, R> s(rows);
  const uint8_t* p[R];
  Floats sums[R][N];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) {
    p[r] = reinterpret_cast<const uint8_t*>(rows[r].data);
    FAST_UNROLL
    for (int n = 0; n < N; ++n) sums[r][n] = zero_floats();
  }
  const int64_t step = kScaled ? block / kFastBlock : 1, blocks = k / kFastBlock;
  const auto add = [&](int64_t at, const Bytes* raw) {
    Floats scale[R];
    FAST_UNROLL
    for (int r = 0; r < R && kScaled; ++r)
      scale[r] = scales_from(rows[r].block_scale, at / (kFastBlock / 2), step, blocks);
    add_group<S, R, N, kScaled>(s.each, raw, scale, x, at * (kGroupBytes / kBytes), sums);
  };
  const int64_t bytes = k / 2;
  Bytes raw[R];
  int64_t at = 0;
  for (; at + kBytes <= bytes; at += kBytes) {
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(p[r] + at + kAhead, 0, 2);
      raw[r] = load_bytes(p[r] + at);
    }
    add(at, raw);
  }
  if (at < bytes) {  // what is behind the end is multiplied with zeros
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(p[r] + at + kAhead, 0, 2);
      raw[r] = load_some(p[r] + at, bytes - at);
    }
    add(at, raw);
  }
  FAST_UNROLL
  for (int r = 0; r < R; ++r) FAST_UNROLL
  for (int n = 0; n < N; ++n) out[r][n] = sums[r][n];
}

// FastColumn::split from the other parts of a column: for each group the even values, the odd ones, the scale of each
// lane, and what kNibbleMiddle takes from it.
inline void split_column(const int8_t* values, const float* scales, int64_t k, int8_t* out) {
  const int64_t padded = fast_padded(k);
  for (int64_t i = 0; i < k; i += kGroup, out += kGroupBytes) {
    alignas(64) int8_t group[kGroup] = {};
    alignas(64) float scale[kLanes] = {};
    alignas(64) int32_t less[kLanes];
    const int64_t some = padded - i < kGroup ? padded - i : kGroup;
    __builtin_memcpy(group, values + i, static_cast<size_t>(some));
    for (int64_t j = 0; j < some / 8; ++j) scale[j] = scales[i / 4 + 2 * j];
    for (int64_t j = 0; j < kLanes; ++j) {
      int32_t sum = 0;
      for (int64_t e = 0; e < 8; ++e) sum += group[8 * j + e];
      less[j] = -kNibbleMiddle * sum;
    }
    for (int64_t j = 0; j < kBytes; ++j) {
      out[j] = group[2 * j];
      out[kBytes + j] = group[2 * j + 1];
    }
    __builtin_memcpy(out + 2 * kBytes, scale, sizeof scale);
    __builtin_memcpy(out + 3 * kBytes, less, sizeof less);
  }
}
