// DeviceReport: where Core ML itself puts the operations of a bundle on one machine, and how long it took there. It is
// written on a Mac and read anywhere: `check --device --save`, `check --compare`. docs/coreml.md describes the file.
//     DeviceReport r = examine_device("smollm2", {});
//     write_file("report.json", r.json());
//     CheckReport checked = check("smollm2", {.truth = &r});
// It holds names of packages and operations, and nothing of the user's.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "check/check.h"
#include "coreml/coreml_backend.h"

namespace anemone {

struct DeviceOp {
  std::string name, type;              // as in the package: "l0_q", "conv"
  std::string device;                  // "ANE", "GPU", "CPU": where Core ML wants it
  std::vector<std::string> supported;  // where it could be
  double cost = 0;                     // Core ML's estimate, a part of the function's 1
};

struct DeviceFunction {
  std::string package, function;  // "layers_00.mlpackage", "t1_c512"
  std::vector<DeviceOp> ops;
  double plan_s = 0, load_s = 0, prediction_ms = 0;
};

struct DeviceReport : ComputePlanSource {
  std::string tool;   // "anemone 0.1.0"
  std::string model;  // the name of the bundle or package
  CoreMlDevice device;
  ComputeUnits units = ComputeUnits::ane;
  std::vector<DeviceFunction> functions;

  std::map<std::string, std::string> devices(const std::filesystem::path& package,
                                             const std::string& function) const override;
  const DeviceFunction* find(const std::string& package, const std::string& function) const;

  std::string json() const;
  // Error, with the place, for what is no such file. `name` is its name for messages.
  static DeviceReport parse(const std::string& text, const std::string& name);
};

// Asks MLComputePlan about one function of a package, loads it, and runs it on zeros.
DeviceFunction examine_function(const std::shared_ptr<const Package>& package, const std::string& function,
                                const CoreMlOptions& options);
// Asks MLComputePlan about every function of a package or bundle, loads it, and runs it on zeros.
DeviceReport examine_device(const std::filesystem::path& path, const CoreMlOptions& options);

// What the device says beside what was predicted.
struct DeviceAgreement {
  int known = 0, agreed = 0;  // operations of which both say something
  int convs = 0, convs_on_ane = 0;
  int convs_unknown = 0;  // of `convs`: the device says nothing of them
  int missing = 0;        // functions of the bundle that the report does not have

  double share() const { return known ? static_cast<double>(agreed) / known : 0; }
  // Every convolution of every function is known to be on the engine.
  bool all_on_ane() const { return missing == 0 && convs_on_ane == convs; }
};
DeviceAgreement agreement(const CheckReport& checked, const DeviceReport& device);
// "conv on ANE: 84/84", a line.
std::string conv_text(const DeviceAgreement& agreement);
// For people: a line for each function, those operations that are elsewhere than predicted, the sums.
std::string agreement_text(const CheckReport& checked, const DeviceReport& device, bool verbose);

}  // namespace anemone
