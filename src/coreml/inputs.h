// AnemoneInputs: the inputs of a call as Core ML asks for them. One object for all predictions of a call: its values
// are exchanged, nothing is made anew.
#pragma once

#include <vector>

#include "coreml/apple.h"

@interface AnemoneInputs : NSObject <MLFeatureProvider> {
 @public
  NSSet<NSString*>* names;              // of those that have a value
  std::vector<NSString*> keys;          // of all
  std::vector<MLFeatureValue*> values;  // by key; nil: left to its default
}
@end
