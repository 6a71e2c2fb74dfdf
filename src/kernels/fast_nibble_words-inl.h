// Tables of four bits as words of 16 bits, a part of fast_nibbles-inl.h: one product and one sum for each pair of
// elements, where two planes of bytes would take three instructions each. Columns of words for them lie behind those of
// numbers. From a level it takes, beside the rest:
//     WordTable<fine>(row.table)  its look_up(raw, out): the elements of a vector of bytes as four vectors of words,
//                          of 14 bits less kFastMiddle or of the 8 that are coarse
//     word_of(e)           which of these words element e is; a lane has elements of one block
//     dot_words(w, x)      four vectors of words each; every 32-bit sum takes two neighbors

constexpr int64_t kWordGroup = 2 * kBytes, kWordBytes = 5 * kBytes;

template <bool kAllBits>
struct NibbleWords {
  static constexpr int kBits = 4, kEight = kEightWords;
  static constexpr bool kBlocks = false, kSplit = true, kTable = true, kHalf = false, kFine = kAllBits;
  static constexpr float kShift = kFine ? -kFastMiddle : 0, kCoarseShift = 0;
  static constexpr int64_t kRaw = 1, kGroupBytes = kWordBytes;
  template <int kCount>
  using Piece = Some<kCount>;
  explicit NibbleWords(const FastRow& row)
      : words_(row.table), high_(row.table), low_(row.table + 16), coarse_(row.table + 32) {}
  static const int8_t* values(const FastColumn& x, int64_t k) { return x.split + pairs_bytes(k); }
  template <int kCount>
  FAST_INLINE Piece<kCount> split(const Bytes* raw) const {
    Piece<kCount> out;
    words_.look_up(*raw, out.v);
    return out;
  }
  Planes fine(const uint8_t* p) const {
    const Bytes c = codes<4>(p);
    return {high_.look_up(c), low_.look_up(c)};
  }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<4>(p)); }
  template <int kCount>
  static FAST_INLINE Ints dot_with(const Piece<kCount>& w, const int8_t*, const Some<kCount>& x) {
    return dot_words(w.v, x.v);
  }

 private:
  WordTable<kFine> words_;
  Table<4> high_, low_, coarse_;
};

inline int64_t table_bytes(int64_t k) { return (k + kWordGroup - 1) / kWordGroup * kWordBytes; }

// For each group the values as words, and the scale of each lane.
inline void split_for_tables(const int8_t* values, const float* scales, int64_t k, int8_t* out) {
  const int64_t padded = fast_padded(k);
  for (int64_t i = 0; i < k; i += kWordGroup, out += kWordBytes) {
    alignas(64) int16_t words[kWordGroup] = {};
    alignas(64) float scale[kLanes] = {};
    const int64_t some = padded - i < kWordGroup ? padded - i : kWordGroup;
    for (int64_t e = 0; e < some; ++e) words[word_of(e)] = values[i + e];
    for (int64_t lane = 0; lane < some / 8; ++lane) scale[lane] = scales[i / 4 + 2 * lane];
    __builtin_memcpy(out, words, sizeof words);
    __builtin_memcpy(out + 4 * kBytes, scale, sizeof scale);
  }
}
