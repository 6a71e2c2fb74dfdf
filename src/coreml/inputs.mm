#include "coreml/inputs.h"

@implementation AnemoneInputs
- (NSSet<NSString*>*)featureNames {
  return names;
}
- (MLFeatureValue*)featureValueForName:(NSString*)featureName {
  for (size_t i = 0; i < keys.size(); ++i)
    if ([keys[i] isEqualToString:featureName]) return values[i];
  return nil;
}
@end
