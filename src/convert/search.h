// Search: bits for each matrix of a bundle, for the smallest size within a loss of perplexity.
//     SearchResult r = search_bits("bundle", "out", {.ids = ids, .max_loss = 0.02, .perplexity = …});
//     compress_bundle("bundle", "out", {.compress = {.recipe = r.recipe}, .calibration = r.calibration});
// Matrices are ranked by what their outputs lose with 2, 3, 4, 6 and 8 bits, weighted by the model's own
// activations. One price of error against bytes then decides for all of them; it is found by halving, with a
// perplexity run for each price that is tried: eight runs at most, the first of them on the bundle as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convert/compress_bundle.h"

namespace anemone {

struct SearchOptions {
  std::vector<int32_t> ids;          // a text: activations are looked at, and perplexity is computed
  double max_loss = 0.02;            // of perplexity: 0.02 is 2%
  int64_t perplexity_tokens = 1024;  // from the text's end, at most half of it; activations: on the rest
  // The perplexity of a bundle: verify/perplexity.h, which is above this folder.
  std::function<double(const std::filesystem::path& bundle, std::span<const int32_t> ids)> perplexity;
  // Gives the group, the mode and the like for the palettes, what is left out, threads, what runs `ids`; with a text in
  // `calibration` (whichever), what is tried is calibrated as well, on the beginning of `ids`.
  CompressBundleOptions compress;
  // Called for every perplexity: the number of the run, the value, bytes of the bundle.
  std::function<void(int run, double perplexity, uint64_t bytes)> progress;
};

struct SearchResult {
  Recipe recipe;                     // a rule for each matrix; the rest is kept
  std::vector<int32_t> calibration;  // what it was calibrated on, for the last compress_bundle()
  double perplexity_before = 0, perplexity_after = 0;
  uint64_t bytes = 0;
  int runs = 0;
};

// `out`: where the result will stand; trials are written beside it and removed. Error when not even 8 bits stay
// within the loss.
SearchResult search_bits(const std::filesystem::path& bundle, const std::filesystem::path& out,
                         const SearchOptions& options);

}  // namespace anemone
