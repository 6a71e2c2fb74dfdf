// Core ML, as far as src/coreml uses it. One method a line: a test compares them with a table of Apple's own.
#pragma once

#import <CoreVideo/CoreVideo.h>
#import <Foundation/Foundation.h>

NS_ASSUME_NONNULL_BEGIN

@class MLModelDescription, MLMultiArray, MLFeatureValue, MLState, MLPredictionOptions, MLModelConfiguration;
@class MLMultiArrayConstraint, MLStateConstraint, MLModelStructure, MLModelStructureProgramOperation;

extern NSString* const MLModelErrorDomain;

typedef NS_ENUM(NSInteger, MLModelError) {
  MLModelErrorGeneric = 0,
  MLModelErrorFeatureType = 1,
  MLModelErrorIO = 3,
  MLModelErrorParameters = 7,
  MLModelErrorPredictionCancelled = 11,
};

typedef NS_ENUM(NSInteger, MLComputeUnits) {
  MLComputeUnitsCPUOnly = 0,
  MLComputeUnitsCPUAndGPU = 1,
  MLComputeUnitsAll = 2,
  MLComputeUnitsCPUAndNeuralEngine = 3,
};

typedef NS_ENUM(NSInteger, MLReshapeFrequencyHint) {
  MLReshapeFrequencyHintFrequent = 0,
  MLReshapeFrequencyHintInfrequent = 1,
};

typedef NS_ENUM(NSInteger, MLSpecializationStrategy) {
  MLSpecializationStrategyDefault = 0,
  MLSpecializationStrategyFastPrediction = 1,
};

typedef NS_ENUM(NSInteger, MLFeatureType) {
  MLFeatureTypeInvalid = 0,
  MLFeatureTypeInt64 = 1,
  MLFeatureTypeDouble = 2,
  MLFeatureTypeString = 3,
  MLFeatureTypeImage = 4,
  MLFeatureTypeMultiArray = 5,
  MLFeatureTypeDictionary = 6,
  MLFeatureTypeState = 8,
};

typedef NS_ENUM(NSInteger, MLMultiArrayDataType) {
  MLMultiArrayDataTypeFloat64 = 0x10000 | 64,
  MLMultiArrayDataTypeFloat32 = 0x10000 | 32,
  MLMultiArrayDataTypeFloat16 = 0x10000 | 16,
  MLMultiArrayDataTypeInt32 = 0x20000 | 32,
  MLMultiArrayDataTypeInt8 = 0x20000 | 8,
};

@protocol MLFeatureProvider
- (NSSet<NSString*>*)featureNames;
- (nullable MLFeatureValue*)featureValueForName:(NSString*)featureName;
@end

@interface MLMultiArray : NSObject
- (nullable instancetype)initWithShape:(NSArray<NSNumber*>*)shape
                              dataType:(MLMultiArrayDataType)dataType
                                 error:(NSError* _Nullable* _Nullable)error;
- (nullable instancetype)initWithDataPointer:(void*)dataPointer
                                       shape:(NSArray<NSNumber*>*)shape
                                    dataType:(MLMultiArrayDataType)dataType
                                     strides:(NSArray<NSNumber*>*)strides
                                 deallocator:(void (^_Nullable)(void* bytes))deallocator
                                       error:(NSError* _Nullable* _Nullable)error;
- (instancetype)initWithPixelBuffer:(CVPixelBufferRef)pixelBuffer shape:(NSArray<NSNumber*>*)shape;
- (void*)dataPointer;
- (MLMultiArrayDataType)dataType;
- (NSArray<NSNumber*>*)shape;
- (NSArray<NSNumber*>*)strides;
- (NSInteger)count;
- (nullable CVPixelBufferRef)pixelBuffer;
- (void)getBytesWithHandler:(void(NS_NOESCAPE ^)(const void* bytes, NSInteger size))handler;
- (void)getMutableBytesWithHandler:(void(NS_NOESCAPE ^)(void* mutableBytes, NSInteger size,
                                                        NSArray<NSNumber*>* strides))handler;
@end

@interface MLFeatureValue : NSObject
+ (instancetype)featureValueWithMultiArray:(MLMultiArray*)value;
- (MLFeatureType)type;
- (nullable MLMultiArray*)multiArrayValue;
- (NSString*)stringValue;
- (NSDictionary<id, NSNumber*>*)dictionaryValue;
@end

@interface MLMultiArrayConstraint : NSObject
- (NSArray<NSNumber*>*)shape;
- (MLMultiArrayDataType)dataType;
@end

@interface MLStateConstraint : NSObject
- (NSArray<NSNumber*>*)bufferShape;
- (MLMultiArrayDataType)dataType;
@end

@interface MLFeatureDescription : NSObject
- (NSString*)name;
- (MLFeatureType)type;
- (BOOL)isOptional;
- (nullable MLMultiArrayConstraint*)multiArrayConstraint;
- (nullable MLStateConstraint*)stateConstraint;
@end

@interface MLModelDescription : NSObject
- (NSDictionary<NSString*, MLFeatureDescription*>*)inputDescriptionsByName;
- (NSDictionary<NSString*, MLFeatureDescription*>*)outputDescriptionsByName;
- (NSDictionary<NSString*, MLFeatureDescription*>*)stateDescriptionsByName;
@end

@interface MLOptimizationHints : NSObject <NSCopying>
- (MLReshapeFrequencyHint)reshapeFrequency;
- (void)setReshapeFrequency:(MLReshapeFrequencyHint)reshapeFrequency;
- (MLSpecializationStrategy)specializationStrategy;
- (void)setSpecializationStrategy:(MLSpecializationStrategy)specializationStrategy;
@end

@interface MLModelConfiguration : NSObject <NSCopying>
- (nullable NSString*)modelDisplayName;
- (void)setModelDisplayName:(nullable NSString*)modelDisplayName;
- (MLComputeUnits)computeUnits;
- (void)setComputeUnits:(MLComputeUnits)computeUnits;
- (MLOptimizationHints*)optimizationHints;
- (void)setOptimizationHints:(MLOptimizationHints*)optimizationHints;
- (nullable NSString*)functionName;
- (void)setFunctionName:(nullable NSString*)functionName;
@end

@interface MLPredictionOptions : NSObject
- (NSDictionary<NSString*, id>*)outputBackings;
- (void)setOutputBackings:(NSDictionary<NSString*, id>*)outputBackings;
@end

@interface MLState : NSObject
- (void)getMultiArrayForStateNamed:(NSString*)stateName
                           handler:(void(NS_NOESCAPE ^)(MLMultiArray* buffer))handler;
@end

@protocol MLComputeDeviceProtocol <NSObject>
@end

@interface MLCPUComputeDevice : NSObject <MLComputeDeviceProtocol>
@end

@interface MLGPUComputeDevice : NSObject <MLComputeDeviceProtocol>
@end

@interface MLNeuralEngineComputeDevice : NSObject <MLComputeDeviceProtocol>
- (NSInteger)totalCoreCount;
@end

@interface MLModel : NSObject
+ (void)compileModelAtURL:(NSURL*)modelURL
        completionHandler:(void (^)(NSURL* _Nullable compiledModelURL, NSError* _Nullable error))handler;
+ (void)loadContentsOfURL:(NSURL*)url
            configuration:(MLModelConfiguration*)configuration
        completionHandler:(void (^)(MLModel* _Nullable model, NSError* _Nullable error))handler;
+ (NSArray<id<MLComputeDeviceProtocol>>*)availableComputeDevices;
- (MLModelDescription*)modelDescription;
- (MLModelConfiguration*)configuration;
- (MLState*)newState;
- (nullable id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)input
                                                 options:(MLPredictionOptions*)options
                                                   error:(NSError* _Nullable* _Nullable)error;
- (nullable id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)inputFeatures
                                              usingState:(MLState*)state
                                                 options:(MLPredictionOptions*)options
                                                   error:(NSError* _Nullable* _Nullable)error;
- (void)predictionFromFeatures:(id<MLFeatureProvider>)input
                       options:(MLPredictionOptions*)options
             completionHandler:(void (^)(id<MLFeatureProvider> _Nullable output,
                                         NSError* _Nullable error))completionHandler;
@end

@interface MLModelStructureProgramNamedValueType : NSObject
- (NSString*)name;
@end

@interface MLModelStructureProgramBlock : NSObject
- (NSArray<MLModelStructureProgramOperation*>*)operations;
@end

@interface MLModelStructureProgramOperation : NSObject
- (NSString*)operatorName;
- (NSArray<MLModelStructureProgramNamedValueType*>*)outputs;
- (NSArray<MLModelStructureProgramBlock*>*)blocks;
@end

@interface MLModelStructureProgramFunction : NSObject
- (MLModelStructureProgramBlock*)block;
@end

@interface MLModelStructureProgram : NSObject
- (NSDictionary<NSString*, MLModelStructureProgramFunction*>*)functions;
@end

@interface MLModelStructure : NSObject
- (nullable MLModelStructureProgram*)program;
@end

@interface MLComputePlanCost : NSObject
- (double)weight;
@end

@interface MLComputePlanDeviceUsage : NSObject
- (NSArray<id<MLComputeDeviceProtocol>>*)supportedComputeDevices;
- (id<MLComputeDeviceProtocol>)preferredComputeDevice;
@end

@interface MLComputePlan : NSObject
+ (void)loadContentsOfURL:(NSURL*)url
            configuration:(MLModelConfiguration*)configuration
        completionHandler:(void (^)(MLComputePlan* _Nullable computePlan, NSError* _Nullable error))handler;
- (MLModelStructure*)modelStructure;
- (nullable MLComputePlanDeviceUsage*)computeDeviceUsageForMLProgramOperation:
    (MLModelStructureProgramOperation*)operation;
- (nullable MLComputePlanCost*)estimatedCostOfMLProgramOperation:(MLModelStructureProgramOperation*)operation;
@end

NS_ASSUME_NONNULL_END
