// What is inside a package, counted: operations by kind, weights by the form they are stored in.
//     PackageSummary s = summarize(package);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "package/package.h"

namespace anemone {

// One constant of at least ten elements, after decompression.
struct WeightInfo {
  std::string name;      // of the value
  std::string function;  // the first one that has it
  std::string form;    // "fp16", "int8 per channel", "palette 4-bit", "sparse", "sparse + palette 4-bit" …
  Type type;           // what the program sees
  uint64_t bytes = 0;  // stored, scales and tables included
  int uses = 1;        // by functions that share it

  double bits_per_weight() const;
};

struct PackageSummary {
  std::map<std::string, std::map<std::string, int>> ops;  // function → op → count; constants apart
  std::map<std::string, int> constants;                   // function → count of const and constexpr
  std::vector<WeightInfo> weights;
  uint64_t weight_file_bytes = 0;
  uint64_t program_bytes = 0;  // model.mlmodel or model.mil
};

PackageSummary summarize(const Package& package);

// How a const or constexpr operation is stored, with all that it is made of.
struct StoredForm {
  std::string form;  // as in WeightInfo
  uint64_t bytes = 0;
};
StoredForm stored_form(const Operation& op);

}  // namespace anemone
