#include "engine/weight_rows.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace anemone {
namespace {

constexpr float kZero = 0;

// What the 16 patterns of 4 bits stand for as integers.
constexpr float kSigned[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
constexpr float kUnsigned[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

}  // namespace

WeightRows::WeightRows(std::shared_ptr<const StoredTensor> stored, int64_t rows, int64_t k)
    : stored_(std::move(stored)), layout_(stored_->layout()), rows_(rows), k_(k), kind_(find_kind()) {
  if (kind_) end_ = layout_.data + rows_ / layout_.rows_per_index * k_ * weight_bits(*kind_) / 8;
}

std::optional<WeightKind> WeightRows::find_kind() const {
  if (!layout_.data) return std::nullopt;
  // Rows of packed elements must begin with a byte.
  const auto packed = [&](WeightKind kind) {
    return k_ * weight_bits(kind) % 8 == 0 ? std::optional(kind) : std::nullopt;
  };
  const bool table = layout_.indices();
  switch (layout_.dtype) {
    case DType::fp32: return WeightKind::fp32;
    case DType::fp16: return WeightKind::fp16;
    case DType::int8:
      return layout_.offset && layout_.columns_per_scale == 0 ? WeightKind::int8_shifted : WeightKind::int8;
    case DType::uint8: return table ? WeightKind::table8 : WeightKind::uint8_shifted;
    case DType::uint6: return table ? packed(WeightKind::table6) : std::nullopt;
    case DType::int4:
    case DType::uint4: return packed(WeightKind::table4);
    case DType::uint3: return table ? packed(WeightKind::table3) : std::nullopt;
    case DType::uint2: return table ? packed(WeightKind::table2) : std::nullopt;
    case DType::uint1: return table ? packed(WeightKind::table1) : std::nullopt;
    default: return std::nullopt;
  }
}

bool WeightRows::same(const WeightRows& other) const {
  if (stored_ == other.stored_) return rows_ == other.rows_ && k_ == other.k_;
  const StoredTensor::Layout &a = layout_, &b = other.layout_;
  if (!kind_ || kind_ != other.kind_ || rows_ != other.rows_ || k_ != other.k_ || a.data != b.data ||
      a.dtype != b.dtype || a.tables != b.tables || a.rows_per_scale != b.rows_per_scale ||
      a.columns_per_scale != b.columns_per_scale || a.rows_per_lut != b.rows_per_lut ||
      a.rows_per_index != b.rows_per_index)
    return false;
  const auto equal = [](const float* x, const float* y, int64_t count) {
    return x == y || (x && y && std::memcmp(x, y, static_cast<size_t>(count) * sizeof(float)) == 0);
  };
  const int64_t blocks = a.columns_per_scale > 0 ? k_ / a.columns_per_scale : 1;
  const int64_t scales = (rows_ + a.rows_per_scale - 1) / a.rows_per_scale * blocks;
  const int64_t index_rows = (rows_ + a.rows_per_index - 1) / a.rows_per_index;
  const int64_t tables = (index_rows + a.rows_per_lut - 1) / a.rows_per_lut * a.rows_per_index;
  return a.scale.same(b.scale, scales) && equal(a.offset, b.offset, scales) &&
         equal(a.lut, b.lut, tables << weight_bits(*kind_));
}

void WeightRows::prepare(int64_t first, int64_t count, Room& room) const {
  room.first = first;
  if (!kind_) return;
  if (const int64_t block = layout_.columns_per_scale; block > 0) {
    const int64_t begin = first / layout_.rows_per_scale,
                  end = (first + count - 1) / layout_.rows_per_scale + 1;
    room.block_scale = layout_.scale.read(begin * (k_ / block), (end - begin) * (k_ / block), room.scales);
  }
  if (numbers()) return;
  const int64_t bits = weight_bits(*kind_), entries = int64_t{1} << bits, bytes = k_ * bits / 8;
  const int64_t shared = layout_.rows_per_index;
  for (int64_t i = 0; i < count; ++i)
    room.rows[i].data = layout_.data + (shared == 1 ? first + i : (first + i) / shared) * bytes;
  if (layout_.lut) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = first + i, table = row / shared / layout_.rows_per_lut * shared + row % shared;
      room.rows[i].beside = layout_.lut + table * entries;
    }
  } else if (layout_.tables) {
    const int64_t begin = first / layout_.rows_per_lut, end = (first + count - 1) / layout_.rows_per_lut + 1;
    room.tables.resize(static_cast<size_t>((end - begin) * entries));
    layout_.tables->read(begin * entries, end * entries, room.tables.data());
    for (int64_t i = 0; i < count; ++i)
      room.rows[i].beside = room.tables.data() + ((first + i) / layout_.rows_per_lut - begin) * entries;
  } else {
    prepare_integers(first, count, room);
  }
}

// Integers less their row's offset; offsets of blocks are for widen().
void WeightRows::prepare_integers(int64_t first, int64_t count, Room& room) const {
  const bool offsets = layout_.offset && layout_.columns_per_scale == 0;
  const bool nibbles = *kind_ == WeightKind::table4;
  const float* integers = layout_.dtype == DType::int4 ? kSigned : kUnsigned;
  if (nibbles && offsets) room.tables.resize(static_cast<size_t>(16 * count));
  for (int64_t i = 0; i < count; ++i) {
    const float* offset = offsets ? layout_.offset + (first + i) / layout_.rows_per_scale : &kZero;
    room.rows[i].beside = nibbles ? integers : offset;
    if (!nibbles || !offsets) continue;
    float* table = room.tables.data() + 16 * i;
    for (int64_t q = 0; q < 16; ++q) table[q] = integers[q] - *offset;
    room.rows[i].beside = table;
  }
}

void WeightRows::multiply(const Room& room, int64_t count, const float* x, int64_t vectors, float* out,
                          int64_t out_stride) const {
  if (numbers())
    matvec(*kind_, layout_.data + room.first * k_ * weight_bits(*kind_) / 8, count, k_, x, vectors, out,
           out_stride);
  else
    matvec(*kind_, room.rows, count, end_, k_, x, vectors, out, out_stride);
}

void WeightRows::widen(const Room& room, int64_t i, int64_t from, int64_t count, float* out) const {
  const int64_t row = room.first + i;
  if (!kind_) return stored_->read(row * k_ + from, row * k_ + from + count, out);
  const int64_t bits = weight_bits(*kind_);
  const WeightRow whole = numbers() ? WeightRow{layout_.data + row * k_ * bits / 8, nullptr} : room.rows[i];
  anemone::widen(*kind_, {whole.data + from * bits / 8, whole.beside}, end_, count, out);
  if (const int64_t block = layout_.columns_per_scale; block > 0) {
    const int64_t base = row / layout_.rows_per_scale * (k_ / block);
    const int64_t first = room.first / layout_.rows_per_scale * (k_ / block);
    shift_and_scale(out, from, count, block, room.block_scale + (base - first),
                    layout_.offset ? layout_.offset + base : nullptr);
  }
}

void WeightRows::fetch(int64_t row, int64_t from, int64_t count) const {
  if (!kind_ || row >= rows_) return;
  const int64_t bits = weight_bits(*kind_);
  const std::byte* data = layout_.data + (row / layout_.rows_per_index * k_ + from) * bits / 8;
  for (int64_t i = 0; i < count * bits / 8; i += 64) __builtin_prefetch(data + i, 0, 2);
}

}  // namespace anemone
