// What the files of the double's Core ML share.
#pragma once

#import <CoreML/CoreML.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "anemone/predictor.h"
#include "mil/program.h"

@interface MLMultiArray () {
 @public
  MLMultiArrayDataType type_;
  std::vector<int64_t> shape_, strides_;
  void* data_;
  CVPixelBufferRef buffer_;
  void (^deallocator_)(void*);
  bool was_input_;
}
@end

@interface MLFeatureValue () {
 @public
  MLFeatureType type_;
  MLMultiArray* array_;
  NSString* text_;
  NSDictionary* map_;
}
@end

@interface MLMultiArrayConstraint () {
 @public
  NSArray* shape_;
  MLMultiArrayDataType type_;
}
@end

@interface MLStateConstraint () {
 @public
  NSArray* shape_;
  MLMultiArrayDataType type_;
}
@end

@interface MLFeatureDescription () {
 @public
  NSString* name_;
  MLFeatureType type_;
  BOOL optional_;
  MLMultiArrayConstraint* array_;
  MLStateConstraint* state_;
}
@end

@interface MLModelDescription () {
 @public
  NSMutableDictionary *inputs_, *outputs_, *states_;
}
@end

// What a prediction gives.
@interface DoubleFeatures : NSObject <MLFeatureProvider> {
 @public
  NSMutableDictionary* values_;
}
@end

@interface MLState () {
 @public
  const void* maker_;  // the model
  std::unique_ptr<anemone::State> state_;
  std::map<const void*, std::unique_ptr<anemone::State>> hidden_;  // of models that do not share
  std::map<std::string, anemone::TensorInfo> infos_;
  int busy_;
}
@end

namespace apple_double {

NSString* text(const std::string& s);
NSArray* numbers(const std::vector<int64_t>& values);
NSError* error(NSInteger code, const std::string& what, NSError* under = nil);
MLMultiArrayDataType type_of(anemone::DType dtype);
anemone::DType dtype_of(MLMultiArrayDataType type);
// The elements, wherever they lie.
anemone::TensorView view(MLMultiArray* array);
// Uninitialized; with rows that are padded where the switches say so.
MLMultiArray* make_array(const std::vector<int64_t>& shape, MLMultiArrayDataType type);
// Every element, converted.
void copy_elements(const anemone::TensorView& from, const anemone::TensorView& to);
MLModelDescription* describe(const anemone::Signature& signature);

struct Compiled {
  std::shared_ptr<const anemone::Package> package;
  std::string function;  // empty: the default one
};
// Error text instead, when the folder is no compiled model, or has no such function.
std::string open_compiled(const std::string& path, NSString* function, Compiled& out);

}  // namespace apple_double
