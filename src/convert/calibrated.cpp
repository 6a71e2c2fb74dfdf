#include "convert/calibrated.h"

#include "base/error.h"
#include "base/staged.h"

namespace anemone {

ConvertReport convert_calibrated(const std::filesystem::path& source, const std::filesystem::path& bundle,
                                 ConvertOptions options, const CompressPlain& compress) {
  if (std::filesystem::exists(bundle) && !options.overwrite)
    throw Error("already exists").at(bundle.string()).hint("give another name, or --overwrite");
  check_output(source, bundle, options.overwrite, {kBundleFile});
  options.shards_for = std::move(options.recipe);
  options.recipe.reset();
  const StagedOutput plain(bundle.string() + ".plain", true);  // never committed, so removed
  ConvertReport report = convert(source, plain.path(), options);
  report.compressed = compress(plain.path());
  return report;
}

}  // namespace anemone
