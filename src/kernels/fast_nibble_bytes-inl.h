// Tables of four bits as bytes, a part of fast_nibbles-inl.h: as two planes, or coarse. They share the columns of
// numbers. From a level they take, beside the rest, add() of Ints.

struct NibblePlanes {
  static constexpr int kBits = 4, kEight = 9;
  static constexpr bool kBlocks = false, kSplit = true, kTable = true, kHalf = true, kFine = true;
  static constexpr float kShift = 0, kCoarseShift = 0;
  static constexpr int64_t kRaw = 2, kGroupBytes = kPairBytes;
  template <int kCount>
  struct Piece {
    Some<kCount> high, low;
  };
  explicit NibblePlanes(const FastRow& row)
      : high_(row.table), low_(row.table + 16), coarse_(row.table + 32) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.split; }
  template <int kCount>
  FAST_INLINE Piece<kCount> split(const Bytes* raw) const {
    const Some<kCount> c = pair_codes<kCount>(raw);
    Piece<kCount> out;
    FAST_UNROLL
    for (int i = 0; i < kCount; ++i) {
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
  template <int kCount>
  static FAST_INLINE Ints dot_with(const Piece<kCount>& w, const int8_t*, const Some<kCount>& x) {
    Ints high = zero_ints(), low = zero_ints();  // two chains: neither waits for the other
    FAST_UNROLL
    for (int i = 0; i < kCount; ++i) {
      high = dot(high, w.high.v[i], x.v[i]);
      low = dot(low, w.low.v[i], x.v[i]);
    }
    return add(times_128(high), low);
  }

 private:
  Table<4> high_, low_, coarse_;
};

struct CoarseNibblePlane {
  static constexpr int kBits = 4, kEight = 9;
  static constexpr bool kBlocks = false, kSplit = true, kHalf = true, kFine = false;
  static constexpr float kShift = kSignedShift;
  static constexpr int64_t kRaw = 2, kGroupBytes = kPairBytes;
  template <int kCount>
  struct Piece {
    Signed v[kCount];
  };
  explicit CoarseNibblePlane(const FastRow& row) : table_(row.table + 32) {}
  static const int8_t* values(const FastColumn& x, int64_t) { return x.split; }
  template <int kCount>
  FAST_INLINE Piece<kCount> split(const Bytes* raw) const {
    const Some<kCount> c = pair_codes<kCount>(raw);
    Piece<kCount> out;
    FAST_UNROLL
    for (int i = 0; i < kCount; ++i) out.v[i] = table_.look_up(c.v[i]);
    return out;
  }
  template <int kCount>
  static FAST_INLINE Ints dot_with(const Piece<kCount>& w, const int8_t*, const Some<kCount>& x) {
    Ints sum = zero_ints();
    FAST_UNROLL
    for (int i = 0; i < kCount; ++i) sum = dot(sum, w.v[i], x.v[i]);
    return sum;
  }

 private:
  SignedTable<4> table_;
};

inline int64_t table_bytes(int64_t) { return 0; }
inline void split_for_tables(const int8_t*, const float*, int64_t, int8_t*) {}
