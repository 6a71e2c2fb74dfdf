// Writes weight.bin as a plan lays it out, on all cores and in bounded memory.
//     write_weights(plan, folder / "weight.bin", pool);
#pragma once

#include <filesystem>

#include "package/weight_plan.h"

namespace anemone {

void write_weights(const WeightPlan& plan, const std::filesystem::path& path, ThreadPool& pool);

}  // namespace anemone
