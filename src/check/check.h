// Check: will it stay on the Neural Engine? Core ML's placement predicted, and every rule looked at, for a package or
// all packages of a bundle.
//     CheckReport r = check("bundle", {.target = "m4"});
//     fmt::print("{}", report_text(r));
//     return r.failed(strict) ? 1 : 0;
// Nothing is run and no weights are read but scales and small constants: gigabytes take milliseconds.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/npy.h"
#include "check/rule.h"
#include "package/package.h"
#include "placement/placed_function.h"
#include "target/chips.h"

namespace anemone {

// Where Core ML itself puts the operations of a function, by their names: "ANE", "CPU", "GPU". On a Mac MLComputePlan
// tells it; where this is given, reports show it beside the prediction.
class ComputePlanSource {
 public:
  virtual ~ComputePlanSource() = default;
  // Empty where nothing is known of that function.
  virtual std::map<std::string, std::string> devices(const std::filesystem::path& package,
                                                     const std::string& function) const = 0;
};

struct CheckOptions {
  std::string target;                        // as find_target takes it; empty: the bundle's own, or m4
  int os = 0;                                // major version; 0: the target's, or what the program needs
  const NamedArrays* golden = nullptr;       // values of a golden run, for rules about numbers
  const ComputePlanSource* truth = nullptr;  // Core ML's own placement
};

// How many operations of one kind there are, how many the engine takes, how many go there, and of how many nobody
// knows.
struct Residency {
  int all = 0, taken = 0, on_ane = 0, unknown = 0;

  int refused() const { return all - taken - unknown; }
};

struct FunctionReport {
  std::string name;
  placement::PlacedFunction placed;
  std::map<std::string, Residency> residency;  // by kind of operation
  std::map<std::string, std::string> truth;    // by operation; empty where it is not known
  std::map<std::string, int> layers;           // by operation; those outside the layers are left out

  // Operations whose real device is not the predicted one. An unknown one predicts nothing.
  int differing() const;
};

struct PackageReport {
  std::string name;
  std::filesystem::path path;
  uint64_t weight_bytes = 0;
  KnownValues values;
  std::vector<FunctionReport> functions;
  std::shared_ptr<const Package> package;  // what the placed functions point into
  std::shared_ptr<const Program> program;
};

struct CheckReport {
  std::filesystem::path path;
  bool bundle = false;
  Target target;
  int os = 18;              // iOS's number
  std::string target_text;  // "M4 (H16G), iOS 18 / macOS 15"
  std::vector<PackageReport> packages;
  std::vector<Finding> findings;  // errors first

  int count(Level level) const;
  int count(Level level, const std::string& package) const;
  // The kinds of operation whose device is unknown, with how many there are of each.
  std::map<std::string, int> unknown() const;
  // What must be said of those; empty where there are none.
  std::string unknown_note() const;
  // "failed", "passed" (with warnings, or with operations whose device is unknown) or "clean".
  std::string_view verdict(bool strict) const;
  // Errors, or with `strict` also warnings.
  bool failed(bool strict) const;
};

CheckReport check(const std::filesystem::path& path, const CheckOptions& options);

// The rules over one package that is in memory.
CheckReport check_package(std::shared_ptr<const Package> package, const CheckOptions& options);

}  // namespace anemone
