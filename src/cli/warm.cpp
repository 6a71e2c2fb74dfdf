// `anemone warm`: compiles and loads a bundle with Core ML, so that the first word comes at once later; and finds out
// which of its variants and functions are fast here.
#include <fmt/format.h>

#include <map>
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
#include "coreml/device_memory.h"
#include "coreml/device_report.h"
#include "measure/trial.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string bundle, units = "ane";
};

// What the device's own plan says of the functions of each variant.
void count_placement(const std::filesystem::path& path, const BundleInfo& info, const CoreMlOptions& options,
                     Trial& trial) {
  std::map<std::pair<std::string, std::string>, DeviceFunction> seen;
  for (VariantTrial& variant : trial.variants) {
    if (!variant.problem.empty()) continue;
    for (const Stage& stage : info.chosen(variant.name).stages) {
      const auto package = open_package(find_inside(path, stage.package));
      for (const StageFunction& f : stage.functions) {
        const auto [it, fresh] = seen.try_emplace({stage.package, f.name});
        if (fresh) it->second = examine_function(package, f.name, options);
        for (const DeviceOp& op : it->second.ops) {
          ++variant.operations;
          variant.on_ane += op.device == "ANE";
        }
      }
    }
  }
}

// Empty, or why the next session will not know what was found.
std::string remember(const std::filesystem::path& path, const BundleInfo& info, ComputeUnits units,
                     const Trial& trial) {
  std::vector<std::filesystem::path> packages;
  for (const std::string& package : info.packages()) packages.push_back(find_inside(path, package));
  try {
    const CompiledCache cache(CompiledCache::default_folder(), core_ml_device().build);
    DeviceMemory(cache, units).remember(packages, trial.remembered());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

nlohmann::ordered_json to_json(const Trial& trial, double seconds) {
  nlohmann::ordered_json out = {{"seconds", seconds}, {"functions", nlohmann::ordered_json::array()}};
  for (const FunctionTrial& one : trial.functions) {
    out["functions"].push_back({{"package", one.package},
                                {"function", one.name},
                                {"seconds", one.load_s},
                                {"call_ms", one.call_ms}});
    if (!one.problem.empty()) out["functions"].back()["problem"] = one.problem;
  }
  for (const VariantTrial& one : trial.variants) {
    nlohmann::ordered_json v = {{"name", one.name}};
    if (one.problem.empty())
      v.update({{"token_ms", one.token_ms},
                {"operations", one.operations},
                {"on_ane", one.on_ane},
                {"equal", one.equal}});
    else
      v["problem"] = one.problem;
    out["variants"].push_back(std::move(v));
  }
  if (!trial.best.empty()) out["best"] = trial.best;
  return out;
}

void print_variants(const Trial& trial, bool kept) {
  for (const VariantTrial& one : trial.variants) {
    if (!one.problem.empty()) {
      fmt::print("  variant {:<12} is left out: {}\n", one.name, one.problem);
      continue;
    }
    fmt::print("  variant {:<12} {:8.2f} ms a token; {} of {} operations on the ANE; {}\n", one.name,
               one.token_ms, one.on_ane, one.operations,
               one.equal     ? "results equal"
               : one.choices ? fmt::format("{:.0f}% of the tokens differ", 100 * one.difference)
                             : fmt::format("results differ by {:.2g} of the largest logit", one.difference));
  }
  if (trial.best.empty()) return;
  if (kept)
    fmt::print("  sessions use {} from now on\n", trial.best);
  else
    fmt::print("  {} is the best one here, and will not be remembered\n", trial.best);
}

int run_warm(const Args& args, const Common& common) {
  const ComputeUnits units = parse_compute_units(args.units);
  const CoreMlOptions options = core_ml_options(units, common);
  const auto backend = coreml_backend(options);
  const BundleInfo info = BundleInfo::read(args.bundle);
  Trial trial = try_bundle(args.bundle, backend, {});
  count_placement(args.bundle, info, options, trial);
  const std::string forgotten = remember(args.bundle, info, units, trial);
  double seconds = 0;
  for (const FunctionTrial& one : trial.functions) seconds += one.load_s;
  std::vector<std::string> remarks = backend->remarks();
  if (!forgotten.empty()) remarks.push_back(forgotten);
  const bool kept = forgotten.empty();
  const int status = kept ? 0 : 1;  // the next start will be as slow
  if (common.json) {
    nlohmann::ordered_json out = to_json(trial, seconds);
    out["kept"] = kept;
    out["remarks"] = remarks;
    fmt::print("{}\n", json_text(out, 2));
    return status;
  }
  if (!kept) note(common, "the cache cannot be written: the next start will take as long");
  if (common.quiet) return status;
  for (const FunctionTrial& one : trial.functions)
    if (one.problem.empty())
      fmt::print("{:<28} {:<20} {:8.1f} s  {:8.2f} ms\n", one.package, one.name, one.load_s, one.call_ms);
    else
      fmt::print("{:<28} {:<20} {}\n", one.package, one.name, one.problem);
  fmt::print("{} {} in {:.1f} s; {} {}\n", counted(static_cast<int64_t>(trial.functions.size()), "function"),
             kept ? "warm" : "tried", seconds, kept ? "compiled packages are in" : "nothing is kept in",
             CompiledCache::default_folder().string());
  print_variants(trial, kept);
  for (const std::string& remark : remarks) fmt::print("  {}\n", remark);
  return status;
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
