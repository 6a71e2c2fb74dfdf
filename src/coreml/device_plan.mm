// What MLComputePlan says of a bundle's functions.
#include <chrono>

#include "base/error.h"
#include "bundle/bundle_info.h"
#include "check/bundle_packages.h"
#include "coreml/coreml_call.h"
#include "coreml/device_report.h"
#include "coreml/waiting.h"
#include "package/package.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

const char* device_name(id<MLComputeDeviceProtocol> device) {
  if ([device isKindOfClass:[MLNeuralEngineComputeDevice class]]) return "ANE";
  if ([device isKindOfClass:[MLGPUComputeDevice class]]) return "GPU";
  return "CPU";
}

// Core ML names an operation by its results; ours has a name of its own.
using OpsByOutput = std::map<std::string, const Operation*>;

void name_ops(const Block& block, OpsByOutput& out) {
  for (const auto& op : block.ops) {
    if (!op->outputs.empty()) out.emplace(op->outputs[0]->name, op.get());
    for (const auto& inner : op->blocks) name_ops(*inner, out);
  }
}

void read_block(MLComputePlan* plan, MLModelStructureProgramBlock* block, const OpsByOutput& ours,
                std::vector<DeviceOp>& out) {
  NSArray<MLModelStructureProgramOperation*>* operations = block.operations;
  for (NSUInteger i = 0; i < operations.count; ++i) {
    MLModelStructureProgramOperation* operation = [operations objectAtIndex:i];
    for (NSUInteger b = 0; b < operation.blocks.count; ++b)
      read_block(plan, [operation.blocks objectAtIndex:b], ours, out);
    MLComputePlanDeviceUsage* usage = [plan computeDeviceUsageForMLProgramOperation:operation];
    if (!usage || operation.outputs.count == 0) continue;  // constants, and what it will not say
    const auto it = ours.find(cpp_string([operation.outputs objectAtIndex:0].name));
    if (it == ours.end()) continue;  // Core ML's own
    DeviceOp op;
    op.name = it->second->name();
    op.type = cpp_string(operation.operatorName);
    if (const size_t dot = op.type.rfind('.'); dot != std::string::npos)
      op.type.erase(0, dot + 1);  // "ios18.conv"
    op.device = device_name(usage.preferredComputeDevice);
    NSArray<id<MLComputeDeviceProtocol>>* supported = usage.supportedComputeDevices;
    for (NSUInteger d = 0; d < supported.count; ++d)
      op.supported.emplace_back(device_name([supported objectAtIndex:d]));
    if (MLComputePlanCost* cost = [plan estimatedCostOfMLProgramOperation:operation]) op.cost = cost.weight;
    out.push_back(std::move(op));
  }
}

std::vector<DeviceOp> read_plan(LoadedModel& model, const Function& function) {
  OpsByOutput ours;
  name_ops(function.body, ours);
  std::vector<DeviceOp> out;
  std::optional<Error> failed;
  @autoreleasepool {
    Waiting<MLComputePlan*> loaded;
    [MLComputePlan loadContentsOfURL:ns_url(model.compiled())
                       configuration:model.model().configuration
                   completionHandler:loaded.handler()];
    NSError* problem = nil;
    MLComputePlan* plan = loaded.wait([](double) { return true; }, problem);
    MLModelStructureProgram* program = plan.modelStructure.program;
    MLModelStructureProgramFunction* structure = [program.functions objectForKey:ns_string(function.name)];
    if (!plan)
      failed = core_ml_error("Core ML makes no compute plan", problem);
    else if (!structure)
      failed = errorf("Core ML's plan has no function '{}'", function.name);
    else
      read_block(plan, structure.block, ours, out);
  }
  if (failed) throw Error(failed->at(model.place()));
  return out;
}

// The time of a prediction on zeros: the middle of seven, behind two that warm up.
double prediction_ms(const std::shared_ptr<LoadedModel>& model) {
  CoreMlCall call(model, model->smallest_shapes());
  for (const TensorInfo& input : model->signature().inputs) call.input(input.name);
  std::vector<double> times;
  MLState* state = nil;
  @autoreleasepool {
    if (!model->signature().states.empty()) state = [model->model() newState];
  }
  for (int i = 0; i < 9; ++i) {  // a prediction may throw, and a pool around it would stay
    const auto begin = Steady::now();
    call.predict(state);
    if (i > 1) times.push_back(1000 * seconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

DeviceFunction examine_function(const std::shared_ptr<const Package>& package, const std::string& function,
                                const CoreMlOptions& options) {
  DeviceFunction out{package->path.filename().string(), function, {}};
  auto begin = Steady::now();
  const auto model = LoadedModel::open(package, function, options, std::make_shared<CoreMlTally>());
  out.load_s = seconds_since(begin);
  begin = Steady::now();
  out.ops = read_plan(*model, *package->program.find_function(function));
  out.plan_s = seconds_since(begin);
  out.prediction_ms = prediction_ms(model);
  return out;
}

DeviceReport examine_device(const fs::path& path, const CoreMlOptions& options) {
  if (const std::string why = core_ml_missing(options.units); !why.empty()) throw Error(why);
  DeviceReport out;
  out.model = fs::absolute(path).lexically_normal().filename().string();
  out.device = core_ml_device();
  out.units = options.units;
  std::vector<std::shared_ptr<const Package>> packages;
  if (fs::exists(path / "bundle.json"))
    packages = open_packages(BundleInfo::read(path), path);
  else
    packages.push_back(open_package(path));
  for (const auto& package : packages)
    for (const auto& function : package->program.functions)
      out.functions.push_back(examine_function(package, function->name, options));
  return out;
}

}  // namespace anemone
