// `anemone warm`: compiles and loads a bundle with Core ML, so that the first word comes at once later.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "bundle/bundle_info.h"
#include "bundle/files.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/source.h"
#include "coreml/compiled_cache.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string bundle, units = "ane";
};

struct Warmed {
  std::string package, function;
  double seconds = 0;
};

// One function after the other, and none is kept: all of them at once would need the memory of all compilations.
std::vector<Warmed> warm_all(const std::filesystem::path& path, const Backend& backend) {
  const BundleInfo info = BundleInfo::read(path);
  std::vector<Warmed> out;
  for (const Stage& stage : info.stages) {
    const auto package = open_package(find_inside(path, stage.package));
    for (const StageFunction& function : stage.functions) {
      const auto begin = std::chrono::steady_clock::now();
      backend.open(package, function.name);
      out.push_back({stage.package, function.name,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
    }
  }
  return out;
}

int run_warm(const Args& args, const Common& common) {
  const auto backend = coreml_backend(core_ml_options(parse_compute_units(args.units), common));
  const std::vector<Warmed> all = warm_all(args.bundle, *backend);
  double seconds = 0;
  for (const Warmed& one : all) seconds += one.seconds;
  if (common.json) {
    nlohmann::ordered_json out = {{"seconds", seconds}, {"functions", nlohmann::ordered_json::array()}};
    for (const Warmed& one : all)
      out["functions"].push_back(
          {{"package", one.package}, {"function", one.function}, {"seconds", one.seconds}});
    out["remarks"] = backend->remarks();
    fmt::print("{}\n", json_text(out, 2));
    return 0;
  }
  if (common.quiet) return 0;
  for (const Warmed& one : all)
    fmt::print("{:<28} {:<20} {:8.1f} s\n", one.package, one.function, one.seconds);
  fmt::print("{} warm in {:.1f} s; compiled packages are in {}\n",
             counted(static_cast<int64_t>(all.size()), "function"), seconds,
             CompiledCache::default_folder().string());
  for (const std::string& remark : backend->remarks()) fmt::print("  {}\n", remark);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone warm smollm2\n"
    "  anemone warm smollm2 --compute-units all --quiet";

}  // namespace

extern const Command kWarm{
    "warm", "Compile and load a bundle with Core ML, so that the next start is fast", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote").takes(kBundle);
      o.text("--compute-units", "UNITS", args->units,
             "what Core ML may use beside the CPU: ane (default), gpu, all, or cpu for the CPU alone")
          .one_of(compute_units_names());
      return [args](const Common& common) { return run_warm(*args, common); };
    }};

}  // namespace anemone::cli
