// Compresses whole bundles: package by package with compress/, the rest is copied, bundle.json is made anew.
//     CompressReport r = compress_bundle("bundle", "small", {.compress = {.recipe = recipe}});
// A bundle that is just being converted needs none of this: convert() takes the recipe itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compress/compress.h"
#include "predict/backend.h"

namespace anemone {

struct CompressBundleOptions {
  CompressOptions compress;
  // The ids of a text. Tables are fitted to the model's activations on it, and rounding errors made up for, where that
  // loses less on a quarter of the tokens that is kept aside. Empty: without.
  std::vector<int32_t> calibration;
  int64_t calibration_tokens = 2048;  // at most
  MakeBackend backend;                // runs that text; none is needed without one
  std::string tool = "anemone";
};

// `in`: a folder with bundle.json.
CompressReport compress_bundle(const std::filesystem::path& in, const std::filesystem::path& out,
                               const CompressBundleOptions& options);

}  // namespace anemone
