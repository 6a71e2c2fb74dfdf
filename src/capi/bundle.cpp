// Bundles of the C interface.
#include "capi/handles.h"
#include "coreml/coreml_backend.h"
#include "engine/cpu_backend.h"

namespace anemone {
namespace {

Arithmetic arithmetic_of(anemone_arithmetic arithmetic) {
  switch (arithmetic) {
    case ANEMONE_FP32: return Arithmetic::fp32;
    case ANEMONE_FP16: return Arithmetic::fp16;
    case ANEMONE_FAST: return Arithmetic::fast;
  }
  throw errorf("the arithmetic {} is not known", static_cast<int>(arithmetic));
}

ComputeUnits units_of(anemone_compute_units units) {
  switch (units) {
    case ANEMONE_UNITS_ANE: return ComputeUnits::ane;
    case ANEMONE_UNITS_GPU: return ComputeUnits::gpu;
    case ANEMONE_UNITS_CPU: return ComputeUnits::cpu;
    case ANEMONE_UNITS_ALL: return ComputeUnits::all;
  }
  throw errorf("the compute units {} are not known", static_cast<int>(units));
}

bool takes_core_ml(anemone_backend backend, ComputeUnits units) {
  switch (backend) {
    case ANEMONE_BACKEND_AUTO: return core_ml_missing(units).empty();
    case ANEMONE_BACKEND_CPU: return false;
    case ANEMONE_BACKEND_COREML: return true;
  }
  throw errorf("the backend {} is not known", static_cast<int>(backend));
}

std::shared_ptr<const Backend> backend_of(const anemone_open_options& o) {
  const ComputeUnits units = units_of(o.compute_units);
  const Arithmetic arithmetic = arithmetic_of(o.arithmetic);
  if (!takes_core_ml(o.backend, units)) return cpu_backend({.arithmetic = arithmetic, .threads = o.threads});
  CoreMlOptions options;
  options.units = units;
  if (o.cache_folder) options.cache = o.cache_folder;
  if (o.progress)
    options.progress = [o](const LoadStep& step) {
      static constexpr const char* kPhases[] = {"compiling", "loading", "warming up", ""};
      return o.progress(o.user, kPhases[static_cast<int>(step.phase)], step.package.c_str(),
                        step.function.c_str(), step.seconds) == 0;
    };
  return coreml_backend(options);
}

}  // namespace

extern "C" {

void anemone_open_options_init_sized(anemone_open_options* options, size_t size) {
  put_defaults(options, size, anemone_open_options{});
}

anemone_status anemone_bundle_open(const char* path, const anemone_open_options* options,
                                   anemone_bundle** out) {
  return guarded([&] {
    anemone_bundle*& place = emptied(out, "the place for the bundle");
    auto made = std::make_unique<anemone_bundle>();
    made->bundle =
        Bundle::open(&expect(path, "the path"), backend_of(taken(options, anemone_open_options_init_sized)));
    if (!made->bundle->info().tokenizer.empty())
      made->format = std::make_shared<PromptFormat>(load_tokenizer(*made->bundle));
    place = made.release();
    return ANEMONE_OK;
  });
}

void anemone_bundle_close(anemone_bundle* bundle) { delete bundle; }

anemone_status anemone_bundle_load(anemone_bundle* bundle) {
  return guarded([&] {
    expect(bundle, "the bundle").bundle->load_all();
    return ANEMONE_OK;
  });
}

const char* anemone_bundle_backend(const anemone_bundle* bundle) {
  return bundle ? bundle->bundle->backend().name().data() : "";
}
int64_t anemone_bundle_context(const anemone_bundle* bundle) {
  return bundle ? bundle->bundle->tiers().back() : 0;
}
int64_t anemone_bundle_vocabulary(const anemone_bundle* bundle) {
  return bundle ? bundle->bundle->info().vocab : 0;
}

anemone_status anemone_bundle_tokenizer(const anemone_bundle* bundle, anemone_tokenizer** out) {
  return guarded([&] {
    anemone_tokenizer*& place = emptied(out, "the place for the tokenizer");
    const auto& format = expect(bundle, "the bundle").format;
    if (!format) throw errorf("the bundle has no tokenizer").at(bundle->bundle->path().string());
    place = new anemone_tokenizer{format};
    return ANEMONE_OK;
  });
}

}  // extern "C"
}  // namespace anemone
