// The flags that say how weights are compressed, the same in `compress` and `convert`.
#pragma once

#include <string>
#include <vector>

#include "bundle/bundle_info.h"
#include "cli/command.h"
#include "convert/compress_bundle.h"

namespace anemone::cli {

struct CompressFlags {
  int64_t bits = 0, group = 0, vector = 1, block = 0, min_size = 2048;
  std::string mode = "kmeans", lut, quantize, nm, recipe, calibrate, max_ppl_loss;
  bool per_channel_scale = false, int8_lut = false, fast = false, per_tensor = false, asymmetric = false;
  bool prune = false, decompress = false, search = false;
  double sparsity = -1, threshold = -1;
  int64_t calibration_tokens = 0;
  std::vector<std::string> skip, only;

  void declare(Options& o);
  // One of the flags that name a form was given.
  bool any() const;
  // They need the model's activations: a bundle that can be run.
  bool run_model() const { return search || !calibrate.empty(); }
  Recipe recipe_of() const;
  // Error, saying what would work, where --calibrate or --search do not go with the other flags.
  void check_text_flags(const Recipe& recipe) const;
  // Everything but where the result goes; `input` is the bundle whose tokenizer reads the text.
  CompressBundleOptions options_of(const std::string& input, const Common& common) const;
  // Searches for bits where that is asked for, and compresses.
  CompressReport run(const std::string& input, const std::string& output, bool overwrite,
                     const Common& common) const;

 private:
  bool prunes() const;
  Recipe recipe_file() const;
  PaletteForm palette_of() const;
  IntegerForm integers_of() const;
  PruneForm prune_of() const;
  CompressReport run_search(const std::string& input, const std::string& output,
                            CompressBundleOptions& options, const Common& common) const;
};

// Error for a kind of bundle that --search cannot judge.
void expect_perplexity(BundleKind kind, const std::string& place);

// The table of weights, the total and the warnings, or JSON; on stderr what the user should know. `output`: what was
// written.
void print_report(const CompressReport& report, const std::string& output, const Common& common);

}  // namespace anemone::cli
