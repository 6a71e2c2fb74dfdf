// Which processors Core ML may use.
//     parse_compute_units("ane")                       // the CPU and the Neural Engine
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anemone {

enum class ComputeUnits : uint8_t { ane, gpu, cpu, all };  // each with the CPU

const char* compute_units_name(ComputeUnits units);
// Error, with the names that there are, for another one.
ComputeUnits parse_compute_units(std::string_view name);
// All of them, the default first.
std::vector<std::string> compute_units_names();

}  // namespace anemone
