#include "compress/form_bytes.h"

#include <algorithm>

#include "base/shape.h"

namespace anemone {
namespace {

constexpr uint64_t kHalfBytes = 2;

uint64_t positive(int64_t n) { return static_cast<uint64_t>(std::max<int64_t>(0, n)); }

int64_t groups_of(int64_t count, int64_t size) { return size > 0 ? (count + size - 1) / size : 1; }

// Elements that pruning leaves, as compress/prune.cpp counts them.
int64_t kept_by(const PruneForm& p, int64_t rows, int64_t columns) {
  const int64_t count = rows * columns;
  if (p.m > 0) {
    const int64_t rest = columns % p.m;
    const int64_t gone = columns / p.m * p.n + (rest ? std::max<int64_t>(0, p.n - (p.m - rest)) : 0);
    return std::max<int64_t>(1, count - rows * gone);
  }
  if (!p.sparsity || *p.sparsity == 0) return count;
  return std::max<int64_t>(1, count - static_cast<int64_t>(*p.sparsity * static_cast<double>(count - 1)) - 1);
}

void add_palette(const PaletteForm& p, int64_t rows, int64_t values, StoredParts& out) {
  const uint64_t books = positive(p.channel_scale ? rows : groups_of(rows, p.group));
  const uint64_t entries = books * (uint64_t{1} << p.bits) * positive(p.vector);
  out.data = packed_bytes(values / p.vector, p.bits);
  out.tables = entries * (p.int8_table ? 1 : kHalfBytes);
  if (p.int8_table || p.channel_scale) out.scales = books * kHalfBytes;
}

void add_integers(const IntegerForm& q, int64_t rows, int64_t columns, int64_t values, StoredParts& out) {
  const int bits = dtype_bits(q.dtype);
  const int64_t scales = q.per == IntegerForm::Per::tensor    ? 1
                         : q.per == IntegerForm::Per::channel ? rows
                                                              : rows * groups_of(columns, q.block);
  out.data = packed_bytes(values, bits);
  out.scales = positive(scales) * kHalfBytes;
  if (!q.symmetric || !dtype_is_signed(q.dtype)) out.offsets = packed_bytes(scales, bits);
}

}  // namespace

StoredParts stored_parts(const StorageForm& form, int64_t rows, int64_t columns) {
  StoredParts out;
  const int64_t count = rows * columns, values = form.prune ? kept_by(*form.prune, rows, columns) : count;
  if (form.prune) out.mask = packed_bytes(count, 1);
  if (form.palette)
    add_palette(*form.palette, rows, values, out);
  else if (form.integers)
    add_integers(*form.integers, rows, columns, values, out);
  else
    out.data = positive(values) * kHalfBytes;
  return out;
}

uint64_t stored_bytes(const StorageForm& form, int64_t rows, int64_t columns) {
  return stored_parts(form, rows, columns).sum();
}

}  // namespace anemone
