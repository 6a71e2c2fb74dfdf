// Arrays, values, descriptions.
#include "core_ml.h"

#include <cstdlib>
#include <cstring>

#include "base/half.h"
#include "core_video.h"
#include "double.h"
#include "objc_runtime.h"

NSString* const MLModelErrorDomain = @"com.apple.CoreML";

namespace apple_double {

using anemone::DType;
using anemone::TensorView;

NSString* text(const std::string& s) { return [NSString stringWithUTF8String:s.c_str()]; }

NSArray* numbers(const std::vector<int64_t>& values) {
  NSMutableArray* out = [NSMutableArray arrayWithCapacity:values.size()];
  for (const int64_t v : values) [out addObject:[NSNumber numberWithLongLong:v]];
  return out;
}

NSError* error(NSInteger code, const std::string& what, NSError* under) {
  NSMutableDictionary* info = [NSMutableDictionary new];
  info[NSLocalizedDescriptionKey] = text(what);
  if (under) info[NSUnderlyingErrorKey] = under;
  return [NSError errorWithDomain:MLModelErrorDomain code:code userInfo:info];
}

MLMultiArrayDataType type_of(DType dtype) {
  if (dtype == DType::fp16) return MLMultiArrayDataTypeFloat16;
  if (dtype == DType::fp64) return MLMultiArrayDataTypeFloat64;
  return anemone::dtype_is_float(dtype) ? MLMultiArrayDataTypeFloat32 : MLMultiArrayDataTypeInt32;
}

DType dtype_of(MLMultiArrayDataType type) {
  switch (type) {
    case MLMultiArrayDataTypeFloat16: return DType::fp16;
    case MLMultiArrayDataTypeFloat32: return DType::fp32;
    case MLMultiArrayDataTypeFloat64: return DType::fp64;
    case MLMultiArrayDataTypeInt32: return DType::int32;
    case MLMultiArrayDataTypeInt8: return DType::int8;
  }
  return DType::none;
}

TensorView view(MLMultiArray* array) {
  return {dtype_of(array->type_), array->shape_, array->strides_,
          array->buffer_ ? array->buffer_->memory.data() : array->data_};
}

MLMultiArray* make_array(const std::vector<int64_t>& shape, MLMultiArrayDataType type) {
  const objc_double::Inside own;
  const int64_t size = (type & 0xffff) / 8;
  std::vector<int64_t> strides(shape.size(), 1);
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
    if (i + 1 == shape.size() && i > 0 && switches().padded_rows) step = (step * size + 63) / 64 * 64 / size;
  }
  const auto bytes = static_cast<size_t>(std::max<int64_t>(step * size, 1));
  void* memory = std::malloc(bytes);
  std::memset(memory, 0x7e, bytes);  // NaN, as halves
  return [[MLMultiArray alloc] initWithDataPointer:memory
                                             shape:numbers(shape)
                                          dataType:type
                                           strides:numbers(strides)
                                       deallocator:^(void* p) {
                                         std::free(p);
                                       }
                                             error:nullptr];
}

namespace {

double read(const TensorView& v, int64_t at) {
  switch (v.dtype) {
    case DType::fp16: return anemone::half_to_float(static_cast<const uint16_t*>(v.data)[at]);
    case DType::fp32: return static_cast<const float*>(v.data)[at];
    case DType::fp64: return static_cast<const double*>(v.data)[at];
    case DType::int32: return static_cast<const int32_t*>(v.data)[at];
    case DType::int8: return static_cast<const int8_t*>(v.data)[at];
    default: std::abort();
  }
}

void write(const TensorView& v, int64_t at, double value) {
  switch (v.dtype) {
    case DType::fp16:
      static_cast<uint16_t*>(v.data)[at] = anemone::half_from_float(static_cast<float>(value));
      return;
    case DType::fp32: static_cast<float*>(v.data)[at] = static_cast<float>(value); return;
    case DType::fp64: static_cast<double*>(v.data)[at] = value; return;
    case DType::int32: static_cast<int32_t*>(v.data)[at] = static_cast<int32_t>(value); return;
    case DType::int8: static_cast<int8_t*>(v.data)[at] = static_cast<int8_t>(value); return;
    default: std::abort();
  }
}

void copy_from(const TensorView& from, const TensorView& to, size_t axis, int64_t a, int64_t b) {
  if (axis == from.shape.size()) return write(to, b, read(from, a));
  for (int64_t i = 0; i < from.shape[axis]; ++i)
    copy_from(from, to, axis + 1, a + i * from.strides[axis], b + i * to.strides[axis]);
}

MLFeatureDescription* describe_one(const anemone::TensorInfo& info, MLFeatureType type) {
  MLFeatureDescription* out = [MLFeatureDescription new];
  out->name_ = text(info.name);
  out->type_ = info.dtype == DType::string ? MLFeatureTypeString : type;
  out->optional_ = info.optional;
  std::vector<int64_t> shape = info.enumerated.empty() ? info.shape : info.enumerated.front();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] < 0) shape[i] = i < info.range.size() ? info.range[i].first : 1;
  if (shape.empty() && type == MLFeatureTypeMultiArray && info.shape.empty()) shape = {1};
  out->array_ = [MLMultiArrayConstraint new];
  out->array_->shape_ = numbers(shape);
  out->array_->type_ = type_of(info.dtype);
  out->state_ = [MLStateConstraint new];
  out->state_->shape_ = numbers(shape);
  out->state_->type_ = type_of(info.dtype);
  return out;
}

}  // namespace

void copy_elements(const TensorView& from, const TensorView& to) {
  if (from.size() > 0) copy_from(from, to, 0, 0, 0);
}

MLModelDescription* describe(const anemone::Signature& signature) {
  MLModelDescription* out = [MLModelDescription new];
  out->inputs_ = [NSMutableDictionary new];
  out->outputs_ = [NSMutableDictionary new];
  out->states_ = [NSMutableDictionary new];
  for (const auto& i : signature.inputs)
    out->inputs_[text(i.name)] = describe_one(i, MLFeatureTypeMultiArray);
  for (const auto& i : signature.outputs)
    out->outputs_[text(i.name)] = describe_one(i, MLFeatureTypeMultiArray);
  for (const auto& i : signature.states) out->states_[text(i.name)] = describe_one(i, MLFeatureTypeState);
  return out;
}

}  // namespace apple_double

namespace {

std::vector<int64_t> plain(NSArray<NSNumber*>* numbers) {
  std::vector<int64_t> out;
  for (NSNumber* n in numbers) out.push_back(n.longLongValue);
  return out;
}

}  // namespace

@implementation MLMultiArray
- (instancetype)initWithShape:(NSArray*)shape dataType:(MLMultiArrayDataType)dataType error:(NSError**)error {
  type_ = dataType;
  shape_ = plain(shape);
  strides_.assign(shape_.size(), 1);
  for (size_t i = shape_.size(); i-- > 1;) strides_[i - 1] = strides_[i] * shape_[i];
  data_ = std::malloc(static_cast<size_t>(std::max<NSInteger>(self.count, 1) * (type_ & 0xffff) / 8));
  deallocator_ = ^(void* p) {
    std::free(p);
  };
  return self;
}
- (instancetype)initWithDataPointer:(void*)dataPointer
                              shape:(NSArray*)shape
                           dataType:(MLMultiArrayDataType)dataType
                            strides:(NSArray*)strides
                        deallocator:(void (^)(void*))deallocator
                              error:(NSError**)error {
  type_ = dataType;
  shape_ = plain(shape);
  strides_ = plain(strides);
  data_ = dataPointer;
  deallocator_ = deallocator;
  return self;
}
- (instancetype)initWithPixelBuffer:(CVPixelBufferRef)pixelBuffer shape:(NSArray*)shape {
  type_ = MLMultiArrayDataTypeFloat16;
  shape_ = plain(shape);
  buffer_ = CVPixelBufferRetain(pixelBuffer);
  strides_.assign(shape_.size(), 1);
  int64_t step = static_cast<int64_t>(pixelBuffer->row_bytes / 2);
  for (size_t i = shape_.size(); i-- > 1;) {
    strides_[i - 1] = step;
    step *= shape_[i - 1];
  }
  return self;
}
- (void)dealloc {
  if (deallocator_) deallocator_(data_);
  CVPixelBufferRelease(buffer_);
}
- (void*)dataPointer {
  if (!buffer_) return data_;
  ++apple_double::seen().touched_pointers;
  buffer_->touched = true;
  return buffer_->memory.data();
}
- (MLMultiArrayDataType)dataType {
  return type_;
}
- (NSArray*)shape {
  return apple_double::numbers(shape_);
}
- (NSArray*)strides {
  return apple_double::numbers(strides_);
}
- (NSInteger)count {
  NSInteger out = 1;
  for (const int64_t d : shape_) out *= d;
  return out;
}
- (CVPixelBufferRef)pixelBuffer {
  return buffer_;
}
- (NSInteger)span {
  NSInteger last = 1;
  for (size_t i = 0; i < shape_.size(); ++i) last += (shape_[i] - 1) * strides_[i];
  return last * (type_ & 0xffff) / 8;
}
- (void)getBytesWithHandler:(void(NS_NOESCAPE ^)(const void*, NSInteger))handler {
  handler(apple_double::view(self).data, [self span]);
}
- (void)getMutableBytesWithHandler:(void(NS_NOESCAPE ^)(void*, NSInteger, NSArray<NSNumber*>*))handler {
  handler(apple_double::view(self).data, [self span], self.strides);
}
@end

@implementation MLFeatureValue
+ (instancetype)featureValueWithMultiArray:(MLMultiArray*)value {
  MLFeatureValue* out = [self new];
  out->type_ = MLFeatureTypeMultiArray;
  out->array_ = value;
  return out;
}
- (MLFeatureType)type {
  return type_;
}
- (MLMultiArray*)multiArrayValue {
  return array_;
}
- (NSString*)stringValue {
  return text_ ? text_ : @"";
}
- (NSDictionary*)dictionaryValue {
  return map_ ? map_ : [NSDictionary dictionary];
}
@end

@implementation MLMultiArrayConstraint
- (NSArray*)shape {
  return shape_;
}
- (MLMultiArrayDataType)dataType {
  return type_;
}
@end

@implementation MLStateConstraint
- (NSArray*)bufferShape {
  return shape_;
}
- (MLMultiArrayDataType)dataType {
  return type_;
}
@end

@implementation MLFeatureDescription
- (NSString*)name {
  return name_;
}
- (MLFeatureType)type {
  return type_;
}
- (BOOL)isOptional {
  return optional_;
}
- (MLMultiArrayConstraint*)multiArrayConstraint {
  return type_ == MLFeatureTypeMultiArray ? array_ : nil;
}
- (MLStateConstraint*)stateConstraint {
  return type_ == MLFeatureTypeState ? state_ : nil;
}
@end

@implementation MLModelDescription
- (NSDictionary*)inputDescriptionsByName {
  return inputs_;
}
- (NSDictionary*)outputDescriptionsByName {
  return outputs_;
}
- (NSDictionary*)stateDescriptionsByName {
  return states_;
}
@end

@implementation DoubleFeatures
- (NSSet*)featureNames {
  return [NSSet setWithArray:values_.allKeys];
}
- (MLFeatureValue*)featureValueForName:(NSString*)featureName {
  return values_[featureName];
}
@end

@implementation MLOptimizationHints {
  MLReshapeFrequencyHint reshape_;
  MLSpecializationStrategy strategy_;
}
- (MLReshapeFrequencyHint)reshapeFrequency {
  return reshape_;
}
- (void)setReshapeFrequency:(MLReshapeFrequencyHint)reshapeFrequency {
  reshape_ = reshapeFrequency;
}
- (MLSpecializationStrategy)specializationStrategy {
  return strategy_;
}
- (void)setSpecializationStrategy:(MLSpecializationStrategy)specializationStrategy {
  strategy_ = specializationStrategy;
}
- (id)copyWithZone:(void*)zone {
  MLOptimizationHints* out = [MLOptimizationHints new];
  out->reshape_ = reshape_;
  out->strategy_ = strategy_;
  return out;
}
@end

@implementation MLModelConfiguration {
  NSString *display_, *function_;
  MLComputeUnits units_;
  MLOptimizationHints* hints_;
}
- (instancetype)init {
  units_ = MLComputeUnitsAll;
  hints_ = [MLOptimizationHints new];
  return self;
}
- (NSString*)modelDisplayName {
  return display_;
}
- (void)setModelDisplayName:(NSString*)modelDisplayName {
  display_ = [modelDisplayName copy];
}
- (MLComputeUnits)computeUnits {
  return units_;
}
- (void)setComputeUnits:(MLComputeUnits)computeUnits {
  units_ = computeUnits;
}
- (MLOptimizationHints*)optimizationHints {
  return [hints_ copy];
}
- (void)setOptimizationHints:(MLOptimizationHints*)optimizationHints {
  hints_ = [optimizationHints copy];
}
- (NSString*)functionName {
  return function_;
}
- (void)setFunctionName:(NSString*)functionName {
  function_ = [functionName copy];
}
- (id)copyWithZone:(void*)zone {
  MLModelConfiguration* out = [MLModelConfiguration new];
  out->display_ = display_;
  out->function_ = function_;
  out->units_ = units_;
  out->hints_ = [hints_ copy];
  return out;
}
@end

@implementation MLPredictionOptions {
  NSDictionary* backings_;
}
- (NSDictionary*)outputBackings {
  return backings_ ? backings_ : [NSDictionary dictionary];
}
- (void)setOutputBackings:(NSDictionary*)outputBackings {
  backings_ = [outputBackings copy];
}
@end
