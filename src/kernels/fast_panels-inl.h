// Products of many columns, a part of fast_loops-inl.h: rows are expanded in `room`, and multiplied with panels of
// columns side by side. kValueBytes: both are bytes, or words of 16 bits.

constexpr int64_t kBlockBytes = kFastBlock * kValueBytes;  // of a row, and of each lane of a panel
constexpr bool kTwoPlanes = kValueBytes == 1;              // fine rows are two planes of bytes
constexpr float kFineShift = kTwoPlanes ? 0.0f : -kFastMiddle;

// Coarse: signed values, as the products of the level take them, or plain, as they are. Fine: words, or the high plane
// and behind it the low one.
enum class RowForm { coarse, plain, fine };
template <class S, RowForm kForm>
void expand_row(const FastRow& row, int64_t k, uint8_t* out) {
  const S s(row);
  const int64_t stride = fast_padded(k);
  const auto* p = reinterpret_cast<const uint8_t*>(row.data);
  alignas(64) uint8_t room[kFastStep];
  for (int64_t i = 0; i < k; i += kFastStep, p += kFastStep * S::kBits / 8) {
    __builtin_prefetch(p + kAhead, 0, 2);
    const uint8_t* from = i + kFastStep <= k ? p : whole_step<S::kBits>(p, k - i, room);
    for (int64_t v = 0; v < kVectors; ++v) {
      const uint8_t* piece = from + v * kBytes * S::kBits / 8;
      uint8_t* to = out + (i + v * kBytes) * kValueBytes;
      if constexpr (kForm == RowForm::fine) {
        const Planes w = s.fine(piece);
        store_fine(w.high, w.low, to, to + stride);
      } else if constexpr (kForm == RowForm::plain) {
        store_bytes(s.coarse(piece), to);
      } else {
        store_coarse(s.coarse(piece), to);
      }
    }
  }
}

// R rows, `stride` bytes apart, against V panels.
struct Product {
  const uint8_t* rows;
  int64_t stride, plane;  // plane: from the high one of a row to the low one
  bool fine;
  const FastRow* about;
  int64_t k, step;  // step: blocks of kFastBlock for each scale of the weight; 0: one for the row
  const uint8_t* panel;
  int64_t panel_bytes;
  float shift;
};

// Four times four bytes of R rows, by V panels, on top of the sums.
template <int R, int V, bool kSmall>
FAST_INLINE void add_four_products(const Product& p, const uint8_t* rows, const uint8_t* block,
                                   Ints sums[R][V]) {
  FAST_UNROLL
  for (int64_t i = 0; i < 16; i += 4) {
    Bytes x[V];
    FAST_UNROLL
    for (int v = 0; v < V; ++v) x[v] = load_bytes(block + v * p.panel_bytes + i * kLanes);
    FAST_UNROLL
    for (int r = 0; r < R; ++r) {
      const Four w = four_bytes(rows + r * p.stride + i);
      FAST_UNROLL
      for (int v = 0; v < V; ++v)
        sums[r][v] = kSmall ? dot_four_small(sums[r][v], w, x[v]) : dot_four(sums[r][v], w, x[v]);
    }
  }
}

// R rows by one block of V panels, on top of the sums. Bytes are unrolled as a whole; words would leave the registers.
template <int R, int V, bool kSmall>
FAST_INLINE void add_products(const Product& p, const uint8_t* rows, const uint8_t* block, Ints sums[R][V]) {
  if constexpr (kBlockBytes == 32) {
    add_four_products<R, V, kSmall>(p, rows, block, sums);
    add_four_products<R, V, kSmall>(p, rows + 16, block + 16 * kLanes, sums);
  } else {
    for (int64_t i = 0; i < kBlockBytes; i += 16)
      add_four_products<R, V, kSmall>(p, rows + i, block + i * kLanes, sums);
  }
}

// The whole numbers of one block: R x V sums.
template <int R, int V, bool kPlanes>
FAST_INLINE void multiply_block(const Product& p, const uint8_t* rows, const uint8_t* block,
                                Ints sums[R][V]) {
  FAST_UNROLL
  for (int v = 0; v < V; ++v) {
    const Ints start = kPlanes || kProductShift == 0
                           ? zero_ints()
                           : load_ints(block + v * p.panel_bytes + (kBlockBytes + 8) * kLanes);
    FAST_UNROLL
    for (int r = 0; r < R; ++r) sums[r][v] = start;
  }
  add_products<R, V, kPlanes>(p, rows, block, sums);
  if constexpr (kPlanes) {
    FAST_UNROLL
    for (int r = 0; r < R; ++r) FAST_UNROLL
    for (int v = 0; v < V; ++v) sums[r][v] = times_128(sums[r][v]);
    add_products<R, V, kPlanes>(p, rows + p.plane, block, sums);
  }
}

// The sums of a block on top of the totals. `at`: which scale of the weight.
template <int R, int V, bool kScaled>
FAST_INLINE void add_block(const Product& p, const uint8_t* block, int64_t at, const Ints sums[R][V],
                           Floats totals[R][V]) {
  FAST_UNROLL
  for (int v = 0; v < V; ++v) {
    const uint8_t* beside = block + v * p.panel_bytes + kBlockBytes * kLanes;
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

template <int R, int V, bool kScaled, bool kFine>
void multiply_panels(const Product& p, float* out, int64_t out_stride) {
  Floats totals[R][V];
  FAST_UNROLL
  for (int r = 0; r < R; ++r) FAST_UNROLL
  for (int v = 0; v < V; ++v) totals[r][v] = zero_floats();
  const uint8_t* block = p.panel;
  const uint8_t* rows = p.rows;
  const int64_t blocks = kScaled ? p.k / kFastBlock : fast_padded(p.k) / kFastBlock;
  for (int64_t b = 0; b < blocks; ++b, block += kPanelBlock, rows += kBlockBytes) {
    Ints sums[R][V];
    multiply_block<R, V, kFine && kTwoPlanes>(p, rows, block, sums);
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
        const float offset = (kFine ? row.offset : row.coarse_offset) + p.shift;
        const Floats scale = all_floats(kFine ? row.scale : row.coarse_scale);
        totals[r][v] = multiply(subtract(totals[r][v], multiply(x, all_floats(offset))), scale);
      }
      store_floats(totals[r][v], out + r * out_stride + v * kLanes);
    }
  }
}

template <int R, int V>
void multiply_either(const Product& p, float* out, int64_t out_stride) {
  if (p.fine) return multiply_panels<R, V, false, true>(p, out, out_stride);
  p.step > 0 ? multiply_panels<R, V, true, false>(p, out, out_stride)
             : multiply_panels<R, V, false, false>(p, out, out_stride);
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

template <class S, bool kFine>
void gemm_of(int64_t block, const FastRow* rows, int64_t count, const FastPanels& x, float* out,
             int64_t out_stride, std::byte* room) {
  auto* bytes = reinterpret_cast<uint8_t*>(room);
  const int64_t padded = fast_padded(x.k), stride = kFine ? 2 * padded : padded * kValueBytes;
  const int64_t panel_bytes = fast_panel_bytes(x.k, kLanes, kValueBytes);
  for (int64_t r = 0; r < count; ++r)
    expand_row<S, kFine ? RowForm::fine : RowForm::coarse>(rows[r], x.k, bytes + r * stride);
  Product p{.rows = bytes,
            .stride = stride,
            .plane = padded,
            .fine = kFine,
            .about = rows,
            .k = x.k,
            .step = block / kFastBlock,
            .panel = reinterpret_cast<const uint8_t*>(x.data),
            .panel_bytes = panel_bytes,
            .shift = kFine ? kFineShift : S::kCoarseShift};
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
