#include "convert/compress_bundle.h"

#include <optional>

#include "anemone/package.h"
#include "base/error.h"
#include "base/staged.h"
#include "base/thread_pool.h"
#include "bundle/files.h"
#include "bundle/writer.h"
#include "compress/compressed_program.h"
#include "convert/activations.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

void compress_one(const fs::path& in, const std::string& name, const std::optional<Activations>& activations,
                  const CompressOptions& options, ThreadPool& pool, BundleWriter& writer,
                  PatternUse& patterns, CompressReport& report) {
  const std::shared_ptr<const Package> original = open_package(in / name);
  Statistics statistics;
  if (activations)
    statistics = [&](const auto& inputs) { return activations->collect(name, inputs, true, pool); };
  const CompressedProgram compressed(original->program, fs::path(name).stem().string(), options.recipe, pool,
                                     statistics, options.progress);
  compressed.show(patterns);
  writer.add(compressed_package(*original, compressed, options.recipe), name);
  compressed.report(writer.folder() / name, report);
}

CompressReport compress_to(const fs::path& in, const fs::path& out, const CompressBundleOptions& options) {
  BundleInfo info = BundleInfo::read(in);
  if (!info.embedding_parts.empty())
    throw errorf("the bundle reads its embedding from the head, so the head cannot be compressed")
        .at(in.string())
        .hint("convert without --embedding head");
  std::optional<Activations> activations;
  if (!options.calibration.empty())
    activations.emplace(in, options.calibration, options.backend, options.calibration_tokens);
  ThreadPool pool(options.compress.threads);
  StagedOutput staged(out, options.compress.overwrite);
  staged.make_folder();
  BundleWriter writer(staged.path(), pool);
  writer.copy_rest(in, info);
  CompressReport report;
  PatternUse patterns(options.compress.recipe);
  for (const std::string& name : info.packages())
    compress_one(in, name, activations, options.compress, pool, writer, patterns, report);
  patterns.check();
  report.idle_skips = patterns.idle_skips();
  info.precision = options.compress.recipe.text();
  info.tool = options.tool;
  writer.finish(info);
  report.bytes_before = folder_bytes(in);
  report.bytes_after = folder_bytes(staged.path());
  staged.commit();
  return report;
}

}  // namespace

CompressReport compress_bundle(const fs::path& in, const fs::path& out,
                               const CompressBundleOptions& options) {
  check_recipe(options.compress.recipe);
  check_output(in, out, options.compress.overwrite, {kBundleFile, "Manifest.json"});
  try {
    return compress_to(in, out, options);
  } catch (const fs::filesystem_error& e) {
    throw errorf("cannot be written: {}", e.code().message()).at(e.path1().string());
  }
}

}  // namespace anemone
