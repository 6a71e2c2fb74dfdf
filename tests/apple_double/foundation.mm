// Foundation's classes, over the standard library.
#import <Foundation/Foundation.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "double.h"
#include "objc_runtime.h"

extern "C" {
bool objc_double_responds(id object, SEL selector);
bool objc_double_is_kind(id object, Class wanted);
Class objc_double_class(id object);
void* objc_double_make(Class cls);
void objc_double_end(void* object);
}

using objc_double::Inside;

@implementation NSObject
+ (instancetype)alloc {
  return (__bridge_transfer id)objc_double_make(self);
}
+ (instancetype)new {
  return [[self alloc] init];
}
- (instancetype)init {
  return self;
}
- (void)dealloc {
  objc_double_end((__bridge void*)self);
}
+ (Class)class {
  return self;
}
- (Class)class {
  return objc_double_class(self);
}
- (id)copy {
  return [(id<NSCopying>)self copyWithZone:nullptr];
}
- (BOOL)isEqual:(id)object {
  return self == object;
}
- (NSUInteger)hash {
  return reinterpret_cast<NSUInteger>((__bridge void*)self);
}
- (BOOL)isKindOfClass:(Class)aClass {
  return objc_double_is_kind(self, aClass);
}
- (BOOL)respondsToSelector:(SEL)aSelector {
  return objc_double_responds(self, aSelector);
}
@end

// The text of every other string.
@interface TextString : NSString {
 @public
  std::string text_;
}
@end

@implementation NSString
+ (instancetype)stringWithUTF8String:(const char*)nullTerminatedCString {
  TextString* out = [TextString new];
  out->text_ = nullTerminatedCString;
  return out;
}
- (const char*)UTF8String {
  return "";
}
- (BOOL)isEqualToString:(NSString*)aString {
  return std::string_view(self.UTF8String) == aString.UTF8String;
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSString class]] && [self isEqualToString:object];
}
- (NSUInteger)hash {
  return std::hash<std::string_view>()(self.UTF8String);
}
- (NSUInteger)length {
  return std::string_view(self.UTF8String).size();
}
- (id)copyWithZone:(void*)zone {
  return self;
}
@end

@implementation NSConstantString
- (const char*)UTF8String {
  return bytes_;
}
@end

@implementation TextString
- (const char*)UTF8String {
  return text_.c_str();
}
@end

@implementation NSNumber {
  long long whole_;
  double real_;
}
+ (NSNumber*)numberWithLongLong:(long long)value {
  NSNumber* out = [self new];
  out->whole_ = value;
  out->real_ = static_cast<double>(value);
  return out;
}
+ (NSNumber*)numberWithDouble:(double)value {
  NSNumber* out = [self new];
  out->whole_ = static_cast<long long>(value);
  out->real_ = value;
  return out;
}
+ (NSNumber*)numberWithInt:(int)value {
  return [self numberWithLongLong:value];
}
+ (NSNumber*)numberWithInteger:(NSInteger)value {
  return [self numberWithLongLong:value];
}
- (NSInteger)integerValue {
  return whole_;
}
- (long long)longLongValue {
  return whole_;
}
- (double)doubleValue {
  return real_;
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSNumber class]] && ((NSNumber*)object)->real_ == real_;
}
- (NSUInteger)hash {
  return std::hash<double>()(real_);
}
- (id)copyWithZone:(void*)zone {
  return self;
}
@end

namespace {

NSUInteger walk(const std::vector<id>& items, NSFastEnumerationState* state, id __unsafe_unretained* buffer,
                NSUInteger room) {
  static unsigned long never = 0;
  NSUInteger given = 0;
  for (; given < room && state->state < items.size(); ++given) buffer[given] = items[state->state++];
  state->itemsPtr = buffer;
  state->mutationsPtr = &never;
  return given;
}

}  // namespace

@implementation NSArray {
 @public
  std::vector<id> items_;
}
+ (instancetype)array {
  return [self new];
}
+ (instancetype)arrayWithObjects:(const id[])objects count:(NSUInteger)cnt {
  NSArray* out = [self new];
  out->items_.assign(objects, objects + cnt);
  return out;
}
- (NSUInteger)count {
  return items_.size();
}
- (id)objectAtIndex:(NSUInteger)index {
  return items_.at(index);
}
- (id)objectAtIndexedSubscript:(NSUInteger)idx {
  return items_.at(idx);
}
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)len {
  return walk(items_, state, buffer, len);
}
- (id)copyWithZone:(void*)zone {
  NSArray* out = [NSArray new];
  out->items_ = items_;
  return out;
}
@end

@implementation NSMutableArray
+ (instancetype)arrayWithCapacity:(NSUInteger)numItems {
  NSMutableArray* out = [self new];
  out->items_.reserve(numItems);
  return out;
}
- (void)addObject:(id)anObject {
  items_.push_back(anObject);
}
@end

@implementation NSSet {
  std::vector<id> items_;
}
+ (instancetype)setWithArray:(NSArray*)array {
  NSSet* out = [self new];
  for (id item in array)
    if (![out containsObject:item]) out->items_.push_back(item);
  return out;
}
- (NSUInteger)count {
  return items_.size();
}
- (BOOL)containsObject:(id)anObject {
  for (const id& item : items_)
    if ([item isEqual:anObject]) return YES;
  return NO;
}
- (NSArray*)allObjects {
  return [NSArray arrayWithObjects:items_.data() count:items_.size()];
}
@end

@implementation NSDictionary {
 @public
  std::vector<id> keys_, values_;
}
+ (instancetype)dictionary {
  return [self new];
}
+ (instancetype)dictionaryWithObjects:(const id[])objects forKeys:(const id[])keys count:(NSUInteger)cnt {
  NSDictionary* out = [self new];
  for (NSUInteger i = 0; i < cnt; ++i) {
    out->keys_.push_back([keys[i] copy]);
    out->values_.push_back(objects[i]);
  }
  return out;
}
- (NSUInteger)count {
  return keys_.size();
}
- (id)objectForKey:(id)aKey {
  for (size_t i = 0; i < keys_.size(); ++i)
    if ([keys_[i] isEqual:aKey]) return values_[i];
  return nil;
}
- (id)objectForKeyedSubscript:(id)key {
  return [self objectForKey:key];
}
- (NSArray*)allKeys {
  return [NSArray arrayWithObjects:keys_.data() count:keys_.size()];
}
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)len {
  return walk(keys_, state, buffer, len);
}
- (id)copyWithZone:(void*)zone {
  NSDictionary* out = [NSDictionary new];
  out->keys_ = keys_;
  out->values_ = values_;
  return out;
}
@end

@implementation NSMutableDictionary
- (void)setObject:(id)anObject forKey:(id)aKey {
  for (size_t i = 0; i < keys_.size(); ++i)
    if ([keys_[i] isEqual:aKey]) {
      values_[i] = anObject;
      return;
    }
  keys_.push_back([aKey copy]);
  values_.push_back(anObject);
}
- (void)setObject:(id)obj forKeyedSubscript:(id)key {
  [self setObject:obj forKey:key];
}
@end

NSString* const NSUnderlyingErrorKey = @"NSUnderlyingError";
NSString* const NSLocalizedDescriptionKey = @"NSLocalizedDescription";

@implementation NSError {
  NSString* domain_;
  NSInteger code_;
  NSDictionary* info_;
}
+ (instancetype)errorWithDomain:(NSString*)domain code:(NSInteger)code userInfo:(NSDictionary*)dict {
  NSError* out = [self new];
  out->domain_ = domain;
  out->code_ = code;
  out->info_ = dict ? dict : [NSDictionary dictionary];
  return out;
}
- (NSString*)domain {
  return domain_;
}
- (NSInteger)code {
  return code_;
}
- (NSDictionary*)userInfo {
  return info_;
}
- (NSString*)localizedDescription {
  NSString* text = info_[NSLocalizedDescriptionKey];
  return text ? text : @"The operation couldn’t be completed.";
}
@end

@implementation NSURL {
  std::string path_;
}
+ (NSURL*)fileURLWithPath:(NSString*)path isDirectory:(BOOL)isDir {
  NSURL* out = [self new];
  out->path_ = path.UTF8String;
  while (out->path_.size() > 1 && out->path_.ends_with('/')) out->path_.pop_back();
  return out;
}
- (NSString*)path {
  return [NSString stringWithUTF8String:path_.c_str()];
}
- (id)copyWithZone:(void*)zone {
  return self;
}
@end

@implementation NSProcessInfo
+ (NSProcessInfo*)processInfo {
  return [self new];
}
- (NSOperatingSystemVersion)operatingSystemVersion {
  const apple_double::Switches& s = apple_double::switches();
  return {s.macos_major, s.macos_minor, 0};
}
- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)version {
  const NSOperatingSystemVersion here = self.operatingSystemVersion;
  return here.majorVersion != version.majorVersion ? here.majorVersion > version.majorVersion
                                                   : here.minorVersion >= version.minorVersion;
}
@end
