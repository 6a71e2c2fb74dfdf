// Products of many columns with AMX, a part of fast_avx512.cpp: 16 rows and a panel have a tile of 16 x 16 sums, and a
// block of 32 is one product of tiles. Its whole numbers go through memory into vectors, where the totals are. Every
// number is computed as fast_panels-inl.h computes it, bit by bit.

#if defined(__clang__)
#define FAST_UNROLL_ROWS _Pragma("clang loop unroll(full)")
#else
#define FAST_UNROLL_ROWS _Pragma("GCC unroll 16")
#endif

constexpr int64_t kTileHeight = 16;
constexpr int64_t kTileSums = kTileHeight * kLanes;

struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 32, 32, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 8, 8};
};
// Of tiles: 0 to 3 are sums, 4 and 5 rows, 6 and 7 blocks of a panel.
class Tiles {
 public:
  Tiles() {
    static constexpr TileShapes kShapes;
    asm volatile("ldtilecfg %0" : : "m"(kShapes));
  }
  ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};
template <int kTile>
FAST_INLINE void load_tile(const uint8_t* p, int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(p), "r"(stride) : "memory");
}
template <int kSums, int kRows, int kBlock>
FAST_INLINE void multiply_tiles(int32_t* sums) {
  asm volatile("tilezero %%tmm%c0" : : "i"(kSums));
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kBlock));
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)"
               :
               : "i"(kSums), "r"(sums), "r"(kLanes * sizeof(int32_t))
               : "memory");
}

// The sums of a block. Two take turns, so that one is computed while the other is added up.
template <bool kFine>
struct TileSums {
  alignas(64) int32_t high[kTileSums], low[kFine ? kTileSums : 1];

  template <int kTurn>
  FAST_INLINE void multiply(const Product& p, const uint8_t* rows, const uint8_t* block) {
    load_tile<6 + kTurn>(block, 4 * kLanes);
    load_tile<4 + kTurn>(rows, p.stride);
    multiply_tiles<2 * kTurn, 4 + kTurn, 6 + kTurn>(high);
    if constexpr (kFine) {
      load_tile<4 + kTurn>(rows + p.plane, p.stride);
      multiply_tiles<2 * kTurn + 1, 4 + kTurn, 6 + kTurn>(low);
    }
  }
  FAST_INLINE Floats row(int64_t r) const {
    const Ints sum = load_ints(high + r * kLanes);
    if constexpr (kFine) return to_floats(_mm512_add_epi32(times_128(sum), load_ints(low + r * kLanes)));
    return to_floats(sum);
  }
};

// What 16 rows have for each block: `scale`, and `less`, which is taken from each value: [blocks][16], 0 behind the
// last.
struct TileScales {
  float *scale, *less;
  bool any_less;

  TileScales(const Product& p, int64_t count, int64_t blocks, float* room)
      : scale(room), less(room + blocks * kTileHeight), any_less(false) {
    __builtin_memset(room, 0, static_cast<size_t>(2 * blocks * kTileHeight) * sizeof(float));
    for (int64_t r = 0; r < count; ++r) {
      const FastRow& row = p.about[r];
      const float offset = row.coarse_offset + p.shift;
      any_less = any_less || offset != 0 || row.block_offset;
      for (int64_t b = 0, at = 0, left = p.step; b < p.k / kFastBlock; ++b, --left) {
        if (left == 0) {
          ++at;
          left = p.step;
        }
        scale[b * kTileHeight + r] = row.block_scale[at];
        less[b * kTileHeight + r] = -(offset + (row.block_offset ? row.block_offset[at] : 0.0f));
      }
    }
  }
};

// What the rows of a weight have beside their whole numbers: a scale for each; one for each block; also an offset.
enum class TileForm { rows, scaled, shifted };

// The sums of block b on top of the totals; `block`: its part of the panel.
template <TileForm kForm, bool kFine>
FAST_INLINE void add_tile(const TileSums<kFine>& sums, const TileScales* scales, int64_t b,
                          const uint8_t* block, Floats* totals) {
  const uint8_t* beside = block + kBlockBytes * kLanes;
  const Floats scale = load_floats(beside);
  const Floats x = kForm == TileForm::shifted ? load_floats(beside + 4 * kLanes) : scale;
  FAST_UNROLL_ROWS
  for (int64_t r = 0; r < kTileHeight; ++r) {
    if constexpr (kForm == TileForm::rows) {
      totals[r] = multiply_add(sums.row(r), scale, totals[r]);
    } else {
      Floats d = multiply(sums.row(r), scale);
      if (kForm == TileForm::shifted) d = multiply_add(x, all_floats(scales->less[b * kTileHeight + r]), d);
      totals[r] = multiply_add(d, all_floats(scales->scale[b * kTileHeight + r]), totals[r]);
    }
  }
}

// Up to 16 rows by a panel.
template <TileForm kForm, bool kFine>
void multiply_by_tiles(const Product& p, int64_t count, const TileScales* scales, int64_t columns, float* out,
                       int64_t out_stride) {
  TileSums<kFine> even, odd;
  Floats totals[kTileHeight];
  FAST_UNROLL_ROWS
  for (Floats& t : totals) t = zero_floats();
  const int64_t blocks = fast_padded(p.k) / kFastBlock;  // an even number
  const uint8_t *rows = p.rows, *block = p.panel;
  even.template multiply<0>(p, rows, block);
  for (int64_t b = 0; b < blocks; b += 2) {
    const uint8_t *next = block + kPanelBlock, *third = next + kPanelBlock;
    odd.template multiply<1>(p, rows + kFastBlock, next);
    add_tile<kForm, kFine>(even, scales, b, block, totals);
    rows += 2 * kFastBlock;
    if (b + 2 < blocks) even.template multiply<0>(p, rows, third);
    add_tile<kForm, kFine>(odd, scales, b + 1, next, totals);
    block = third;
  }
  const Floats x = load_floats(block);
  const auto mask = static_cast<__mmask16>((1u << columns) - 1);
  FAST_UNROLL_ROWS
  for (int64_t r = 0; r < kTileHeight; ++r) {
    if (r >= count) continue;
    if constexpr (kForm == TileForm::rows) {
      const FastRow& row = p.about[r];
      const float offset = (kFine ? row.offset : row.coarse_offset) + p.shift;
      totals[r] = multiply(subtract(totals[r], multiply(x, all_floats(offset))),
                           all_floats(kFine ? row.scale : row.coarse_scale));
    }
    _mm512_mask_storeu_ps(out + r * out_stride, mask, totals[r]);
  }
}

template <class S, bool kFine>
void tile_gemm_of(int64_t block, const FastRow* rows, int64_t count, const FastPanels& x, float* out,
                  int64_t out_stride, std::byte* room) {
  auto* bytes = reinterpret_cast<uint8_t*>(room);
  const int64_t padded = fast_padded(x.k), stride = kFine ? 2 * padded : padded;
  const int64_t panel_bytes = fast_panel_bytes(x.k, kLanes, kValueBytes);
  for (int64_t r = 0; r < count; ++r)
    expand_row<S, kFine ? RowForm::fine : RowForm::plain>(rows[r], x.k, bytes + r * stride);
  auto* beside =
      reinterpret_cast<float*>(bytes + (count + kTileHeight - 1) / kTileHeight * kTileHeight * stride);
  const Tiles tiles;
  for (int64_t r = 0; r < count; r += kTileHeight) {
    Product p{.rows = bytes + r * stride,
              .stride = stride,
              .plane = padded,
              .fine = kFine,
              .about = rows + r,
              .k = x.k,
              .step = block / kFastBlock,
              .panel = reinterpret_cast<const uint8_t*>(x.data),
              .panel_bytes = panel_bytes,
              .shift = kFine ? kFineShift : S::kCoarseShift};
    const int64_t some = count - r < kTileHeight ? count - r : kTileHeight;
    std::optional<TileScales> scales;
    if (block > 0 && !kFine) scales.emplace(p, some, padded / kFastBlock, beside);
    for (int64_t c = 0; c < x.columns; c += kLanes, p.panel += panel_bytes) {
      const int64_t columns = x.columns - c < kLanes ? x.columns - c : kLanes;
      float* to = out + r * out_stride + c;
      if (!scales)
        multiply_by_tiles<TileForm::rows, kFine>(p, some, nullptr, columns, to, out_stride);
      else if (scales->any_less)
        multiply_by_tiles<TileForm::shifted, false>(p, some, &*scales, columns, to, out_stride);
      else
        multiply_by_tiles<TileForm::scaled, false>(p, some, &*scales, columns, to, out_stride);
    }
  }
}

inline void tile_gemm_level(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count,
                            const FastPanels& x, float* out, int64_t out_stride, std::byte* room) {
  with_expanded(kind, fine, [&](auto* type, auto is_fine) {
    tile_gemm_of<std::remove_pointer_t<decltype(type)>, is_fine>(block, rows, count, x, out, out_stride,
                                                                 room);
  });
}
