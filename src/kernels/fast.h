// Products in `fast` arithmetic: weights as they are stored, activations as whole numbers of 8 bits with a scale
// for every 32 of them. Sums within a block are exact.
//     FastColumn x = fast_column(vector, k, fast_splits(kind), room);
//     fast_matvec(FastKind::int8, 0, true, rows, count, k, &x, 1, &out);   // out[r] = scale * sum of (w - offset) * x
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace anemone {

inline constexpr int64_t kFastBlock = 32;  // values of a column that share a scale
inline constexpr int64_t kFastStep = 64;   // columns are padded with zeros to a multiple of it
// At most so many columns in fast_matvec. The bits of a column do not depend on the others.
inline constexpr int64_t kFastColumns = 8;

// How the elements of a row lie: bytes; codes of 1 to 8 bits for the values of a table; 4 bits that are a number.
enum class FastKind { int8, uint8, table1, table2, table3, table4, table6, table8, number4 };
int fast_bits(FastKind kind);
constexpr bool fast_is_table(FastKind kind) { return kind >= FastKind::table1 && kind <= FastKind::table8; }

// A row: value = scale * (q - offset), or with blocks block_scale[b] * (q - offset - block_offset[b]). For tables q
// is what `table` (see fast_table) says, for 4-bit numbers too. Products can take the coarse side of tables; those of
// many columns take that of 4-bit numbers.
struct FastRow {
  const std::byte* data = nullptr;
  const std::byte* table = nullptr;
  float scale = 1, offset = 0;
  float coarse_scale = 1, coarse_offset = 0;
  const float* block_scale = nullptr;   // one for every `block` columns
  const float* block_offset = nullptr;  // may be empty
};

// A table as the kernels take it: two planes of 7 bits (14-bit numbers about kFastMiddle), then the same rounded to
// 8 bits, signed. Its values are fine * (14 bits - kFastMiddle), or coarse * (8 bits - coarse_offset); 0 stays 0.
inline constexpr float kFastMiddle = 8192;
int64_t fast_table_bytes(int bits);
struct FastScales {
  float fine = 1, coarse = 1, coarse_offset = 0;
  bool finite = true;  // else the table is of no use
};
FastScales fast_table(const float* values, int bits, std::byte* out) noexcept;
// What 8 bits round off is small beside the distances of the values, or beside the values themselves.
bool fast_coarse_fits(const float* values, int bits, const FastScales& scales);
// The table of FastKind::number4: the 16 patterns as 0 … 15 (for signed ones: plus 8), then as they are, signed.
inline constexpr int64_t kFastNumberBytes = 32;
void fast_numbers(bool is_signed, std::byte* out);

// A column as fast_matvec takes it, in memory of the caller: made by fast_column() only.
struct FastColumn {
  const int8_t* values = nullptr;  // padded to kFastStep
  const float* scales = nullptr;   // padded / 4, behind the values: that of every four of them
  const float* sums = nullptr;     // padded / 32: the sum of a block's values, scaled
  const float* total = nullptr;    // one: the sum of all
  const int8_t* split = nullptr;   // values and scales once more, as elements of 4 bits lie
};
int64_t fast_column_bytes(int64_t k);  // a multiple of 64
// fast_matvec takes FastColumn::split for this kind.
bool fast_splits(FastKind kind);
// x: k floats; `room` is aligned to 64 bytes. A block that is not finite gives NaN. `split`: that part is needed too.
FastColumn fast_column(const float* x, int64_t k, bool split, std::byte* room) noexcept;
FastColumn fast_column_at(const std::byte* room, int64_t k) noexcept;  // one that was made there

// out[c][r] for every row and each of up to kFastColumns columns. `block`: columns of the weight that share a scale, a
// multiple of kFastBlock; 0: the whole row. `fine`: tables with all their 14 bits, at up to twice the work; else
// coarse.
void fast_matvec(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count, int64_t k,
                 const FastColumn* x, int64_t columns, float* const* out) noexcept;

// Many columns: packed once for all threads, `fast_panel_columns()` side by side.
struct FastPanels {
  int64_t k = 0, columns = 0;
  const std::byte* data = nullptr;
};
int64_t fast_panel_columns() noexcept;
int64_t fast_panels_bytes(int64_t k, int64_t columns) noexcept;
// Packs the panels [begin, end) of x, whose element (row, column) is at x[row * stride + column].
void fast_pack(const float* x, int64_t stride, int64_t k, int64_t columns, int64_t begin, int64_t end,
               std::byte* out) noexcept;
// out[r * out_stride + c] for every row and column, in another order than fast_matvec; `fine` as there. `room`: for the
// rows as bytes, fast_room_bytes(fine, count, k), aligned to 64 bytes.
int64_t fast_room_bytes(bool fine, int64_t count, int64_t k) noexcept;
void fast_gemm(FastKind kind, int64_t block, bool fine, const FastRow* rows, int64_t count,
               const FastPanels& x, float* out, int64_t out_stride, std::byte* room) noexcept;

// So many rows go through fast_gemm() best at a time.
int64_t fast_gemm_rows() noexcept;

// The plain twin of both products: values as they are defined, one by one, sums in double. `coarse`: as fast_gemm takes
// the rows.
void fast_product_plain(FastKind kind, int64_t block, const FastRow* rows, int64_t count, int64_t k,
                        const FastColumn* x, int64_t columns, bool coarse, float* const* out) noexcept;

// The sets of kernels that this machine can run, best first: "amx", "avx512" (VNNI and VBMI), "avx512bw", "avx2",
// "portable". The first one runs, unless tests and benchmarks choose another; while nothing else runs.
std::span<const char* const> fast_level_names() noexcept;
const char* fast_level_name() noexcept;
void fast_choose_level(std::string_view name) noexcept;

}  // namespace anemone
