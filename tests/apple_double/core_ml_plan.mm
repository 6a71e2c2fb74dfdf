// MLComputePlan: everything on the Neural Engine, unless the switches say otherwise.
#include "core_ml.h"
#include "double.h"
#include "objc_runtime.h"
#include "package/package.h"

using namespace apple_double;

@interface MLModelStructureProgramNamedValueType () {
 @public
  NSString* name_;
}
@end

@interface MLModelStructureProgramBlock () {
 @public
  NSMutableArray* operations_;
}
@end

@interface MLModelStructureProgramOperation () {
 @public
  NSString* operator_;
  NSMutableArray *outputs_, *blocks_;
}
@end

@interface MLModelStructureProgramFunction () {
 @public
  MLModelStructureProgramBlock* block_;
}
@end

@interface MLModelStructureProgram () {
 @public
  NSMutableDictionary* functions_;
}
@end

@interface MLModelStructure () {
 @public
  MLModelStructureProgram* program_;
}
@end

@interface MLComputePlanCost () {
 @public
  double weight_;
}
@end

@interface MLComputePlanDeviceUsage () {
 @public
  NSArray* supported_;
  id preferred_;
}
@end

namespace {

bool listed(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

MLModelStructureProgramBlock* structure(const anemone::Block& block) {
  MLModelStructureProgramBlock* out = [MLModelStructureProgramBlock new];
  out->operations_ = [NSMutableArray new];
  for (const auto& op : block.ops) {
    MLModelStructureProgramOperation* one = [MLModelStructureProgramOperation new];
    one->operator_ = text("ios18." + op->type);
    one->outputs_ = [NSMutableArray new];
    one->blocks_ = [NSMutableArray new];
    for (const auto& value : op->outputs) {
      MLModelStructureProgramNamedValueType* named = [MLModelStructureProgramNamedValueType new];
      named->name_ = text(value->name);
      [one->outputs_ addObject:named];
    }
    for (const auto& inner : op->blocks) [one->blocks_ addObject:structure(*inner)];
    [out->operations_ addObject:one];
  }
  return out;
}

}  // namespace

@implementation MLModelStructureProgramNamedValueType
- (NSString*)name {
  return name_;
}
@end

@implementation MLModelStructureProgramBlock
- (NSArray*)operations {
  return operations_;
}
@end

@implementation MLModelStructureProgramOperation
- (NSString*)operatorName {
  return operator_;
}
- (NSArray*)outputs {
  return outputs_;
}
- (NSArray*)blocks {
  return blocks_;
}
@end

@implementation MLModelStructureProgramFunction
- (MLModelStructureProgramBlock*)block {
  return block_;
}
@end

@implementation MLModelStructureProgram
- (NSDictionary*)functions {
  return functions_;
}
@end

@implementation MLModelStructure
- (MLModelStructureProgram*)program {
  return program_;
}
@end

@implementation MLComputePlanCost
- (double)weight {
  return weight_;
}
@end

@implementation MLComputePlanDeviceUsage
- (NSArray*)supportedComputeDevices {
  return supported_;
}
- (id)preferredComputeDevice {
  return preferred_;
}
@end

@implementation MLComputePlan {
  MLModelStructure* structure_;
  double share_;
  MLComputeUnits units_;
}
+ (void)loadContentsOfURL:(NSURL*)url
            configuration:(MLModelConfiguration*)configuration
        completionHandler:(void (^)(MLComputePlan*, NSError*))handler {
  ++seen().plans;
  MLModelConfiguration* kept = [configuration copy];
  auto* work = new std::function<void()>([=] {
    Compiled compiled;
    const std::string fault = open_compiled(url.path.UTF8String, kept.functionName, compiled);
    if (!fault.empty()) return handler(nil, error(MLModelErrorIO, fault));
    MLComputePlan* plan = [MLComputePlan new];
    plan->structure_ = [MLModelStructure new];
    plan->structure_->program_ = [MLModelStructureProgram new];
    NSMutableDictionary* functions = [NSMutableDictionary new];
    plan->structure_->program_->functions_ = functions;
    size_t operations = 1;
    for (const auto& f : compiled.package->program.functions) {
      MLModelStructureProgramFunction* one = [MLModelStructureProgramFunction new];
      one->block_ = structure(f->body);
      operations += f->body.ops.size();
      functions[text(f->name)] = one;
    }
    plan->units_ = kept.computeUnits;
    plan->share_ = 1.0 / static_cast<double>(operations);
    handler(plan, nil);
  });
  later(
      [](void* context) {
        const objc_double::Inside own;
        std::unique_ptr<std::function<void()>> it(static_cast<std::function<void()>*>(context));
        (*it)();
      },
      work);
}
- (MLModelStructure*)modelStructure {
  return structure_;
}
- (MLComputePlanDeviceUsage*)computeDeviceUsageForMLProgramOperation:
    (MLModelStructureProgramOperation*)operation {
  const std::string type = std::string(operation->operator_.UTF8String).substr(6);
  if (type == "const" || type.starts_with("constexpr_")) return nil;
  MLModelStructureProgramNamedValueType* first =
      operation->outputs_.count > 0 ? [operation->outputs_ objectAtIndex:0] : nil;
  const std::string name = first ? first->name_.UTF8String : "";
  const bool cpu =
      units_ == MLComputeUnitsCPUOnly || listed(switches().on_cpu, type) || listed(switches().on_cpu, name);
  const bool gpu =
      units_ == MLComputeUnitsCPUAndGPU || listed(switches().on_gpu, type) || listed(switches().on_gpu, name);
  MLComputePlanDeviceUsage* out = [MLComputePlanDeviceUsage new];
  NSMutableArray* supported = [NSMutableArray arrayWithCapacity:3];
  [supported addObject:[MLCPUComputeDevice new]];
  [supported addObject:[MLGPUComputeDevice new]];
  if (!cpu && !gpu) [supported addObject:[MLNeuralEngineComputeDevice new]];
  out->supported_ = supported;
  out->preferred_ = cpu   ? [MLCPUComputeDevice new]
                    : gpu ? (id)[MLGPUComputeDevice new]
                          : [MLNeuralEngineComputeDevice new];
  return out;
}
- (MLComputePlanCost*)estimatedCostOfMLProgramOperation:(MLModelStructureProgramOperation*)operation {
  if (![self computeDeviceUsageForMLProgramOperation:operation]) return nil;
  MLComputePlanCost* out = [MLComputePlanCost new];
  out->weight_ = share_;
  return out;
}
@end
