#include "coreml/apple.h"

#include "base/error.h"
#include "check/doctor.h"

namespace anemone {

NSString* ns_string(const std::string& text) {
  NSString* out = [NSString stringWithUTF8String:text.c_str()];
  if (!out) throw errorf("a name is no UTF-8: '{}'", text);
  return out;
}

std::string cpp_string(NSString* text) {
  const char* bytes = text.UTF8String;
  return bytes ? bytes : "";
}

NSURL* ns_url(const std::filesystem::path& path) {
  return [NSURL fileURLWithPath:ns_string(std::filesystem::absolute(path).string())
                    isDirectory:std::filesystem::is_directory(path)];
}

std::filesystem::path cpp_path(NSURL* url) { return cpp_string(url.path); }

NSArray<NSNumber*>* ns_numbers(const std::vector<int64_t>& values) {
  NSMutableArray<NSNumber*>* out = [NSMutableArray arrayWithCapacity:values.size()];
  for (const int64_t value : values) [out addObject:[NSNumber numberWithLongLong:value]];
  return out;
}

std::vector<int64_t> cpp_numbers(NSArray<NSNumber*>* values) {
  std::vector<int64_t> out;
  out.reserve(values.count);
  for (NSUInteger i = 0; i < values.count; ++i) out.push_back([values objectAtIndex:i].longLongValue);
  return out;
}

DType dtype_of(MLMultiArrayDataType type) {
  if (type == MLMultiArrayDataTypeFloat16) return DType::fp16;
  if (type == MLMultiArrayDataTypeFloat32) return DType::fp32;
  if (type == MLMultiArrayDataTypeFloat64) return DType::fp64;
  if (type == MLMultiArrayDataTypeInt32) return DType::int32;
  return DType::none;
}

MLMultiArrayDataType array_type(DType dtype) {
  switch (dtype) {
    case DType::fp16: return MLMultiArrayDataTypeFloat16;
    case DType::fp32: return MLMultiArrayDataTypeFloat32;
    case DType::fp64: return MLMultiArrayDataTypeFloat64;
    case DType::int32: return MLMultiArrayDataTypeInt32;
    default: throw errorf("Core ML has no arrays of type {}", dtype_name(dtype));
  }
}

std::string error_text(NSError* error) {
  std::string out;
  for (int depth = 0; error && depth < 8; ++depth) {
    const std::string one = cpp_string(error.localizedDescription);
    if (out.find(one) == std::string::npos) out += (out.empty() ? "" : out.ends_with('.') ? " " : ": ") + one;
    error = [error.userInfo objectForKey:NSUnderlyingErrorKey];
  }
  for (char& c : out)
    if (c == '\n' || c == '\r') c = ' ';
  return out.empty() ? "no reason given" : out;
}

Error core_ml_error(const std::string& what, NSError* error) {
  const std::string text = error_text(error);
  Error out(what);
  out.found(text);
  if (error && [error.domain isEqualToString:MLModelErrorDomain] && error.code != 0)
    out.found(fmt::format("{} (code {})", text, error.code));
  const std::vector<const ErrorMeaning*> meanings = decode_error(text);
  if (!meanings.empty())
    out.hint(fmt::format("{} {}", meanings.front()->meaning, meanings.front()->first));
  else
    out.hint("try --compute-units cpu: what fails there too is not the Neural Engine's fault");
  return out;
}

}  // namespace anemone
