// Foundation, as far as src/coreml uses it. One method a line: a test compares them with tables of Apple's own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define nil ((id) nullptr)
typedef bool BOOL;
#define YES true
#define NO false
typedef long NSInteger;
typedef unsigned long NSUInteger;
#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#define NS_ENUM(type, name) \
  enum name : type name;    \
  enum name : type
#define NS_NOESCAPE __attribute__((noescape))
#define NS_UNAVAILABLE __attribute__((unavailable))

NS_ASSUME_NONNULL_BEGIN

typedef struct objc_selector* SEL;
@class NSString, NSArray<Object>, NSDictionary<Key, Object>, NSError, NSNumber;

@protocol NSObject
- (BOOL)isEqual:(nullable id)object;
- (NSUInteger)hash;
- (BOOL)isKindOfClass:(Class)aClass;
- (Class)class;
- (BOOL)respondsToSelector:(SEL)aSelector;
@end

@protocol NSCopying
- (id)copyWithZone:(nullable void*)zone;
@end

__attribute__((objc_root_class))
@interface NSObject<NSObject> {
  Class isa;
}
+ (instancetype)alloc;
+ (instancetype)new;
+ (Class)class;
- (instancetype)init;
- (void)dealloc;
- (id)copy;
@end

@interface NSString : NSObject <NSCopying>
+ (nullable instancetype)stringWithUTF8String:(const char*)nullTerminatedCString;
- (nullable const char*)UTF8String;
- (BOOL)isEqualToString:(NSString*)aString;
- (NSUInteger)length;
@end

@interface NSConstantString : NSString {
  const char* bytes_;
  unsigned length_;
}
@end

@interface NSNumber : NSObject <NSCopying>
+ (NSNumber*)numberWithInt:(int)value;
+ (NSNumber*)numberWithInteger:(NSInteger)value;
+ (NSNumber*)numberWithLongLong:(long long)value;
+ (NSNumber*)numberWithDouble:(double)value;
- (NSInteger)integerValue;
- (long long)longLongValue;
- (double)doubleValue;
@end

typedef struct {
  unsigned long state;
  id __unsafe_unretained _Nullable* _Nullable itemsPtr;
  unsigned long* _Nullable mutationsPtr;
  unsigned long extra[5];
} NSFastEnumerationState;

@interface NSArray<Object> : NSObject <NSCopying>
+ (instancetype)array;
+ (instancetype)arrayWithObjects:(const Object _Nonnull[_Nullable])objects count:(NSUInteger)cnt;
- (NSUInteger)count;
- (Object)objectAtIndex:(NSUInteger)index;
- (Object)objectAtIndexedSubscript:(NSUInteger)idx;
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained _Nullable[_Nonnull])buffer
                                    count:(NSUInteger)len;
@end

@interface NSMutableArray<Object> : NSArray <Object>
+ (instancetype)arrayWithCapacity:(NSUInteger)numItems;
- (void)addObject:(Object)anObject;
@end

@interface NSSet<Object> : NSObject
+ (instancetype)setWithArray:(NSArray<Object>*)array;
- (NSUInteger)count;
- (BOOL)containsObject:(Object)anObject;
- (NSArray<Object>*)allObjects;
@end

@interface NSDictionary<Key, Object> : NSObject <NSCopying>
+ (instancetype)dictionary;
+ (instancetype)dictionaryWithObjects:(const Object _Nonnull[_Nullable])objects
                              forKeys:(const Key _Nonnull[_Nullable])keys
                                count:(NSUInteger)cnt;
- (NSUInteger)count;
- (nullable Object)objectForKey:(Key)aKey;
- (nullable Object)objectForKeyedSubscript:(Key)key;
- (NSArray<Key>*)allKeys;
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained _Nullable[_Nonnull])buffer
                                    count:(NSUInteger)len;
@end

@interface NSMutableDictionary<Key, Object> : NSDictionary <Key, Object>
- (void)setObject:(Object)anObject forKey:(Key)aKey;
- (void)setObject:(nullable Object)obj forKeyedSubscript:(Key)key;
@end

extern NSString* const NSUnderlyingErrorKey;
extern NSString* const NSLocalizedDescriptionKey;

@interface NSError : NSObject
+ (instancetype)errorWithDomain:(NSString*)domain
                           code:(NSInteger)code
                       userInfo:(nullable NSDictionary<NSString*, id>*)dict;
- (NSString*)domain;
- (NSInteger)code;
- (NSString*)localizedDescription;
- (NSDictionary<NSString*, id>*)userInfo;
@end

@interface NSURL : NSObject <NSCopying>
+ (NSURL*)fileURLWithPath:(NSString*)path isDirectory:(BOOL)isDir;
- (nullable NSString*)path;
@end

typedef struct {
  NSInteger majorVersion;
  NSInteger minorVersion;
  NSInteger patchVersion;
} NSOperatingSystemVersion;

@interface NSProcessInfo : NSObject
+ (NSProcessInfo*)processInfo;
- (NSOperatingSystemVersion)operatingSystemVersion;
- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)version;
@end

NS_ASSUME_NONNULL_END
