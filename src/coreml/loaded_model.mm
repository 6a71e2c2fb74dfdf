#include "coreml/loaded_model.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.h"
#include "base/shape.h"
#include "coreml/compiled_cache.h"
#include "coreml/coreml_call.h"
#include "coreml/waiting.h"
#include "package/package.h"
#include "predict/predictor.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

MLComputeUnits units_of(ComputeUnits units) {
  switch (units) {
    case ComputeUnits::ane: return MLComputeUnitsCPUAndNeuralEngine;
    case ComputeUnits::gpu: return MLComputeUnitsCPUAndGPU;
    case ComputeUnits::cpu: return MLComputeUnitsCPUOnly;
    case ComputeUnits::all: return MLComputeUnitsAll;
  }
  throw Error("these compute units have no number in Core ML");
}

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  int64_t ms() const { return static_cast<int64_t>(seconds() * 1000); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The folder that was made for a compiled package, where it is empty now: not the one of all temporary files.
void remove_folder_of(const fs::path& compiled) {
  std::error_code ignored;
  const fs::path folder =
      compiled.has_filename() ? compiled.parent_path() : compiled.parent_path().parent_path();
  if (!fs::equivalent(folder, fs::temp_directory_path(ignored), ignored)) fs::remove(folder, ignored);
}

// An input, output or state as Core ML describes it.
struct Seen {
  const char* what;
  const TensorInfo* info;
  bool there = false, array = false;
  std::vector<int64_t> shape;
  DType dtype = DType::none;
};

void look(const char* what, const std::vector<TensorInfo>& infos,
          NSDictionary<NSString*, MLFeatureDescription*>* found, std::vector<Seen>& out) {
  for (const TensorInfo& info : infos) {
    Seen seen{what, &info};
    MLFeatureDescription* one = [found objectForKey:ns_string(info.name)];
    seen.there = one != nil;
    if (MLStateConstraint* state = one.stateConstraint) {
      seen.array = true;
      seen.shape = cpp_numbers(state.bufferShape);
      seen.dtype = dtype_of(state.dataType);
    } else if (MLMultiArrayConstraint* array = one.multiArrayConstraint) {
      seen.array = true;
      seen.shape = cpp_numbers(array.shape);
      seen.dtype = dtype_of(array.dataType);
    }
    out.push_back(std::move(seen));
  }
}

void check_tensor(const Seen& seen) {
  const TensorInfo& info = *seen.info;
  if (!seen.there) throw errorf("Core ML sees no {} '{}'", seen.what, info.name);
  if (!seen.array) return;  // a classifier's
  const bool kept = info.dtype == DType::fp16 || info.dtype == DType::fp32 || info.dtype == DType::fp64;
  const DType wanted = kept ? info.dtype : DType::int32;
  const bool flexible = !info.enumerated.empty() || std::ranges::count(info.shape, -1) > 0;
  const bool scalar = info.shape.empty() && seen.shape == std::vector<int64_t>{1};
  if ((flexible || scalar || seen.shape.empty() || seen.shape == info.shape) && seen.dtype == wanted) return;
  throw errorf("Core ML sees another {} '{}' than the package says", seen.what, info.name)
      .found(fmt::format("{} {}", dtype_name(seen.dtype), shape_text(seen.shape)))
      .expected(fmt::format("{} {}", dtype_name(wanted), shape_text(info.shape)))
      .hint("the cache may hold another package: anemone doctor --cache --clean --all");
}

std::vector<std::string> classes_of(const Package& package, const std::string& function) {
  std::vector<std::string> out;
  const Function* f = package.program.find_function(function);
  if (!f) return out;
  for (const auto& op : f->body.ops)
    if (op->type == "classify") out = class_names(*op);
  return out;
}

}  // namespace

void CoreMlTally::remark(const std::string& text) {
  std::lock_guard lock(mutex);
  if (std::ranges::count(remarks, text) == 0) remarks.push_back(text);
}

std::shared_ptr<LoadedModel> LoadedModel::open(const std::shared_ptr<const Package>& package,
                                               const std::string& function, const CoreMlOptions& options,
                                               std::shared_ptr<CoreMlTally> tally) {
  std::shared_ptr<LoadedModel> out(new LoadedModel);
  out->options_ = options;
  out->tally_ = std::move(tally);
  const std::vector<Signature> all = signatures(*package);
  const auto it = std::ranges::find_if(
      all, [&](const Signature& s) { return function.empty() || s.function == function; });
  if (it == all.end()) throw errorf("there is no function '{}'", function).at(package->path.string());
  out->signature_ = *it;
  out->package_ = package->path.filename().string();
  out->place_ = fmt::format("{}: function '{}'", package->path.string(), it->function);
  out->classes_ = classes_of(*package, it->function);
  out->backings_ = std::vector<std::atomic<Backing>>(it->outputs.size());
  const Clock all_time;
  try {
    out->compiled_ = out->compile(*package);
    out->load(*package);
    out->check_description();
    if (options.prewarm) out->prewarm();
  } catch (Error& e) {
    if (e.where().empty()) e.at(out->place_);
    throw;
  }
  out->report(LoadStep::Phase::done, all_time.seconds());
  return out;
}

LoadedModel::LoadedModel()
    : number_([] {
        static std::atomic<int64_t> next{0};
        return ++next;
      }()) {}

LoadedModel::~LoadedModel() { model_ = nil; }  // before the files that it reads

// It is gone after Ctrl-C, too: a package can have gigabytes.
const fs::path& LoadedModel::temporary_folder() {
  if (!temporary_) {
    std::error_code problem;
    const fs::path all = fs::temp_directory_path(problem);
    if (problem) throw errorf("there is no folder for temporary files").hint("set TMPDIR to one");
    // A name that nobody else has: containers may share the folder and the numbers of processes.
    temporary_ = std::make_unique<StagedOutput>(
        all / fmt::format("anemone-{}-{:08x}", ::getpid(), std::random_device()()), true);
    temporary_->make_folder();
    fs::permissions(temporary_->path(), fs::perms::owner_all, problem);
    if (problem)
      throw errorf("cannot be made private: {}", problem.message()).at(temporary_->path().string());
  }
  return temporary_->path();
}

void LoadedModel::report(LoadStep::Phase phase, double seconds) const {
  if (!options_.progress || options_.progress({phase, package_, signature_.function, seconds})) return;
  throw Error("loading was given up");
}

// A package as it was read is compiled once for all; one that was changed since, for this time alone.
fs::path LoadedModel::compile(const Package& package) {
  if (package.as_stored && package.path.extension() == ".mlmodelc") return package.path;
  const CompiledCache cache(options_.cache.empty() ? CompiledCache::default_folder() : options_.cache,
                            core_ml_device().build);
  fs::path source = package.path;
  std::string key;
  const std::lock_guard lock(tally_->compiling);
  if (package.as_stored) {
    key = cache.key(source);
    if (const auto found = cache.find(key)) return *found;
  } else {
    source = temporary_folder() / "changed.mlpackage";
    write_package(package, source);
  }
  const fs::path compiled = run_compiler(source);
  if (package.as_stored) {
    try {
      const fs::path kept = cache.put(compiled, key, package_);
      remove_folder_of(compiled);
      return kept;
    } catch (const Error& e) {
      tally_->remark(fmt::format("compiled anew each time: {}", e.what()));
    }
  }
  try {
    const fs::path kept = temporary_folder() / "compiled.mlmodelc";
    move_folder(compiled, kept);
    remove_folder_of(compiled);
    return kept;
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(compiled, ignored);  // nobody else does
    remove_folder_of(compiled);
    throw;
  }
}

fs::path LoadedModel::run_compiler(const fs::path& source) {
  const Clock clock;
  std::optional<Error> failed;
  fs::path out;
  report(LoadStep::Phase::compile, 0);
  @autoreleasepool {
    Waiting<NSURL*> compiled;
    [MLModel compileModelAtURL:ns_url(source) completionHandler:compiled.handler()];
    NSError* problem = nil;
    NSURL* url = compiled.wait(
        [&](double seconds) {
          return !options_.progress ||
                 options_.progress({LoadStep::Phase::compile, package_, signature_.function, seconds});
        },
        problem);
    if (url)
      out = cpp_path(url);
    else
      failed = problem ? core_ml_error("Core ML cannot compile the package", problem)
                       : Error("compiling was given up");
  }
  if (failed) throw Error(*failed);
  ++tally_->compiled;
  tally_->compile_ms += clock.ms();
  return out;
}

void LoadedModel::load(const Package& package) {
  const Clock clock;
  std::optional<Error> failed;
  report(LoadStep::Phase::load, 0);
  @autoreleasepool {
    MLModelConfiguration* configuration = [MLModelConfiguration new];
    configuration.computeUnits = units_of(options_.units);
    configuration.modelDisplayName = ns_string(package_ + " " + signature_.function);
    if (package.program.functions.size() > 1 || package.partial)
      configuration.functionName = ns_string(signature_.function);
    MLOptimizationHints* hints = [MLOptimizationHints new];
    hints.reshapeFrequency = MLReshapeFrequencyHintInfrequent;
    hints.specializationStrategy = MLSpecializationStrategyFastPrediction;
    configuration.optimizationHints = hints;
    Waiting<MLModel*> loaded;
    [MLModel loadContentsOfURL:ns_url(compiled_)
                 configuration:configuration
             completionHandler:loaded.handler()];
    NSError* problem = nil;
    model_ = loaded.wait(
        [&](double seconds) {
          return !options_.progress ||
                 options_.progress({LoadStep::Phase::load, package_, signature_.function, seconds});
        },
        problem);
    if (!model_)
      failed =
          problem ? core_ml_error("Core ML cannot load the model", problem) : Error("loading was given up");
  }
  if (failed) throw Error(*failed);
  ++tally_->loaded;
  tally_->load_ms += clock.ms();
}

// What Core ML sees must be what the package said: the cache is only files.
void LoadedModel::check_description() const {
  std::vector<Seen> seen;
  @autoreleasepool {
    MLModelDescription* description = model_.modelDescription;
    look("input", signature_.inputs, description.inputDescriptionsByName, seen);
    look("output", signature_.outputs, description.outputDescriptionsByName, seen);
    look("state", signature_.states, description.stateDescriptionsByName, seen);
  }
  for (const Seen& one : seen) check_tensor(one);
}

InputShapes LoadedModel::smallest_shapes() const {
  InputShapes out;
  for (const TensorInfo& input : signature_.inputs) {
    std::vector<int64_t> shape = input.enumerated.empty() ? input.shape : input.enumerated.front();
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] < 0) shape[i] = i < input.range.size() ? std::max<int64_t>(input.range[i].first, 1) : 1;
    out.emplace(input.name, shape.empty() ? std::vector<int64_t>{1} : shape);
  }
  return out;
}

// The first predictions are slow, and show what becomes of proposed buffers. What they write is thrown away.
void LoadedModel::prewarm() {
  const Clock clock;
  report(LoadStep::Phase::warm, 0);
  CoreMlCall call(shared_from_this(), smallest_shapes());
  for (const TensorInfo& input : signature_.inputs) call.input(input.name);
  MLState* state = nil;
  @autoreleasepool {
    if (!signature_.states.empty()) state = [model_ newState];
  }
  for (int i = 0; i < 2; ++i) call.predict(state);  // it may throw, and a pool around it would stay
  tally_->warm_ms += clock.ms();
}

void LoadedModel::set_backing(size_t output, Backing what) {
  const Backing before = backings_[output].exchange(what);
  if (before == what) return;
  if (before == Backing::untried) ++tally_->outputs;
  if (before == Backing::apart) --tally_->apart;
  if (what == Backing::apart) ++tally_->apart;
  if (what == Backing::declined) ++tally_->declined;
}

}  // namespace anemone
