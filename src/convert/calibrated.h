// A conversion whose compression looks at activations: of --calibrate and --search.
//     ConvertReport r = convert_calibrated("model.gguf", "bundle", options, [&](const fs::path& plain) {
//       return compress_bundle(plain, "bundle", {.compress = {.recipe = recipe}, .calibration = ids});
//     });
// Activations come from running the whole model, and what runs is a bundle. So the bundle is written first as it is,
// beside the output, compressed from there, and removed. Other recipes flow: convert() takes them itself.
#pragma once

#include <filesystem>
#include <functional>

#include "convert/convert.h"

namespace anemone {

// Makes the output of a bundle that can run.
using CompressPlain = std::function<CompressReport(const std::filesystem::path& plain)>;

// `options.recipe`: what `compress` will do, or the most that it will leave: shards are cut for that. The report is
// that of the plain bundle, with what `compress` says in `compressed`.
ConvertReport convert_calibrated(const std::filesystem::path& source, const std::filesystem::path& bundle,
                                 ConvertOptions options, const CompressPlain& compress);

}  // namespace anemone
