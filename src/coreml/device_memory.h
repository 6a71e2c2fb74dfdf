// DeviceMemory: what `anemone warm` found out about a group of packages on this machine. It lies beside the compiled
// packages, and is found by their content, the build of the system and the compute units.
//     DeviceMemory memory(cache, ComputeUnits::ane);
//     memory.remember(packages, trial.remembered());
//     std::optional<Remembered> known = memory.recall(packages);
// The file `<build>/<key>.findings.json` holds the best variant and the milliseconds of each function.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "coreml/compiled_cache.h"
#include "coreml/compute_units.h"
#include "predict/backend.h"

namespace anemone {

class DeviceMemory {
 public:
  DeviceMemory(CompiledCache cache, ComputeUnits units) : cache_(std::move(cache)), units_(units) {}

  // Nothing where nobody tried these packages, and where the file is not as it should be.
  std::optional<Remembered> recall(std::span<const std::filesystem::path> packages) const;
  // Error where the cache cannot be written.
  void remember(std::span<const std::filesystem::path> packages, const Remembered& known) const;

 private:
  std::filesystem::path file_for(std::span<const std::filesystem::path> packages) const;

  CompiledCache cache_;
  ComputeUnits units_;
};

}  // namespace anemone
