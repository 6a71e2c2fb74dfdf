#include "compress/sources.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/shape.h"

namespace anemone {
namespace {

constexpr int64_t kTile = 1 << 18;  // codes made at once

using Fill = std::function<void(int64_t, int64_t, std::span<std::byte>)>;

class FilledSource : public WeightSource {
 public:
  FilledSource(Type type, Fill fill) : type_(std::move(type)), fill_(std::move(fill)) {}
  const Type& type() const override { return type_; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override { fill_(begin, end, out); }

 private:
  Type type_;
  Fill fill_;
};

Constant::Source make(Type type, Fill fill) {
  return std::make_shared<FilledSource>(std::move(type), std::move(fill));
}

int64_t row_size(const std::vector<int64_t>& dims) {
  return element_count(dims) / std::max<int64_t>(1, dims[0]);
}

// Rows of codes, packed tile by tile. Tiles are multiples of 8 rows and so end at whole bytes.
Constant::Source rows_source(Type type, RowCodes codes) {
  const int64_t row = row_size(type.dims());
  const int bits = dtype_bits(type.dtype);
  return make(std::move(type),
              [codes = std::move(codes), row, bits](int64_t begin, int64_t end, std::span<std::byte> out) {
                const int64_t step = std::max<int64_t>(1, kTile / std::max<int64_t>(1, row) / 8) * 8;
                std::vector<uint8_t> tile;
                std::byte* to = out.data();
                for (int64_t r = begin; r < end; r += step) {
                  const int64_t stop = std::min(end, r + step);
                  tile.resize(static_cast<size_t>((stop - r) * row));
                  codes(r, stop, tile.data());
                  pack_codes(tile.data(), (stop - r) * row, bits, to);
                  to += (stop - r) * row * bits / 8;
                }
              });
}

// The same codes as one long row of bytes: an element may lie across two of them.
Constant::Source bytes_source(const std::vector<int64_t>& dims, int bits, RowCodes codes) {
  const int64_t count = element_count(dims), row = row_size(dims);
  const auto bytes = static_cast<int64_t>(packed_bytes(count, bits));
  return make(Type::tensor(DType::uint8, {bytes}), [codes = std::move(codes), count, row, bits](
                                                       int64_t begin, int64_t end, std::span<std::byte> out) {
    // 24 bytes hold a whole number of elements of any width: 1, 2, 4, 6 or 8 bits.
    constexpr int64_t kUnit = 24;
    std::vector<uint8_t> tile;
    std::vector<std::byte> packed;
    for (int64_t at = begin; at < end;) {
      const int64_t aligned = at / kUnit * kUnit;
      const int64_t stop = std::min(end, aligned + kTile / kUnit * kUnit);
      const int64_t first = aligned * 8 / bits,
                    last = std::min(count, (stop + kUnit - 1) / kUnit * kUnit * 8 / bits);
      const int64_t first_row = first / row, last_row = (last + row - 1) / row;
      tile.resize(static_cast<size_t>((last_row - first_row) * row));
      codes(first_row, last_row, tile.data());
      packed.assign(packed_bytes(last - first, bits), std::byte{0});
      pack_codes(tile.data() + (first - first_row * row), last - first, bits, packed.data());
      std::memcpy(out.data() + (at - begin), packed.data() + (at - aligned), static_cast<size_t>(stop - at));
      at = stop;
    }
  });
}

// Calls f(row begin, row end, place of the first kept element, mask) for the rows that hold the kept elements
// [begin, end).
template <class F>
void kept_rows(const Mask& mask, int64_t row, int64_t begin, int64_t end, F f) {
  const auto& before = mask.before;
  const auto rows = static_cast<int64_t>(before.size()) - 1;
  int64_t r = std::upper_bound(before.begin(), before.end(), begin) - before.begin() - 1;
  const int64_t step = std::max<int64_t>(1, kTile / std::max<int64_t>(1, row));
  std::vector<uint8_t> bits;
  for (; r < rows && before[static_cast<size_t>(r)] < end; r += step) {
    const int64_t stop = std::min(rows, r + step);
    bits.resize(static_cast<size_t>((stop - r) * row));
    mask.rows(r, stop, bits.data());
    f(r, stop, before[static_cast<size_t>(r)], bits);
  }
}

Constant::Source kept_source(const std::shared_ptr<const Encoded>& e) {
  const int64_t row = row_size(e->dims);
  const DType dtype = e->codes ? e->code_dtype : e->dtype;
  const int bits = dtype_bits(dtype);
  return make(Type::tensor(dtype, {e->mask->kept()}),
              [e, row, bits](int64_t begin, int64_t end, std::span<std::byte> out) {
                std::vector<uint8_t> codes, kept(e->codes ? static_cast<size_t>(end - begin) : 0);
                std::vector<uint16_t> halves;
                std::vector<float> floats;
                kept_rows(*e->mask, row, begin, end,
                          [&](int64_t r, int64_t stop, int64_t place, const std::vector<uint8_t>& mask) {
                            const uint16_t* h = nullptr;
                            const float* f = nullptr;
                            if (e->codes) {
                              codes.resize(mask.size());
                              e->codes(r, stop, codes.data());
                            } else if (e->values->half()) {
                              h = e->values->halves(r * row, stop * row, halves);
                            } else {
                              f = e->values->floats(r * row, stop * row, floats);
                            }
                            for (size_t i = 0; i < mask.size(); ++i) {
                              if (!mask[i]) continue;
                              if (place >= begin && place < end) {
                                const auto to = static_cast<size_t>(place - begin);
                                if (e->codes)
                                  kept[to] = codes[i];
                                else if (h)
                                  std::memcpy(out.data() + to * 2, h + i, 2);
                                else
                                  std::memcpy(out.data() + to * 4, f + i, 4);
                              }
                              ++place;
                            }
                            if (e->values) e->values->release(r * row, stop * row);
                          });
                if (e->codes) pack_codes(kept.data(), end - begin, bits, out.data());
              });
}

Constant::Source value_source(const std::shared_ptr<const Encoded>& e) {
  const int64_t row = row_size(e->dims);
  return make(
      Type::tensor(e->dtype, e->dims), [e, row](int64_t begin, int64_t end, std::span<std::byte> out) {
        std::vector<uint16_t> halves;
        std::vector<float> floats;
        std::byte* to = out.data();
        for (int64_t at = begin * row; at < end * row; at += kTile) {
          const int64_t stop = std::min(end * row, at + kTile);
          const void* from = e->values->half() ? static_cast<const void*>(e->values->halves(at, stop, halves))
                                               : e->values->floats(at, stop, floats);
          const auto bytes = static_cast<size_t>(stop - at) * (e->values->half() ? 2 : 4);
          std::memcpy(to, from, bytes);
          to += bytes;
          e->values->release(at, stop);
        }
      });
}

Constant once(Constant::Source& made, const std::function<Constant::Source()>& make_it) {
  if (!made) made = make_it();
  return Constant::from_source(made);
}

}  // namespace

Constant Sources::codes() {
  return once(codes_, [&] { return rows_source(Type::tensor(e_->code_dtype, e_->code_dims), e_->codes); });
}

Constant Sources::packed_codes() {
  return once(packed_codes_,
              [&] { return bytes_source(e_->code_dims, dtype_bits(e_->code_dtype), e_->codes); });
}

Constant Sources::mask() {
  return once(mask_, [&] { return rows_source(Type::tensor(DType::uint1, e_->dims), e_->mask->rows); });
}

Constant Sources::packed_mask() {
  return once(packed_mask_, [&] { return bytes_source(e_->dims, 1, e_->mask->rows); });
}

Constant Sources::kept() {
  return once(kept_, [&] { return kept_source(e_); });
}

Constant Sources::values() {
  return once(values_, [&] { return value_source(e_); });
}

}  // namespace anemone
