// Core ML as a Backend: packages run where they were made for, on the Neural Engine of a Mac, an iPhone or an iPad.
//     if (const std::string why = core_ml_missing(); !why.empty()) throw Error(why);
//     auto backend = coreml_backend({.units = ComputeUnits::ane});
//     auto bundle = Bundle::open("smollm2", backend);
// Packages are compiled once, into a cache (compiled_cache.h), and loaded function by function when first needed.
// Elsewhere than on Apple's systems core_ml_missing() says so, and coreml_backend() throws it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "coreml/compute_units.h"
#include "predict/backend.h"

namespace anemone {

// What is being done before a function can run. First loads take minutes: people want to know.
struct LoadStep {
  enum class Phase : uint8_t { compile, load, warm, done };
  Phase phase = Phase::load;
  std::string package, function;
  double seconds = 0;  // of this phase so far; of all of them when done
};

struct CoreMlOptions {
  ComputeUnits units = ComputeUnits::ane;
  std::filesystem::path cache;  // of compiled packages; empty: CompiledCache::default_folder()
  bool prewarm = true;          // two predictions on zeros per function, with a state that is thrown away
  bool surfaces = true;         // inputs and outputs in memory that the engine reads and writes itself
  // How many predictions of functions without states may be under way at once, each of its own thread and call. 1: one
  // after the other, by synchronous calls, which answer sooner; 2 or 3: for many texts.
  int in_flight = 1;
  std::shared_ptr<Timeline> timeline;  // predictions are noted there; empty: nowhere
  // Told about twice a second while something is under way, and once when it is done. False gives up, with an Error.
  std::function<bool(const LoadStep& step)> progress;
};

std::shared_ptr<const Backend> coreml_backend(const CoreMlOptions& options = {});

// The machine, as Core ML sees it.
struct CoreMlDevice {
  std::string system, build, chip;  // "macOS 15.4", "24E248", "Apple M4"
  bool neural_engine = false, gpu = false;
};
CoreMlDevice core_ml_device();

// Why Core ML cannot run bundles here: one line that names the system or the chip. Empty: it can.
std::string core_ml_missing(ComputeUnits units = ComputeUnits::ane);

}  // namespace anemone
