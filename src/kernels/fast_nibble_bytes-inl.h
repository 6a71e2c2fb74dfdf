// Tables of four bits as two planes of bytes, a part of fast_nibbles-inl.h. They share the columns of numbers.

struct NibblePlanes {
  static constexpr int kBits = 4, kEight = 9;
  static constexpr bool kBlocks = false, kSplit = true, kTable = true;
  static constexpr float kShift = 0, kCoarseShift = 0;
  static constexpr int64_t kRaw = 2, kGroupBytes = kPairBytes, kScalesAt = 4 * kBytes;
  struct Piece {
    Quad high, low;
  };
  explicit NibblePlanes(const FastRow& row)
      : high_(row.table), low_(row.table + 16), coarse_(row.table + 32) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.split; }
  FAST_INLINE Piece split(const Bytes* raw) const {
    const Quad c = pair_codes(raw);
    Piece out;
    FAST_UNROLL
    for (int i = 0; i < 4; ++i) {
      out.high.v[i] = high_.look_up(c.v[i]);
      out.low.v[i] = low_.look_up(c.v[i]);
    }
    return out;
  }
  Planes fine(const uint8_t* p) const {
    const Bytes c = codes<4>(p);
    return {high_.look_up(c), low_.look_up(c)};
  }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<4>(p)); }
  static FAST_INLINE Ints dot_with(const Piece& w, const int8_t*, const Quad& x) {
    Ints sum = zero_ints();
    FAST_UNROLL
    for (int i = 0; i < 4; ++i) sum = dot(sum, w.high.v[i], x.v[i]);
    sum = times_128(sum);
    FAST_UNROLL
    for (int i = 0; i < 4; ++i) sum = dot(sum, w.low.v[i], x.v[i]);
    return sum;
  }

 private:
  Table<4> high_, low_, coarse_;
};

inline int64_t table_bytes(int64_t) { return 0; }
inline void split_for_tables(const int8_t*, const float*, int64_t, int8_t*) {}
