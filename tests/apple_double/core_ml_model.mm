// Models and states: packages run on anemone's own CPU engine, in fp16 arithmetic.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "anemone/error.h"
#include "core_ml.h"
#include "core_video.h"
#include "double.h"
#include "engine/cpu_backend.h"
#include "objc_runtime.h"
#include "package/package.h"

namespace fs = std::filesystem;
using namespace apple_double;
using objc_double::Inside;

namespace {

const anemone::Backend& engine() {
  static const auto one = anemone::cpu_backend({.arithmetic = anemone::Arithmetic::fp16, .threads = 1});
  return *one;
}

constexpr const char* kInside = "double.mlpackage";

// Copies a package as a compiler would leave it, in a temporary place of its own.
NSURL* compile(const fs::path& from) {
  std::string pattern = (fs::temp_directory_path() / "apple_double_XXXXXX").string();
  if (!::mkdtemp(pattern.data())) return nil;
  const fs::path out = fs::path(pattern) / (from.stem().string() + ".mlmodelc");
  fs::create_directories(out);
  fs::copy(from, out / kInside, fs::copy_options::recursive);
  return [NSURL fileURLWithPath:text(out.string()) isDirectory:YES];
}

template <class Work>
void run_later(Work work) {
  later(
      [](void* context) {
        const Inside own;
        std::unique_ptr<Work> it(static_cast<Work*>(context));
        (*it)();
      },
      new Work(std::move(work)));
}

struct Busy {
  explicit Busy(std::atomic<int>& n, std::atomic<int64_t>& faults) : count(n) {
    if (++count > 1) ++faults;
  }
  ~Busy() { --count; }
  std::atomic<int>& count;
};

}  // namespace

namespace apple_double {

// The name holds the text; no name holds an empty one.
static bool named(const std::string& part, const std::string& name) {
  return !part.empty() && name.find(part) != std::string::npos;
}

std::string open_compiled(const std::string& path, NSString* function, Compiled& out) {
  const fs::path inside = fs::path(path) / kInside;
  if (fs::path(path).extension() != ".mlmodelc" || !fs::exists(inside))
    return "Unable to load model: " + path + ". Compile the model with Xcode or `MLModel.compileModel(at:)`.";
  try {
    out.package = anemone::open_package(inside);
    const auto all = anemone::signatures(*out.package);
    if (function && all.size() == 1) return "functionName is not supported for a model with one function.";
    out.function = function ? function.UTF8String : all.front().function;
    for (const auto& one : all)
      if (one.function == out.function && out.function != switches().missing_function) return "";
    return "Function name not found: " + out.function;
  } catch (const anemone::Error& e) {
    return e.what();
  }
}

}  // namespace apple_double

@implementation MLState
- (void)getMultiArrayForStateNamed:(NSString*)stateName handler:(void(NS_NOESCAPE ^)(MLMultiArray*))handler {
  std::atomic_ref<int> busy(busy_);
  if (busy.load() != 0) ++seen().overlapping_states;
  const auto it = infos_.find(stateName.UTF8String);
  if (it == infos_.end()) std::abort();
  MLMultiArray* array = make_array(it->second.shape, MLMultiArrayDataTypeFloat16);
  copy_elements(anemone::TensorView::of(state_->get(it->first)), view(array));
  handler(array);
  const anemone::TensorView written = view(array);
  state_->set(it->first, written.copy());
  // Whoever kept the address reads what is no number.
  if (switches().moving_states) std::memset(written.data, 0x7e, static_cast<size_t>(written.size() * 2));
}
@end

@implementation MLModel {
  std::unique_ptr<anemone::Predictor> predictor_;
  std::map<anemone::InputShapes, std::unique_ptr<anemone::Call>> calls_;
  MLModelConfiguration* configuration_;
  MLModelDescription* description_;
  std::mutex mutex_;
  std::atomic<int> busy_;
}

+ (void)compileModelAtURL:(NSURL*)modelURL completionHandler:(void (^)(NSURL*, NSError*))handler {
  ++seen().compiles;
  run_later([=] {
    const std::string path = modelURL.path.UTF8String;
    if (switches().fail_compile) {
      NSError* under =
          error(0, "Espresso exception: \"Invalid state\": MpsGraph backend validation on incompatible OS");
      return handler(nil, error(MLModelErrorGeneric, "Failed to compile the model.", under));
    }
    if (!fs::exists(path)) return handler(nil, error(MLModelErrorIO, "Unable to open file: " + path));
    handler(compile(path), nil);
  });
}

+ (void)loadContentsOfURL:(NSURL*)url
            configuration:(MLModelConfiguration*)configuration
        completionHandler:(void (^)(MLModel*, NSError*))handler {
  ++seen().loads;
  MLModelConfiguration* kept = [configuration copy];
  run_later([=] {
    const std::string function = kept.functionName ? kept.functionName.UTF8String : "";
    if (switches().fail_load || named(switches().refused_function, function))
      return handler(nil,
                     error(MLModelErrorGeneric, "Unable to load model.", error(0, switches().fail_text)));
    Compiled compiled;
    const std::string fault = open_compiled(url.path.UTF8String, kept.functionName, compiled);
    if (!fault.empty()) return handler(nil, error(MLModelErrorIO, fault));
    MLModel* model = [MLModel new];
    model->predictor_ = engine().open(compiled.package, compiled.function, {});
    model->configuration_ = kept;
    model->description_ = describe(model->predictor_->signature());
    handler(model, nil);
  });
}

+ (NSArray*)availableComputeDevices {
  NSMutableArray* out = [NSMutableArray arrayWithCapacity:3];
  [out addObject:[MLCPUComputeDevice new]];
  [out addObject:[MLGPUComputeDevice new]];
  if (switches().neural_engine) [out addObject:[MLNeuralEngineComputeDevice new]];
  return out;
}

- (MLModelDescription*)modelDescription {
  return description_;
}
- (MLModelConfiguration*)configuration {
  return [configuration_ copy];
}

- (MLState*)newState {
  MLState* out = [MLState new];
  out->maker_ = (__bridge void*)self;
  out->state_ = predictor_->make_state();
  for (const auto& info : predictor_->signature().states) out->infos_[info.name] = info;
  return out;
}

// The inputs, lent to a call for their shapes; a text where one does not fit.
- (std::string)lend:(id<MLFeatureProvider>)input to:(anemone::Call**)out {
  anemone::InputShapes shapes;
  std::map<std::string, MLMultiArray*> arrays;
  NSSet* names = input.featureNames;
  for (const auto& info : predictor_->signature().inputs) {
    NSString* name = text(info.name);
    MLFeatureValue* value = [names containsObject:name] ? [input featureValueForName:name] : nil;
    if (!value && info.optional) continue;
    MLMultiArray* array = value.multiArrayValue;
    if (!array) return "Feature " + info.name + " is required but not specified.";
    if (array->buffer_ && array->buffer_->locks > 0) ++seen().locked_buffers;
    shapes[info.name] = array->shape_;
    arrays[info.name] = array;
  }
  std::unique_ptr<anemone::Call>& call = calls_[shapes];
  if (!call) call = predictor_->make_call(shapes);
  for (const auto& [name, array] : arrays) {
    call->lend(name, view(array));
    array->was_input_ = true;
    if (array->buffer_) array->buffer_->was_input = true;
  }
  *out = call.get();
  return "";
}

// What is proposed for an output, if it is taken; a text where it is refused.
- (std::string)backing:(MLMultiArray**)out
                  from:(NSDictionary*)backings
                 named:(const std::string&)name
                 shape:(const std::vector<int64_t>&)shape
                  type:(MLMultiArrayDataType)type {
  MLMultiArray* proposed = backings[text(name)];
  if (!proposed || switches().backings == Backings::ignored) return "";
  CVPixelBufferRef buffer = proposed->buffer_;
  if (switches().backings == Backings::refused || proposed->shape_ != shape || proposed->type_ != type)
    return "Output feature " + name + " doesn't support the requested output backing.";
  if (buffer && (buffer->locks > 0 || buffer->touched)) {
    ++seen().locked_buffers;
    return "The output backing of " + name + " is locked.";
  }
  if (proposed->was_input_ || (buffer && buffer->was_input)) {
    if (switches().used_backings == UsedBackings::refused)
      return "The output backing of " + name + " is locked.";
    if (switches().used_backings == UsedBackings::ignored) return "";
  }
  *out = proposed;
  return "";
}

- (std::string)collect:(const anemone::Call&)call
                  with:(NSDictionary*)backings
                  into:(DoubleFeatures*)features {
  for (const auto& info : predictor_->signature().outputs) {
    MLFeatureValue* value = [MLFeatureValue new];
    value->type_ = MLFeatureTypeMultiArray;
    const std::vector<std::string> labels = call.labels(info.name);
    const anemone::TensorView given = call.output(info.name);
    if (!labels.empty()) {
      value->type_ = given.dtype == anemone::DType::string ? MLFeatureTypeString : MLFeatureTypeDictionary;
      NSMutableDictionary* map = [NSMutableDictionary new];
      const std::vector<float> parts = labels.size() > 1 ? given.to_float() : std::vector<float>();
      for (size_t i = 0; i < parts.size(); ++i) map[text(labels[i])] = [NSNumber numberWithDouble:parts[i]];
      value->map_ = map;
      value->text_ = text(labels.front());
    } else {
      const MLMultiArrayDataType type = type_of(info.dtype);
      MLMultiArray* array = nil;
      const std::string fault = [self backing:&array
                                         from:backings
                                        named:info.name
                                        shape:given.shape
                                         type:type];
      if (!fault.empty()) return fault;
      value->array_ = array ? array : make_array(given.shape, type);
      copy_elements(given, view(value->array_));
      if (named(switches().wrong_function, predictor_->signature().function))
        std::memset(view(value->array_).data, 0x5c, 2);  // 279, whatever it was
      if (named(switches().nan_function, predictor_->signature().function))
        std::memset(view(value->array_).data, 0x7e, 2);
    }
    features->values_[text(info.name)] = value;
  }
  return "";
}

- (anemone::State*)engineState:(MLState*)state {
  if (!state || state->maker_ == (__bridge void*)self || switches().foreign_states == ForeignStates::shared)
    return state ? state->state_.get() : nullptr;
  if (switches().foreign_states == ForeignStates::refused) return nullptr;
  auto& hidden = state->hidden_[(__bridge void*)self];
  if (!hidden) hidden = predictor_->make_state();
  return hidden.get();
}

- (id<MLFeatureProvider>)run:(id<MLFeatureProvider>)input
                       state:(MLState*)state
                     options:(MLPredictionOptions*)options
                       error:(NSError**)problem {
  const Inside own;
  const int64_t number = ++seen().predictions, first = switches().fail_at;
  if (first > 0 && number >= first && number < first + switches().fail_count) {
    *problem = error(MLModelErrorGeneric, "Unable to compute the prediction using ML Program.",
                     error(0, switches().fail_text));
    return nil;
  }
  DoubleFeatures* features = [DoubleFeatures new];
  features->values_ = [NSMutableDictionary new];
  if (named(switches().slow_function, predictor_->signature().function))
    std::this_thread::sleep_for(std::chrono::milliseconds(switches().slow_ms));
  std::string fault;
  try {
    std::lock_guard lock(mutex_);
    anemone::Call* call = nullptr;
    fault = [self lend:input to:&call];
    // Proposals are looked at before anything is computed.
    MLMultiArray* ignored = nil;
    for (NSString* name in options.outputBackings)
      for (const auto& info : predictor_->signature().outputs)
        if (fault.empty() && info.name == name.UTF8String) {
          MLMultiArray* proposed = options.outputBackings[name];
          fault = [self backing:&ignored
                           from:options.outputBackings
                          named:info.name
                          shape:proposed->shape_
                           type:type_of(info.dtype)];
        }
    if (fault.empty()) {
      anemone::State* states = [self engineState:state];
      if (state && !states) fault = "The state was created by a different model.";
      if (fault.empty()) {
        call->run(predictor_->signature().states.empty() ? nullptr : states);
        fault = [self collect:*call with:options.outputBackings into:features];
      }
    }
  } catch (const std::exception& e) {
    fault = e.what();
  }
  if (fault.empty()) return features;
  *problem = error(MLModelErrorGeneric, fault);
  return nil;
}

- (id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)input
                                        options:(MLPredictionOptions*)options
                                          error:(NSError**)error {
  if (!thread_has_quality()) ++seen().low_quality;
  const Busy busy(busy_, seen().overlapping_models);
  NSError* problem = nil;
  id<MLFeatureProvider> out = [self run:input state:nil options:options error:&problem];
  if (error) *error = problem;
  return out;
}

- (id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)inputFeatures
                                     usingState:(MLState*)state
                                        options:(MLPredictionOptions*)options
                                          error:(NSError**)error {
  if (!thread_has_quality()) ++seen().low_quality;
  const Busy busy(busy_, seen().overlapping_models);
  std::atomic_ref<int> on_state(state->busy_);
  if (++on_state > 1) ++seen().overlapping_states;
  NSError* problem = nil;
  id<MLFeatureProvider> out = [self run:inputFeatures state:state options:options error:&problem];
  --on_state;
  if (error) *error = problem;
  return out;
}

- (void)predictionFromFeatures:(id<MLFeatureProvider>)input
                       options:(MLPredictionOptions*)options
             completionHandler:(void (^)(id<MLFeatureProvider>, NSError*))completionHandler {
  static std::atomic<int64_t> under_way{0};
  const int64_t now = ++under_way;
  for (int64_t most = seen().most_in_flight; now > most;)
    if (seen().most_in_flight.compare_exchange_weak(most, now)) break;
  run_later([=] {
    NSError* problem = nil;
    id<MLFeatureProvider> out = [self run:input state:nil options:options error:&problem];
    --under_way;
    completionHandler(out, problem);
  });
}
@end

@implementation MLCPUComputeDevice
@end
@implementation MLGPUComputeDevice
@end
@implementation MLNeuralEngineComputeDevice
- (NSInteger)totalCoreCount {
  return 16;
}
@end
