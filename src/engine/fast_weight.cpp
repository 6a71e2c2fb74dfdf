#include "engine/fast_weight.h"

#include <algorithm>
#include <cmath>

namespace anemone {
namespace {

std::optional<FastKind> kind_of(const StoredTensor::Layout& layout, int64_t k) {
  const bool table = layout.indices();
  const auto packed = [&](FastKind kind) {  // rows must begin with a byte
    return k * fast_bits(kind) % 8 == 0 ? std::optional(kind) : std::nullopt;
  };
  switch (layout.dtype) {
    case DType::int8: return table ? std::nullopt : std::optional(FastKind::int8);
    case DType::uint8: return table ? FastKind::table8 : FastKind::uint8;
    case DType::uint6: return table ? packed(FastKind::table6) : std::nullopt;
    case DType::int4: return table ? std::nullopt : packed(FastKind::number4);
    case DType::uint4: return packed(table ? FastKind::table4 : FastKind::number4);
    case DType::uint3: return table ? packed(FastKind::table3) : std::nullopt;
    case DType::uint2: return table ? packed(FastKind::table2) : std::nullopt;
    case DType::uint1: return table ? packed(FastKind::table1) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<FastWeight> FastWeight::make(const StoredTensor::Layout& layout, int64_t rows, int64_t k) {
  if (!layout.data || rows == 0 || k == 0 || layout.columns_per_scale % kFastBlock != 0) return std::nullopt;
  const std::optional<FastKind> kind = kind_of(layout, k);
  if (!kind) return std::nullopt;
  FastWeight weight(layout, k, *kind);
  if (fast_is_table(*kind) ? !weight.make_tables(rows) : layout.rows_per_index != 1) return std::nullopt;
  if (*kind == FastKind::number4) {
    weight.tables_.resize(kFastNumberBytes);
    fast_numbers(layout.dtype == DType::int4, weight.tables_.data());
  }
  return weight;
}

bool FastWeight::make_tables(int64_t rows) {
  const int bits = fast_bits(kind_);
  const int64_t entries = int64_t{1} << bits, bytes = fast_table_bytes(bits), shared = layout_.rows_per_index;
  fine_.resize(static_cast<size_t>((rows + kAlike - 1) / kAlike));
  if (!layout_.lut) {  // too many to be kept: only the first one is looked at
    std::vector<float> values(static_cast<size_t>(entries));
    std::vector<std::byte> table(static_cast<size_t>(bytes));
    layout_.tables->read(0, entries, values.data());
    const FastScales scales = fast_table(values.data(), bits, table.data());
    fine_.assign(fine_.size(), !fast_coarse_fits(values.data(), bits, scales));
    return true;
  }
  const int64_t count = (rows / shared + layout_.rows_per_lut - 1) / layout_.rows_per_lut * shared;
  tables_.resize(static_cast<size_t>(count * bytes));
  std::vector<bool> fits;
  for (int64_t t = 0; t < count; ++t) {
    const float* values = layout_.lut + t * entries;
    scales_.push_back(fast_table(values, bits, tables_.data() + t * bytes));
    if (!scales_.back().finite) return false;
    fits.push_back(fast_coarse_fits(values, bits, scales_.back()));
  }
  for (int64_t row = 0; row < rows; ++row)
    if (!fits[static_cast<size_t>(row / shared / layout_.rows_per_lut * shared + row % shared)])
      fine_[static_cast<size_t>(row / kAlike)] = true;
  return true;
}

void FastWeight::prepare(int64_t first, int64_t count, Room& room) const {
  const int64_t bytes = k_ * fast_bits(kind_) / 8;
  if (layout_.rows_per_index == 1)  // nearly always; a division costs as much as some elements
    for (int64_t i = 0; i < count; ++i) room.rows[i].data = layout_.data + (first + i) * bytes;
  else
    for (int64_t i = 0; i < count; ++i)
      room.rows[i].data = layout_.data + (first + i) / layout_.rows_per_index * bytes;
  fast_is_table(kind_) ? prepare_tables(first, count, room) : prepare_numbers(first, count, room);
}

void FastWeight::prepare_tables(int64_t first, int64_t count, Room& room) const {
  if (!layout_.lut) return read_tables(first, count, room);
  const int64_t bytes = fast_table_bytes(fast_bits(kind_)), shared = layout_.rows_per_index;
  const int64_t per = layout_.rows_per_lut;
  int64_t table = first / shared / per * shared + first % shared;
  for (int64_t i = 0, left = per - first % per; i < count; ++i) {
    const int64_t row = first + i;
    if (shared > 1) {
      table = row / shared / per * shared + row % shared;
    } else if (left-- == 0) {
      ++table;
      left = per - 1;
    }
    const FastScales& scales = scales_[static_cast<size_t>(table)];
    const float scale = layout_.scale ? layout_.scale[row / layout_.rows_per_scale] : 1.0f;
    FastRow& out = room.rows[i];
    out.table = tables_.data() + table * bytes;
    out.scale = scale * scales.fine;
    out.offset = kFastMiddle;
    out.coarse_scale = scale * scales.coarse;
    out.coarse_offset = scales.coarse_offset;
  }
}

// Tables that are not kept, for the rows at hand. One that is not finite makes its rows NaN.
void FastWeight::read_tables(int64_t first, int64_t count, Room& room) const {
  const int bits = fast_bits(kind_);
  const int64_t entries = int64_t{1} << bits, bytes = fast_table_bytes(bits), per = layout_.rows_per_lut;
  const int64_t begin = first / per, end = (first + count - 1) / per + 1;
  room.values.resize(static_cast<size_t>((end - begin) * entries));
  room.tables.resize(static_cast<size_t>((end - begin) * bytes));
  layout_.tables->read(begin * entries, end * entries, room.values.data());
  for (int64_t t = begin; t < end; ++t) {
    std::byte* table = room.tables.data() + (t - begin) * bytes;
    const FastScales scales = fast_table(room.values.data() + (t - begin) * entries, bits, table);
    for (int64_t row = std::max(first, t * per); row < std::min(first + count, (t + 1) * per); ++row) {
      const float scale =
          (layout_.scale ? layout_.scale[row / layout_.rows_per_scale] : 1.0f) * (scales.finite ? 1.0f : NAN);
      FastRow& out = room.rows[row - first];
      out.table = table;
      out.scale = scale * scales.fine;
      out.offset = kFastMiddle;
      out.coarse_scale = scale * scales.coarse;
      out.coarse_offset = scales.coarse_offset;
    }
  }
}

void FastWeight::prepare_numbers(int64_t first, int64_t count, Room& room) const {
  const int64_t blocks = block() > 0 ? k_ / block() : 1;
  const float middle = kind_ == FastKind::number4 && layout_.dtype == DType::int4 ? 8.0f : 0.0f;
  // One division for all rows: it costs as much as many elements.
  const int64_t begin = first / layout_.rows_per_scale * blocks;
  int64_t at = begin, left = layout_.rows_per_scale - first % layout_.rows_per_scale;
  const float* scale = nullptr;  // of the blocks from `begin` on
  if (block() > 0) {
    const int64_t scales = ((first + count - 1) / layout_.rows_per_scale + 1) * blocks - begin;
    scale = layout_.scale.read(begin, scales, room.values);
    if (!layout_.scale.floats()) layout_.scale.fetch(begin + scales, scales);  // for the next rows
  }
  for (int64_t i = 0; i < count; ++i, --left) {
    if (left == 0) {
      at += blocks;
      left = layout_.rows_per_scale;
    }
    FastRow& out = room.rows[i];
    out.table = tables_.data();
    out.offset = middle;
    out.coarse_offset = 0;
    if (block() > 0) {
      out.block_scale = scale + (at - begin);
      out.block_offset = layout_.offset ? layout_.offset + at : nullptr;
      continue;
    }
    out.scale = out.coarse_scale = layout_.scale ? layout_.scale[at] : 1.0f;
    if (layout_.offset) {
      out.offset += layout_.offset[at];
      out.coarse_offset = layout_.offset[at];
    }
  }
}

}  // namespace anemone
