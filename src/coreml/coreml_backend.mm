#include "coreml/coreml_backend.h"

#include <sys/sysctl.h>
#ifdef __APPLE__
#include <TargetConditionals.h>
#endif

#include "base/error.h"
#include "base/words.h"
#include "coreml/coreml_call.h"
#include "coreml/coreml_state.h"
#include "coreml/device_memory.h"
#include "coreml/loaded_model.h"

namespace anemone {
namespace {

// Where states and functions began.
#if defined(TARGET_OS_IPHONE) && TARGET_OS_IPHONE
constexpr const char* kSystem = "iOS";
constexpr const char* kChipKey = "hw.machine";
constexpr NSOperatingSystemVersion kLeastSystem = {18, 0, 0};
#else
constexpr const char* kSystem = "macOS";
constexpr const char* kChipKey = "machdep.cpu.brand_string";
constexpr NSOperatingSystemVersion kLeastSystem = {15, 0, 0};
#endif

class CoreMlPredictor : public Predictor {
 public:
  explicit CoreMlPredictor(std::shared_ptr<LoadedModel> model) : model_(std::move(model)) {}

  const Signature& signature() const override { return model_->signature(); }
  std::unique_ptr<State> make_state() const override { return std::make_unique<CoreMlState>(model_); }
  std::unique_ptr<Call> make_call(const InputShapes& shapes) const override {
    return std::make_unique<CoreMlCall>(model_, shapes);
  }
  uint64_t memory_bytes() const override { return model_->tally().memory; }

 private:
  std::shared_ptr<LoadedModel> model_;  // calls and states hold it, too
};

class CoreMlBackend : public Backend {
 public:
  explicit CoreMlBackend(const CoreMlOptions& options)
      : options_(options), tally_(std::make_shared<CoreMlTally>(options.in_flight)) {}

  std::string_view name() const override { return "coreml"; }
  Arithmetic arithmetic() const override { return Arithmetic::fp16; }
  // As the CPU engine's in fp16: what the two add up differs in the same way.
  double close_call() const override { return 0x1p-5; }
  Timeline* timeline() const override { return options_.timeline.get(); }
  bool can_tap() const override { return false; }
  int calls_at_once() const override { return tally_->places.count(); }
  std::unique_ptr<Predictor> open(std::shared_ptr<const Package> package, const std::string& function,
                                  const std::vector<std::string>& taps) const override {
    if (!taps.empty())
      throw Error("Core ML gives nothing but outputs: open_tapped() makes the values outputs");
    return std::make_unique<CoreMlPredictor>(LoadedModel::open(package, function, options_, tally_));
  }
  std::optional<Remembered> remembered(std::span<const std::filesystem::path> packages) const override {
    const CompiledCache cache(options_.cache.empty() ? CompiledCache::default_folder() : options_.cache,
                              core_ml_device().build);
    return DeviceMemory(cache, options_.units).recall(packages);
  }
  std::vector<std::string> remarks() const override;

 private:
  CoreMlOptions options_;
  std::shared_ptr<CoreMlTally> tally_;
};

std::vector<std::string> CoreMlBackend::remarks() const {
  const CoreMlTally& t = *tally_;
  const auto seconds = [](int64_t ms) { return static_cast<double>(ms) / 1000; };
  std::vector<std::string> out;
  out.push_back(fmt::format(
      "compute units {}; {} loaded in {:.1f} s, {} of them compiled in {:.1f} s; warmed in {:.1f} s",
      compute_units_name(options_.units), t.loaded.load(), seconds(t.load_ms), t.compiled.load(),
      seconds(t.compile_ms), seconds(t.warm_ms)));
  const int64_t outputs = t.outputs, declined = t.declined;
  out.push_back(fmt::format(
      "output buffers: {} of {} taken{}{}", outputs - declined, outputs,
      declined ? ", the others copied" : "",
      t.retried ? fmt::format("; {} asked again without", counted(t.retried, "prediction")) : ""));
  if (t.copied_states)
    out.push_back(fmt::format("states copied between functions {}", counted(t.copied_states, "time")));
  std::lock_guard lock(tally_->mutex);
  out.insert(out.end(), t.remarks.begin(), t.remarks.end());
  return out;
}

std::string system_value(const char* name) {
  size_t size = 0;
  if (sysctlbyname(name, nullptr, &size, nullptr, 0) != 0 || size == 0) return "";
  std::string out(size, '\0');
  if (sysctlbyname(name, out.data(), &size, nullptr, 0) != 0) return "";
  out.resize(std::min(size, out.size()));
  while (!out.empty() && out.back() == '\0') out.pop_back();
  return out;
}

}  // namespace

std::shared_ptr<const Backend> coreml_backend(const CoreMlOptions& options) {
  if (const std::string why = core_ml_missing(options.units); !why.empty()) throw Error(why);
  return std::make_shared<CoreMlBackend>(options);
}

CoreMlDevice core_ml_device() {
  CoreMlDevice out;
  @autoreleasepool {
    const NSOperatingSystemVersion v = [NSProcessInfo processInfo].operatingSystemVersion;
    out.system = fmt::format("{} {}.{}", kSystem, v.majorVersion, v.minorVersion);
    if (v.patchVersion > 0) out.system += fmt::format(".{}", v.patchVersion);
    out.build = system_value("kern.osversion");
    out.chip = system_value(kChipKey);
    for (id<MLComputeDeviceProtocol> device in [MLModel availableComputeDevices]) {
      if ([device isKindOfClass:[MLNeuralEngineComputeDevice class]]) out.neural_engine = true;
      if ([device isKindOfClass:[MLGPUComputeDevice class]]) out.gpu = true;
    }
  }
  if (out.build.empty()) out.build = "unknown";
  return out;
}

std::string core_ml_missing(ComputeUnits units) {
  @autoreleasepool {
    if (![[NSProcessInfo processInfo] isOperatingSystemAtLeastVersion:kLeastSystem]) {
      const NSOperatingSystemVersion v = [NSProcessInfo processInfo].operatingSystemVersion;
      return fmt::format(
          "Core ML has states and functions from {0} {1} on, and this is {0} {2}.{3}: use --backend cpu",
          kSystem, kLeastSystem.majorVersion, v.majorVersion, v.minorVersion);
    }
  }
  if (units == ComputeUnits::ane && !core_ml_device().neural_engine)
    return fmt::format("Core ML sees no Neural Engine on this machine ({}): use --compute-units cpu, or a "
                       "Mac with an M1 or newer",
                       core_ml_device().chip);
  return "";
}

}  // namespace anemone
