// What the corpus tests share: reading cases, running predictions, comparing arrays.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "anemone/predictor.h"

namespace anemone {

nlohmann::json read_json(const std::filesystem::path& path);

// All .npy files of a folder, by stem.
std::map<std::string, Array> read_arrays(const std::filesystem::path& folder);

// Sorted, so that runs are comparable.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);

// Empty when every |got - expected| <= atol + rtol * |expected| (NaN equals NaN, inf equals inf), but for the part of
// the values that may differ; else what differs.
std::string difference(const Array& got, const Array& expected, double atol, double rtol, bool compare_shapes,
                       double may_differ = 0);

// Counts and prints: "mil_ops: 436 passed, 0 failed".
struct Tally {
  explicit Tally(std::string title) : name(std::move(title)) {}
  ~Tally();
  void add(const std::string& what, const std::string& problem);  // empty problem: passed
  void know(const std::string& what,
            const std::string& reason);  // differs, for a reason that is written down

  std::string name;
  int passed = 0, failed = 0, known = 0;
};

}  // namespace anemone
