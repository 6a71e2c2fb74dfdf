// Compress: a package or a bundle with its weights in another form.
//     Recipe recipe;  recipe.rules.push_back({.form = …});
//     CompressReport r = compress("in.mlpackage", "out.mlpackage", {.recipe = recipe});
// Weights flow: a first pass fits tables and scales, a second one makes codes while the package is written, on
// all cores, a few rows at a time. The output is staged and appears when it is whole. What a form costs is
// measured on the written file, decoded as any reader would.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compress/advice.h"
#include "compress/recipe.h"

namespace anemone {

struct CompressOptions {
  Recipe recipe;
  // Bundles: the ids of a text. Tables are fitted to the model's activations on it, and rounding errors made up
  // for, where that loses less on a quarter of the tokens that is kept aside. Empty: without.
  std::vector<int32_t> calibration;
  int64_t calibration_tokens = 2048;  // at most
  int threads = 0;
  bool overwrite = false;
  std::string tool = "anemone";
  // Called with weights done and weights in all; false cancels.
  std::function<bool(int64_t done, int64_t total, const std::string& what)> progress;
};

struct CompressReport {
  struct Row {
    std::string package, weight;  // package: its name without ".mlpackage"
    std::vector<int64_t> dims;
    std::string form;
    uint64_t bytes_before = 0, bytes_after = 0;  // tables, scales and masks included
    double bits = 0;                             // stored, per element
    double sqnr_db = 0;                          // infinite where nothing was lost
    double sparsity = 0;                         // share of zeros
    size_t functions = 1;                        // that use it
    bool calibrated = false;                     // its tables or codes come from the activations
  };
  struct Warning {
    std::string rule, text;
    int64_t weights = 0;
  };
  std::vector<Row> rows;  // weights that were changed
  std::vector<std::string>
      kept;               // weights that the rules would change and that could not be, with the reason
  int64_t untouched = 0;  // weights that no rule names
  int64_t again = 0;      // weights that were quantized already, and lost precision twice
  int64_t judged = 0;     // weights whose activations were looked at; rows say which were better for it
  std::vector<Warning> warnings;
  uint64_t bytes_before = 0, bytes_after = 0;  // of all weight files; of a bundle: of all its files
  double signal = 0, noise = 0;                // of the changed weights together

  double sqnr_db() const;
};

// `in`: a package, or a folder with bundle.json.
CompressReport compress(const std::filesystem::path& in, const std::filesystem::path& out,
                        const CompressOptions& options);

}  // namespace anemone
