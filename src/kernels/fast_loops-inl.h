// The loops of fast.h, written once for all levels. Each fast_<level>.cpp includes this inside a namespace of its own,
// behind what it defines:
//     kLanes, Bytes (4 * kLanes of them), Ints, Floats and the operations on them; kSignedShift
//     codes<bits>(p)            as many elements as Bytes has, each in a byte (bits above may be foreign for tables)
//     Table<bits>(plane)        its look_up(codes)
//     Signed, as_signed(bytes), dot(sum, Signed, x): signed by signed bytes, plus kSignedShift for each byte of x
//     dot(sum, bytes, x)        bytes below 128 by signed ones; every 32-bit sum takes four neighbors
//     dot_planes(high, low, x)  128 times the one plus the other
//     Four, four_bytes(p)       four bytes of a row for all lanes, as for_product() left them; dot_four(sum, Four, x)
//                               has kProductShift too much for each value of x
//     kMostRows, kPanels        rows and panels whose sums fit into the registers

#ifdef __clang__
#define FAST_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FAST_UNROLL _Pragma("GCC unroll 8")
#endif

constexpr int64_t kBytes = 4 * kLanes, kVectors = kFastStep / kBytes;
constexpr int64_t kAhead = 4096;  // weights are asked for so many bytes before their use
constexpr int64_t kPanelBlock = 44 * kLanes;

// ---- Weights: a source gives a vector of elements as what dot_with() multiplies. kShift is what its sums have too
// ---- much for each value of x; coarse() gives the elements as signed bytes, and kCoarseShift is the same for them.

template <bool kUnsigned>
struct ByteSource {
  static constexpr int kBits = 8;
  static constexpr float kCoarseShift = kUnsigned ? -128.0f : 0.0f, kShift = kSignedShift + kCoarseShift;
  using Piece = Signed;
  explicit ByteSource(const FastRow&) {}
  Piece load(const uint8_t* p) const { return as_signed(coarse(p)); }
  Bytes coarse(const uint8_t* p) const { return kUnsigned ? flip(load_bytes(p)) : load_bytes(p); }
  static Ints dot_with(const Piece& w, Bytes x) { return dot(zero_ints(), w, x); }
};

template <int kWidth>
struct TableSource {
  static constexpr int kBits = kWidth;
  static constexpr float kShift = 0, kCoarseShift = 0;
  struct Piece {
    Bytes high, low;
  };
  explicit TableSource(const FastRow& row)
      : high_(row.table), low_(row.table + kEntries), coarse_(row.table + 2 * kEntries) {}
  Piece load(const uint8_t* p) const {
    const Bytes c = codes<kBits>(p);
    return {high_.look_up(c), low_.look_up(c)};
  }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<kBits>(p)); }
  static Ints dot_with(const Piece& w, Bytes x) { return dot_planes(w.high, w.low, x); }

 private:
  static constexpr int64_t kEntries = kBits <= 4 ? 16 : 1 << kBits;
  Table<kBits> high_, low_, coarse_;
};

struct NumberSource {
  static constexpr int kBits = 4;
  static constexpr float kShift = 0, kCoarseShift = 0;
  using Piece = Bytes;
  explicit NumberSource(const FastRow& row) : positive_(row.table), coarse_(row.table + 16) {}
  Piece load(const uint8_t* p) const { return positive_.look_up(codes<4>(p)); }
  Bytes coarse(const uint8_t* p) const { return coarse_.look_up(codes<4>(p)); }
  static Ints dot_with(const Piece& w, Bytes x) { return dot(zero_ints(), w, x); }

 private:
  Table<4> positive_, coarse_;
};

// ---- A row against N columns ----

struct Column {
  const int8_t* values;
  const float* scales;
};

template <int N>
void columns_of(const FastColumns& x, Column* out) {
  for (int64_t n = 0; n < N; ++n) {  // columns that are not there repeat the last
    const int64_t c = n < x.count ? n : x.count - 1;
    out[n] = {x.values + c * x.padded, x.scales + c * (x.padded / 4)};
  }
}

// The elements [at, at + kFastStep) at p.
template <class S, int N>
FAST_INLINE void add_step(const S& s, const uint8_t* p, int64_t at, const Column* x, Floats* sums) {
  for (int64_t v = 0; v < kVectors; ++v) {
    const auto w = s.load(p + v * kBytes * S::kBits / 8);
    const int64_t i = at + v * kBytes;
    for (int n = 0; n < N; ++n)
      sums[n] = multiply_add(to_floats(S::dot_with(w, load_bytes(x[n].values + i))),
                             load_floats(x[n].scales + i / 4), sums[n]);
  }
}

// The last elements of a row, in memory that may be read to the end of the step.
template <int kBits>
FAST_INLINE const uint8_t* whole_step(const uint8_t* p, int64_t elements, uint8_t* room) {
  __builtin_memset(room, 0, kFastStep);
  __builtin_memcpy(room, p, static_cast<size_t>(elements * kBits / 8));
  return room;
}

template <class S, int N>
FAST_INLINE void add_row(const FastRow& row, int64_t k, const Column* x, Floats* out) {
  const S s(row);
  const auto* p = reinterpret_cast<const uint8_t*>(row.data);
  Floats sums[N];  // of its own: what `out` points to could be anything
  for (int n = 0; n < N; ++n) sums[n] = zero_floats();
  int64_t i = 0;
  constexpr int64_t kStepBytes = kFastStep * S::kBits / 8;
  for (; i + kFastStep <= k; i += kFastStep, p += kStepBytes) {
    __builtin_prefetch(p + kAhead, 0, 3);
    add_step<S, N>(s, p, i, x, sums);
  }
  alignas(64) uint8_t room[kFastStep];
  if (i < k) add_step<S, N>(s, whole_step<S::kBits>(p, k - i, room), i, x, sums);
  for (int n = 0; n < N; ++n) out[n] = sums[n];
}

template <class S, int N>
void multiply_rows(const FastRow* rows, int64_t count, const FastColumns& x, float* out, int64_t out_stride) {
  Column columns[N];
  columns_of<N>(x, columns);
  constexpr int kRows = N == 1 ? 4 : 1, kSums = N == 1 ? 4 : (N + 3) / 4 * 4;
  Floats sums[kSums];
  float totals[kSums];
  for (Floats& sum : sums) sum = zero_floats();
  for (int64_t r = 0; r < count; r += kRows) {
    const int64_t some = count - r < kRows ? count - r : kRows;
    for (int64_t j = 0; j < some; ++j) add_row<S, N>(rows[r + j], x.k, columns, sums + j * N);
    for (int q = 0; q < kSums; q += 4) store_four_sums(sums + q, totals + q);
    for (int64_t j = 0; j < some; ++j) {
      const FastRow& row = rows[r + j];
      const float offset = row.offset + S::kShift;
      for (int64_t n = 0; n < N && n < x.count; ++n)
        out[r + j + n * out_stride] = row.scale * (totals[j * N + n] - offset * x.totals[n]);
    }
  }
}

// ---- The same with a scale, and maybe an offset, for every `block` columns ----

template <class S, int N>
FAST_INLINE void add_scaled_step(const S& s, const uint8_t* p, int64_t at, float scale0, float scale1,
                                 const Column* x, Floats* sums) {
  for (int64_t v = 0; v < kVectors; ++v) {
    const auto w = s.load(p + v * kBytes * S::kBits / 8);
    const Floats scale = kVectors == 1 ? two_halves(scale0, scale1) : all_floats(v == 0 ? scale0 : scale1);
    const int64_t i = at + v * kBytes;
    for (int n = 0; n < N; ++n) {
      const Floats d = to_floats(S::dot_with(w, load_bytes(x[n].values + i)));
      sums[n] = multiply_add(multiply(d, load_floats(x[n].scales + i / 4)), scale, sums[n]);
    }
  }
}

template <class S, int N>
FAST_INLINE void add_scaled_row(const FastRow& row, int64_t k, int64_t block, const Column* x, Floats* out) {
  static_assert(kVectors <= 2);
  const S s(row);
  const auto* p = reinterpret_cast<const uint8_t*>(row.data);
  Floats sums[N];  // of its own: what `out` points to could be anything
  for (int n = 0; n < N; ++n) sums[n] = zero_floats();
  const auto step = static_cast<uint32_t>(block / kFastBlock);
  const float* scale = row.block_scale;
  uint32_t j = 0;  // of kFastBlock columns
  int64_t i = 0;
  constexpr int64_t kStepBytes = kFastStep * S::kBits / 8;
  for (; i + kFastStep <= k; i += kFastStep, p += kStepBytes, j += 2) {
    __builtin_prefetch(p + kAhead, 0, 3);
    const float a = step == 1 ? scale[j] : scale[j / step],
                b = step == 1 ? scale[j + 1] : scale[(j + 1) / step];
    add_scaled_step<S, N>(s, p, i, a, b, x, sums);
  }
  alignas(64) uint8_t room[kFastStep];
  if (i < k) {  // one block more; what is behind it is multiplied with zeros
    const float a = scale[j / step];
    add_scaled_step<S, N>(s, whole_step<S::kBits>(p, k - i, room), i, a, a, x, sums);
  }
  for (int n = 0; n < N; ++n) out[n] = sums[n];
}

// The sum over the blocks of scale * offset * sum of x, which the sums of a row have too much.
inline float block_offsets(const FastRow& row, int64_t blocks, int64_t step, float shift, const float* x) {
  const float* s = row.block_scale;
  const float* z = row.block_offset;
  Floats sums[4] = {zero_floats(), zero_floats(), zero_floats(), zero_floats()};
  int64_t b = 0;
  for (; step == 1 && b + kLanes <= blocks; b += kLanes) {
    const Floats offset = z ? add(load_floats(z + b), all_floats(shift)) : all_floats(shift);
    sums[0] = multiply_add(multiply(load_floats(s + b), offset), load_floats(x + b), sums[0]);
  }
  float totals[4];
  store_four_sums(sums, totals);
  for (; b < blocks; ++b) {
    float sum = 0;
    for (int64_t j = 0; j < step; ++j) sum += x[b * step + j];
    totals[0] += s[b] * (shift + (z ? z[b] : 0.0f)) * sum;
  }
  return totals[0];
}

template <class S, int N>
void multiply_scaled(int64_t block, const FastRow* rows, int64_t count, const FastColumns& x, float* out,
                     int64_t out_stride) {
  Column columns[N];
  columns_of<N>(x, columns);
  constexpr int kRows = N == 1 ? 4 : 1, kSums = N == 1 ? 4 : (N + 3) / 4 * 4;
  Floats sums[kSums];
  float totals[kSums];
  for (Floats& sum : sums) sum = zero_floats();
  for (int64_t r = 0; r < count; r += kRows) {
    const int64_t some = count - r < kRows ? count - r : kRows;
    for (int64_t j = 0; j < some; ++j) add_scaled_row<S, N>(rows[r + j], x.k, block, columns, sums + j * N);
    for (int q = 0; q < kSums; q += 4) store_four_sums(sums + q, totals + q);
    for (int64_t j = 0; j < some; ++j) {
      const FastRow& row = rows[r + j];
      const float shift = row.offset + S::kShift;
      for (int64_t n = 0; n < N && n < x.count; ++n) {
        float less = 0;
        if (shift != 0 || row.block_offset)
          less = block_offsets(row, x.k / block, block / kFastBlock, shift,
                               x.sums + n * (x.padded / kFastBlock));
        out[r + j + n * out_stride] = totals[j * N + n] - less;
      }
    }
  }
}

template <class S>
void matvec_of(int64_t block, const FastRow* rows, int64_t count, const FastColumns& x, float* out,
               int64_t out_stride) {
  const auto run = [&](auto number) {
    constexpr int kN = decltype(number)::value;
    block > 0 ? multiply_scaled<S, kN>(block, rows, count, x, out, out_stride)
              : multiply_rows<S, kN>(rows, count, x, out, out_stride);
  };
  if (x.count <= 1) return run(std::integral_constant<int, 1>());
  if (x.count <= 2) return run(std::integral_constant<int, 2>());
  if (x.count <= 4) return run(std::integral_constant<int, 4>());
  run(std::integral_constant<int, 8>());
}

// ---- Many columns: rows as bytes in `room`, against panels of columns ----

template <class S>
void expand_row(const FastRow& row, int64_t k, uint8_t* out) {
  const S s(row);
  const auto* p = reinterpret_cast<const uint8_t*>(row.data);
  alignas(64) uint8_t room[kFastStep];
  for (int64_t i = 0; i < k; i += kFastStep, p += kFastStep * S::kBits / 8) {
    __builtin_prefetch(p + kAhead, 0, 3);
    const uint8_t* from = i + kFastStep <= k ? p : whole_step<S::kBits>(p, k - i, room);
    for (int64_t v = 0; v < kVectors; ++v)
      store_bytes(for_product(s.coarse(from + v * kBytes * S::kBits / 8)), out + i + v * kBytes);
  }
}

// R rows of bytes, `stride` apart, against V panels.
struct Product {
  const uint8_t* rows;
  int64_t stride;
  const FastRow* about;
  int64_t k, step;  // step: blocks of kFastBlock for each scale of the weight; 0: one for the row
  const uint8_t* panel;
  int64_t panel_bytes;
  float shift;
};

// The whole numbers of one block: R x V sums.
template <int R, int V>
FAST_INLINE void multiply_block(const Product& p, const uint8_t* rows, const uint8_t* block,
                                Ints sums[R][V]) {
  FAST_UNROLL
  for (int v = 0; v < V; ++v) {
    const Ints start = load_ints(block + v * p.panel_bytes + 40 * kLanes);
    FAST_UNROLL
    for (int r = 0; r < R; ++r) sums[r][v] = start;
  }
  FAST_UNROLL
  for (int64_t i = 0; i < kFastBlock; i += 4) {
    Bytes x[V];
    FAST_UNROLL
    for (int v = 0; v < V; ++v) x[v] = load_bytes(block + v * p.panel_bytes + i * kLanes);
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      const Four w = four_bytes(rows + r * p.stride + i);
      FAST_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = dot_four(sums[r][v], w, x[v]);
    }
  }
}

// The sums of a block on top of the totals. `at`: which scale of the weight.
template <int R, int V, bool kScaled>
FAST_INLINE void add_block(const Product& p, const uint8_t* block, int64_t at, const Ints sums[R][V],
                           Floats totals[R][V]) {
  FAST_UNROLL
  for (int v = 0; v < V; ++v) {
    const uint8_t* beside = block + v * p.panel_bytes + 32 * kLanes;
    const Floats scale = load_floats(beside);
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      if constexpr (kScaled) {
        const FastRow& row = p.about[r];
        Floats d = multiply(to_floats(sums[r][v]), scale);
        const float offset = row.coarse_offset + p.shift + (row.block_offset ? row.block_offset[at] : 0.0f);
        if (offset != 0) d = multiply_add(load_floats(beside + 4 * kLanes), all_floats(-offset), d);
        totals[r][v] = multiply_add(d, all_floats(row.block_scale[at]), totals[r][v]);
      } else {
        totals[r][v] = multiply_add(to_floats(sums[r][v]), scale, totals[r][v]);
      }
    }
  }
}

template <int R, int V, bool kScaled>
void multiply_panels(const Product& p, float* out, int64_t out_stride) {
  Floats totals[R][V];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) FAST_UNROLL
  for (int v = 0; v < V; ++v) totals[r][v] = zero_floats();
  const uint8_t* block = p.panel;
  const uint8_t* rows = p.rows;
  const int64_t blocks = kScaled ? p.k / kFastBlock : fast_padded(p.k) / kFastBlock;
  for (int64_t b = 0; b < blocks; ++b, block += kPanelBlock, rows += kFastBlock) {
    Ints sums[R][V];
    multiply_block<R, V>(p, rows, block, sums);
    add_block<R, V, kScaled>(p, block, kScaled && p.step > 1 ? b / p.step : b, sums, totals);
  }
  const uint8_t* end = p.panel + fast_padded(p.k) / kFastBlock * kPanelBlock;
  FAST_UNROLL
  for (int v = 0; v < V; ++v) {
    const Floats x = load_floats(end + v * p.panel_bytes);
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      const FastRow& row = p.about[r];
      if constexpr (!kScaled) {
        const Floats less = multiply(x, all_floats(row.coarse_offset + p.shift));
        totals[r][v] = multiply(subtract(totals[r][v], less), all_floats(row.coarse_scale));
      }
      store_floats(totals[r][v], out + r * out_stride + v * kLanes);
    }
  }
}

template <int R, int V>
void multiply_either(const Product& p, float* out, int64_t out_stride) {
  p.step > 0 ? multiply_panels<R, V, true>(p, out, out_stride)
             : multiply_panels<R, V, false>(p, out, out_stride);
}

template <int V>
void multiply_some(int64_t count, const Product& p, float* out, int64_t out_stride) {
  switch (count) {
    case 1: return multiply_either<1, V>(p, out, out_stride);
    case 2: return multiply_either<2, V>(p, out, out_stride);
    case 3: return multiply_either<3, V>(p, out, out_stride);
    case 4: return multiply_either<4, V>(p, out, out_stride);
    case 5: return multiply_either<(kMostRows < 5 ? 1 : 5), V>(p, out, out_stride);
    default: return multiply_either<(kMostRows < 6 ? 1 : 6), V>(p, out, out_stride);
  }
}

template <int V>
void multiply_all(int64_t count, Product p, int64_t columns, float* out, int64_t out_stride) {
  alignas(64) float edge[kMostRows * V * kLanes];
  for (int64_t r = 0; r < count; r += kMostRows) {
    const int64_t some = count - r < kMostRows ? count - r : kMostRows;
    float* to = out + r * out_stride;
    if (columns == V * kLanes) {
      multiply_some<V>(some, p, to, out_stride);
    } else {  // what hangs over the last column goes elsewhere
      multiply_some<V>(some, p, edge, V * kLanes);
      for (int64_t i = 0; i < some; ++i)
        __builtin_memcpy(to + i * out_stride, edge + i * V * kLanes,
                         static_cast<size_t>(columns) * sizeof(float));
    }
    p.rows += kMostRows * p.stride;
    p.about += kMostRows;
  }
}

template <class S>
void gemm_of(int64_t block, const FastRow* rows, int64_t count, const FastPanels& x, float* out,
             int64_t out_stride, std::byte* room) {
  auto* bytes = reinterpret_cast<uint8_t*>(room);
  const int64_t stride = fast_padded(x.k), panel_bytes = fast_panel_bytes(x.k, kLanes);
  for (int64_t r = 0; r < count; ++r) expand_row<S>(rows[r], x.k, bytes + r * stride);
  Product p{
      bytes,       stride,         rows, x.k, block / kFastBlock, reinterpret_cast<const uint8_t*>(x.data),
      panel_bytes, S::kCoarseShift};
  for (int64_t c = 0; c < x.columns;) {
    const int64_t left = x.columns - c;
    if (left > (kPanels - 1) * kLanes) {
      multiply_all<kPanels>(count, p, left < kPanels * kLanes ? left : kPanels * kLanes, out + c, out_stride);
      p.panel += kPanels * panel_bytes;
      c += kPanels * kLanes;
    } else {
      multiply_all<1>(count, p, left, out + c, out_stride);
      c += kLanes;
    }
  }
}

// ---- Activations ----

// 127 / most, and most / 127; for a block that is not finite 0 and NaN, so that what it goes into is NaN.
inline float steps_of(float most, float* scale) {
  const bool finite = most <= 3.4028234e38f;
  *scale = finite ? most / 127.0f : __builtin_nanf("");
  return finite && most > 1e-36f ? 127.0f / most : 0.0f;
}

inline void quantize_column(const float* x, int64_t k, int8_t* values, float* scales, float* sums,
                            float* total) {
  float all = 0;
  const int64_t padded = fast_padded(k);
  for (int64_t b = 0; b < padded; b += kFastBlock) {
    alignas(64) float block[kFastBlock] = {};
    if (b < k)
      __builtin_memcpy(block, x + b, static_cast<size_t>(k - b < kFastBlock ? k - b : kFastBlock) * 4);
    uint32_t most = 0;  // magnitudes order as their bits do
    for (int i = 0; i < kFastBlock; ++i) {
      uint32_t bits;
      __builtin_memcpy(&bits, block + i, 4);
      bits &= 0x7fffffffu;
      most = bits > most ? bits : most;
    }
    float largest, scale;
    __builtin_memcpy(&largest, &most, 4);
    const float inverse = steps_of(largest, &scale);
    int32_t sum = 0;
    for (int i = 0; i < kFastBlock; ++i) {
      const float q = (inverse == 0 ? 0.0f : block[i] * inverse) + 12582912.0f;  // rounds to nearest
      int32_t bits;
      __builtin_memcpy(&bits, &q, 4);
      const auto value = static_cast<int8_t>(bits & 0xff);
      values[b + i] = value;
      sum += value;
    }
    for (int i = 0; i < kFastBlock / 4; ++i) scales[b / 4 + i] = scale;
    sums[b / kFastBlock] = scale * static_cast<float>(sum);
    all += sums[b / kFastBlock];
  }
  *total = all;
}

// kLanes columns, of which there are `columns`.
inline void pack_panel(const float* x, int64_t stride, int64_t k, int64_t columns, std::byte* panel) {
  auto* out = reinterpret_cast<uint8_t*>(panel);
  float totals[kLanes] = {};
  const int64_t padded = fast_padded(k);
  for (int64_t b = 0; b < padded; b += kFastBlock, out += kPanelBlock) {
    alignas(64) float rows[kFastBlock][kLanes] = {};
    alignas(64) uint32_t most[kLanes] = {};
    alignas(64) float scale[kLanes], inverse[kLanes], scaled[kLanes];
    alignas(64) int32_t sum[kLanes] = {};
    for (int64_t i = 0; i < kFastBlock && b + i < k; ++i)
      __builtin_memcpy(rows[i], x + (b + i) * stride, static_cast<size_t>(columns) * 4);
    for (int i = 0; i < kFastBlock; ++i)
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
    }
    for (int i = 0; i < kFastBlock; i += 4) {
      alignas(64) uint32_t words[kLanes] = {};
      for (int j = 0; j < 4; ++j)
        for (int c = 0; c < kLanes; ++c) {
          const float q = (inverse[c] == 0 ? 0.0f : rows[i + j][c] * inverse[c]) + 12582912.0f;
          int32_t bits;
          __builtin_memcpy(&bits, &q, 4);
          bits -= 0x4b400000;
          sum[c] += bits;
          words[c] |= (static_cast<uint32_t>(bits) & 0xffu) << (8 * j);
        }
      __builtin_memcpy(out + i * kLanes, words, sizeof words);
    }
    for (int c = 0; c < kLanes; ++c) {
      scaled[c] = scale[c] * static_cast<float>(sum[c]);
      totals[c] += scaled[c];
      sum[c] *= -kProductShift;
    }
    __builtin_memcpy(out + 32 * kLanes, scale, sizeof scale);
    __builtin_memcpy(out + 36 * kLanes, scaled, sizeof scaled);
    __builtin_memcpy(out + 40 * kLanes, sum, sizeof sum);
  }
  __builtin_memcpy(out, totals, sizeof totals);
}

// ---- By kind ----

template <class F>
void with_source(FastKind kind, F f) {
  switch (kind) {
    case FastKind::int8: return f(static_cast<ByteSource<false>*>(nullptr));
    case FastKind::uint8: return f(static_cast<ByteSource<true>*>(nullptr));
    case FastKind::table1: return f(static_cast<TableSource<1>*>(nullptr));
    case FastKind::table2: return f(static_cast<TableSource<2>*>(nullptr));
    case FastKind::table3: return f(static_cast<TableSource<3>*>(nullptr));
    case FastKind::table4: return f(static_cast<TableSource<4>*>(nullptr));
    case FastKind::table6: return f(static_cast<TableSource<6>*>(nullptr));
    case FastKind::table8: return f(static_cast<TableSource<8>*>(nullptr));
    case FastKind::number4: return f(static_cast<NumberSource*>(nullptr));
  }
}

inline void matvec_level(FastKind kind, int64_t block, const FastRow* rows, int64_t count,
                         const FastColumns& x, float* out, int64_t out_stride) {
  with_source(kind, [&](auto* type) {
    matvec_of<std::remove_pointer_t<decltype(type)>>(block, rows, count, x, out, out_stride);
  });
}

inline void gemm_level(FastKind kind, int64_t block, const FastRow* rows, int64_t count, const FastPanels& x,
                       float* out, int64_t out_stride, std::byte* room) {
  with_source(kind, [&](auto* type) {
    gemm_of<std::remove_pointer_t<decltype(type)>>(block, rows, count, x, out, out_stride, room);
  });
}
