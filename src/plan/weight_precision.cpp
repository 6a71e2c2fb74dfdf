#include "plan/weight_precision.h"

#include "base/error.h"

namespace anemone {
namespace {

using Kind = WeightPrecision::Kind;

constexpr WeightPrecision kPrecisions[] = {
    {Kind::fp16, 16, 0},   {Kind::int8, 8, 0},     {Kind::palette, 8, 0}, {Kind::palette, 6, 0},
    {Kind::palette, 4, 0}, {Kind::palette, 4, 16}, {Kind::palette, 2, 0}, {Kind::palette, 2, 16},
};

constexpr uint64_t kRecord = 64;

// A blob behind its record, filled up to where the next record may start.
constexpr uint64_t blob(uint64_t bytes) { return kRecord + (bytes + 63) / 64 * 64; }

uint64_t count(int64_t rows, int64_t columns) {
  return static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns);
}

// Bytes of the scales or tables.
uint64_t table_bytes(const WeightPrecision& precision, int64_t rows) {
  switch (precision.kind) {
    case Kind::fp16: return 0;
    case Kind::int8: return static_cast<uint64_t>(rows) * 2;
    case Kind::int8_tensor: return 2;
    case Kind::palette: {
      const int64_t groups =
          precision.group_rows > 0 ? (rows + precision.group_rows - 1) / precision.group_rows : 1;
      return static_cast<uint64_t>(groups) * (uint64_t{2} << precision.bits);
    }
  }
  return 0;
}

uint64_t data_bytes(const WeightPrecision& precision, int64_t rows, int64_t columns) {
  return (count(rows, columns) * static_cast<uint64_t>(precision.bits) + 7) / 8;
}

bool streams(const WeightPrecision& precision, const Chip& chip) {
  if (precision.kind == Kind::palette) return chip.streams().palettes;
  return precision.kind == Kind::fp16 || chip.streams().int8;
}

}  // namespace

WeightPrecision WeightPrecision::parse(std::string_view text) {
  if (text == "int8-tensor") return {Kind::int8_tensor, 8, 0};
  for (const WeightPrecision& precision : kPrecisions)
    if (precision.name() == text) return precision;
  if (text.starts_with("lut") && text.size() > 3) {  // any group size
    const size_t group = text.find("-g");
    const std::string_view bits = text.substr(3, group == std::string_view::npos ? group : group - 3);
    int64_t rows = 0;
    bool good = bits == "1" || bits == "2" || bits == "3" || bits == "4" || bits == "6" || bits == "8";
    if (group != std::string_view::npos) {
      for (const char c : text.substr(group + 2)) {
        good = good && c >= '0' && c <= '9' && rows < 1'000'000;
        if (good) rows = rows * 10 + (c - '0');
      }
      good = good && rows > 0;
    }
    if (good) return {Kind::palette, bits[0] - '0', rows};
  }
  std::string known;
  for (const WeightPrecision& precision : kPrecisions)
    known += (known.empty() ? "" : ", ") + precision.name();
  throw errorf("there is no such precision")
      .found("'" + std::string(text.substr(0, 40)) + "'")
      .expected(known + ", int8-tensor")
      .hint("lutB-gN is a palette of B bits for every N rows");
}

std::string WeightPrecision::name() const {
  switch (kind) {
    case Kind::fp16: return "fp16";
    case Kind::int8: return "int8";
    case Kind::int8_tensor: return "int8-tensor";
    case Kind::palette: break;
  }
  return group_rows > 0 ? fmt::format("lut{}-g{}", bits, group_rows) : fmt::format("lut{}", bits);
}

uint64_t WeightPrecision::bytes(int64_t rows, int64_t columns) const {
  return data_bytes(*this, rows, columns) + table_bytes(*this, rows);
}

uint64_t WeightPrecision::file_bytes(int64_t rows, int64_t columns) const {
  const uint64_t tables = table_bytes(*this, rows);
  // Fewer than 10 values stay in the program.
  return blob(data_bytes(*this, rows, columns)) + (tables >= 20 ? blob(tables) : 0);
}

uint64_t WeightPrecision::read_bytes(int64_t rows, int64_t columns, const Chip& chip) const {
  return streams(*this, chip) ? bytes(rows, columns) : count(rows, columns) * 2;
}

// From published runs: INT8 and fp16 reach the rate, palettes of 4 and 6 bits mixed 0.9, of 4 bits 0.8 of it.
double WeightPrecision::efficiency() const {
  if (kind != Kind::palette) return 1;
  return bits > 4 ? 0.9 : 0.8;
}

std::span<const WeightPrecision> all_precisions() { return kPrecisions; }

uint64_t vector_file_bytes(int64_t elements) {
  return elements < 10 ? 0 : blob(static_cast<uint64_t>(elements) * 2);
}

}  // namespace anemone
