// Compress: a package with its weights in another form.
//     Recipe recipe;  recipe.rules.push_back({.form = …});
//     CompressReport r = compress_package("in.mlpackage", "out.mlpackage", {.recipe = recipe});
// Weights flow: a first pass fits tables and scales, a second one makes codes while the package is written, on
// all cores, a few rows at a time. The output is staged and appears when it is whole. What a form costs is
// measured on the written file, decoded as any reader would. Bundles: convert/compress_bundle.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compress/recipe.h"

namespace anemone {

// Called with weights done and weights in all of a package, and its name; false cancels.
using CompressProgress = std::function<bool(int64_t done, int64_t total, const std::string& package)>;

struct CompressOptions {
  Recipe recipe;
  int threads = 0;
  bool overwrite = false;
  CompressProgress progress;
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
      kept;  // weights that the rules would change and that could not be, with the reason
  std::vector<std::string> idle_skips;  // patterns that were to leave weights out, and name none
  int64_t untouched = 0;                // weights that no rule names
  int64_t again = 0;                    // weights that were quantized already, and lost precision twice
  int64_t judged = 0;  // weights whose activations were looked at; rows say which were better for it
  std::vector<Warning> warnings;
  uint64_t bytes_before = 0, bytes_after = 0;  // of all weight files; of a bundle: of all its files
  double signal = 0, noise = 0;                // of the changed weights together

  double sqnr_db() const;
};

CompressReport compress_package(const std::filesystem::path& in, const std::filesystem::path& out,
                                const CompressOptions& options);

}  // namespace anemone
