#include "coreml/compute_units.h"

#include "base/error.h"

namespace anemone {
namespace {

constexpr ComputeUnits kUnits[] = {ComputeUnits::ane, ComputeUnits::gpu, ComputeUnits::cpu,
                                   ComputeUnits::all};

}  // namespace

const char* compute_units_name(ComputeUnits units) {
  switch (units) {  // without a default: the compiler names what is missing here
    case ComputeUnits::ane: return "ane";
    case ComputeUnits::gpu: return "gpu";
    case ComputeUnits::cpu: return "cpu";
    case ComputeUnits::all: return "all";
  }
  throw errorf("there are no compute units number {}", static_cast<int>(units));
}

ComputeUnits parse_compute_units(std::string_view name) {
  for (const ComputeUnits units : kUnits)
    if (name == compute_units_name(units)) return units;
  throw errorf("there are no compute units '{}'", name.substr(0, 40)).expected("ane, gpu, cpu or all");
}

std::vector<std::string> compute_units_names() {
  std::vector<std::string> out;
  for (const ComputeUnits units : kUnits) out.emplace_back(compute_units_name(units));
  return out;
}

}  // namespace anemone
