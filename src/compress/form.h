// StorageForm: how a weight is to be stored.
//     StorageForm f;  f.palette = PaletteForm{.bits = 4, .group = 16};
//     f.text();                                          // "4-bit palette, groups of 16"
// A form has a mask (pruning), a palette or integers, or a mask with one of them (the joint forms of iOS 18).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mil/opset.h"
#include "mil/type.h"

namespace anemone {

struct PaletteForm {
  enum class Mode { kmeans, uniform, unique, given };

  int bits = 4;  // 1, 2, 3, 4, 6 or 8; in unique mode the most
  Mode mode = Mode::kmeans;
  int64_t group = 0;   // output channels that share a table; 0: one table for the weight
  int64_t vector = 1;  // values in an entry, along the output channels
  bool channel_scale = false;
  bool int8_table = false;  // entries are stored as int8 with a scale per table
  bool fast = false;
  std::vector<float> table;  // given: 2^bits entries of `vector` values

  bool operator==(const PaletteForm&) const = default;
};

struct IntegerForm {
  enum class Per { tensor, channel, block };

  DType dtype = DType::int8;  // int8, uint8, int4, uint4
  Per per = Per::channel;
  int64_t block = 0;  // input channels that share a scale
  bool symmetric = true;

  bool operator==(const IntegerForm&) const = default;
};

// What is set to zero. One of the three.
struct PruneForm {
  std::optional<double> sparsity;   // this share of the values, the smallest
  std::optional<double> threshold;  // values of at most this magnitude
  int64_t n = 0, m = 0;             // of every m values along the input channels the n smallest

  bool operator==(const PruneForm&) const = default;
};

struct StorageForm {
  bool keep = false;   // left as it is
  bool dense = false;  // decompressed: plain values
  std::optional<PaletteForm> palette;
  std::optional<IntegerForm> integers;
  std::optional<PruneForm> prune;

  std::string text() const;
  bool operator==(const StorageForm&) const = default;
};

// Error, saying what would work, when the parts do not go together or a number is out of range.
void check_form(const StorageForm& form);
// Error, saying what would work, when programs of that opset cannot hold the form.
void check_opset(const StorageForm& form, Opset opset);

}  // namespace anemone
