// WeightPrecision: how the projections of a model are stored, and what that costs in bytes.
//     WeightPrecision p = WeightPrecision::parse("lut4-g16");  // 4-bit palettes, one per 16 rows
//     f.bytes(4096, 1024);                                // of a matrix with its tables
//     f.file_bytes(4096, 1024);                           // in weight.bin, with its records
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "target/chips.h"

namespace anemone {

struct WeightPrecision {
  enum class Kind { fp16, int8, int8_tensor, palette };

  Kind kind = Kind::int8;
  int bits = 8;            // per weight
  int64_t group_rows = 0;  // palette: rows that share a table; 0: one table for the matrix

  // "fp16", "int8" (a scale per row), "int8-tensor", "lut8", "lut6", "lut4", "lut2", "lut4-g16"; Error otherwise.
  static WeightPrecision parse(std::string_view text);
  std::string name() const;

  // A matrix with its scales or tables.
  uint64_t bytes(int64_t rows, int64_t columns) const;
  // The same as it lies in a weight file: every blob behind a record of 64 bytes, at multiples of 64.
  uint64_t file_bytes(int64_t rows, int64_t columns) const;
  // What a chip reads per token: precisions that it does not stream are unfolded to fp16 when compiled.
  uint64_t read_bytes(int64_t rows, int64_t columns, const Chip& chip) const;
  // Share of the weight-read rate that the precision reaches.
  double efficiency() const;

  bool operator==(const WeightPrecision&) const = default;
};

// The precisions that a plan compares, largest first.
std::span<const WeightPrecision> all_precisions();

// Of a vector of halves in a weight file; 0 where it stays in the program (fewer than 10 elements).
uint64_t vector_file_bytes(int64_t elements);

}  // namespace anemone
