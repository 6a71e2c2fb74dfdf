#include "compress/compress.h"

#include <map>

#include "anemone/package.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/staged.h"
#include "base/thread_pool.h"
#include "bundle/bundle_info.h"
#include "compress/compressed_program.h"
#include "compress/measure.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

uint64_t weight_file_bytes(const Program& program) {
  std::map<const MappedFile*, uint64_t> files;
  for_each_constant(program, [&](const Constant& c) {
    if (const auto* blob = std::get_if<Blob>(&c.data); blob && blob->file)
      files[blob->file.get()] = blob->file->size();
  });
  uint64_t out = 0;
  for (const auto& [file, bytes] : files) out += bytes;
  return out;
}

}  // namespace

double CompressReport::sqnr_db() const { return decibels(signal, noise); }

CompressReport compress_package(const fs::path& in, const fs::path& out, const CompressOptions& options) {
  check_recipe(options.recipe);
  if (!fs::exists(in)) throw missing_path(in.string());
  check_output(in, out, options.overwrite, {kBundleFile, "Manifest.json"});
  ThreadPool pool(options.threads);
  const std::shared_ptr<const Package> original = open_package(in);
  const std::string name = (in.has_filename() ? in : in.parent_path()).stem().string();
  const CompressedProgram compressed(original->program, name, options.recipe, pool, {}, options.progress);
  PatternUse patterns(options.recipe);
  compressed.show(patterns);
  patterns.check();
  CompressReport report;
  report.idle_skips = patterns.idle_skips();
  report.bytes_before = weight_file_bytes(original->program);
  const Package written = compressed_package(*original, compressed, options.recipe);
  try {
    report.bytes_after =
        write_package(written, out, {.overwrite = options.overwrite, .pool = &pool}).weight_bytes;
  } catch (const fs::filesystem_error& e) {
    throw errorf("cannot be written: {}", e.code().message()).at(e.path1().string());
  }
  compressed.report(out, report);
  return report;
}

}  // namespace anemone
