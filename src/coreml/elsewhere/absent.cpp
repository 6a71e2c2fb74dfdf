// Instead of Core ML, where there is none. A program that brings its own (the tests do) links it before the library.
#include "base/error.h"
#include "coreml/coreml_backend.h"
#include "coreml/device_report.h"

namespace anemone {

std::string core_ml_missing(ComputeUnits) {
  return "Core ML is a part of macOS and iOS, and this is another system: use --backend cpu";
}

std::shared_ptr<const Backend> coreml_backend(const CoreMlOptions&) {
  throw Error(core_ml_missing(ComputeUnits::ane));
}

DeviceReport examine_device(const std::filesystem::path&, const CoreMlOptions&) {
  throw Error(core_ml_missing(ComputeUnits::ane));
}

DeviceFunction examine_function(const std::shared_ptr<const Package>&, const std::string&,
                                const CoreMlOptions&) {
  throw Error(core_ml_missing(ComputeUnits::ane));
}

CoreMlDevice core_ml_device() { return {}; }

}  // namespace anemone
