// Writes weight.bin as it was laid out, on all cores and in bounded memory.
//     write_weights(layout, folder / "weight.bin", pool);
#pragma once

#include <filesystem>

#include "package/weight_layout.h"

namespace anemone {

void write_weights(const WeightLayout& layout, const std::filesystem::path& path, ThreadPool& pool);

}  // namespace anemone
