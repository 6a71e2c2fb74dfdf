// Pixel buffers, quality of service, sysctl, and the switches.
#import <CoreVideo/CoreVideo.h>
#import <Foundation/Foundation.h>

#include <pthread/qos.h>
#include <sys/sysctl.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "core_video.h"
#include "double.h"
#include "objc_runtime.h"

namespace apple_double {
namespace {

template <class Value>
Value one_of(const std::string& text, std::initializer_list<std::pair<const char*, Value>> values) {
  for (const auto& [name, value] : values)
    if (text == name) return value;
  std::fprintf(stderr, "apple double: '%s' is no value of ANEMONE_DOUBLE\n", text.c_str());
  std::abort();
}

void apply(Switches& s, const std::string& name, const std::string& value) {
  const std::map<std::string, std::function<void()>> all = {
      {"padded_rows", [&] { s.padded_rows = value == "1"; }},
      {"backings",
       [&] {
         s.backings = one_of<Backings>(value, {{"ignored", Backings::ignored},
                                               {"accepted", Backings::accepted},
                                               {"refused", Backings::refused}});
       }},
      {"used_backings",
       [&] {
         s.used_backings = one_of<UsedBackings>(value, {{"ignored", UsedBackings::ignored},
                                                        {"accepted", UsedBackings::accepted},
                                                        {"refused", UsedBackings::refused}});
       }},
      {"late_ms", [&] { s.late_ms = std::stoi(value); }},
      {"surfaces", [&] { s.surfaces = value == "1"; }},
      {"fail_compile", [&] { s.fail_compile = value == "1"; }},
      {"fail_load", [&] { s.fail_load = value == "1"; }},
      {"fail_at", [&] { s.fail_at = std::stoll(value); }},
      {"missing_function", [&] { s.missing_function = value; }},
      {"refused_function", [&] { s.refused_function = value; }},
      {"slow_function", [&] { s.slow_function = value; }},
      {"wrong_function", [&] { s.wrong_function = value; }},
      {"nan_function", [&] { s.nan_function = value; }},
      {"macos_major", [&] { s.macos_major = std::stoi(value); }},
      {"build", [&] { s.build = value; }},
      {"neural_engine", [&] { s.neural_engine = value == "1"; }},
      {"on_cpu", [&] { s.on_cpu = value; }},
      {"on_gpu", [&] { s.on_gpu = value; }},
  };
  const auto it = all.find(name);
  if (it == all.end()) one_of<int>(name, {});
  it->second();
}

Switches from_environment() {
  Switches s;
  const char* text = std::getenv("ANEMONE_DOUBLE");
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string one = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const size_t equals = one.find('=');
    apply(s, one.substr(0, equals), equals == std::string::npos ? "" : one.substr(equals + 1));
  }
  return s;
}

// They outlive the process's end: a late handler may come while it ends.
std::mutex& handlers_mutex = *new std::mutex;
std::condition_variable& handlers_done = *new std::condition_variable;
int handlers = 0;
thread_local bool quality = false;

}  // namespace

Switches& switches() {
  static Switches s = from_environment();
  return s;
}

Seen& seen() {
  static Seen s;
  return s;
}

void reset() {
  switches() = from_environment();
  Seen& s = seen();
  for (std::atomic<int64_t>* n :
       {&s.predictions, &s.loads, &s.compiles, &s.plans, &s.overlapping_states, &s.overlapping_models,
        &s.locked_buffers, &s.touched_pointers, &s.most_in_flight, &s.low_quality})
    *n = 0;
}

bool thread_has_quality() { return quality; }

void later(void (*run)(void*), void* context) {
  {
    std::lock_guard lock(handlers_mutex);
    ++handlers;
  }
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(switches().late_ms));
    @autoreleasepool {
      run(context);
    }
    std::lock_guard lock(handlers_mutex);
    --handlers;
    handlers_done.notify_all();
  }).detach();
}

void wait_for_handlers() {
  std::unique_lock lock(handlers_mutex);
  handlers_done.wait(lock, [] { return handlers == 0; });
}

}  // namespace apple_double

extern "C" {

const CFAllocatorRef kCFAllocatorDefault = nullptr;
const CFStringRef kCVPixelBufferIOSurfacePropertiesKey = (__bridge CFStringRef) @"IOSurfaceProperties";

CVReturn CVPixelBufferCreate(CFAllocatorRef, size_t width, size_t height, OSType format,
                             CFDictionaryRef attributes, CVPixelBufferRef* out) {
  const apple_double::Switches& s = apple_double::switches();
  NSDictionary* all = (__bridge NSDictionary*)attributes;
  const bool surface = all && all[(__bridge NSString*)kCVPixelBufferIOSurfacePropertiesKey];
  if (format != kCVPixelFormatType_OneComponent16Half || !surface || !s.surfaces)
    return kCVReturnInvalidArgument;
  const auto largest = static_cast<size_t>(s.largest_surface);
  if (width == 0 || height == 0 || width > largest || height > largest) return kCVReturnInvalidSize;
  auto* buffer = new __CVBuffer;
  buffer->width = width;
  buffer->height = height;
  buffer->row_bytes = (width * 2 + 63) / 64 * 64;
  buffer->memory.assign(buffer->row_bytes * height, std::byte{0x7c});  // not zeros: nobody promises them
  objc_double::count_made();
  *out = buffer;
  return kCVReturnSuccess;
}
CVPixelBufferRef CVPixelBufferRetain(CVPixelBufferRef buffer) {
  if (buffer) ++buffer->holders;
  return buffer;
}
void CVPixelBufferRelease(CVPixelBufferRef buffer) {
  if (buffer && --buffer->holders == 0) delete buffer;
}
CVReturn CVPixelBufferLockBaseAddress(CVPixelBufferRef buffer, CVPixelBufferLockFlags) {
  ++buffer->locks;
  return kCVReturnSuccess;
}
CVReturn CVPixelBufferUnlockBaseAddress(CVPixelBufferRef buffer, CVPixelBufferLockFlags) {
  return --buffer->locks < 0 ? kCVReturnInvalidArgument : kCVReturnSuccess;
}
void* CVPixelBufferGetBaseAddress(CVPixelBufferRef buffer) {
  return buffer->locks > 0 ? buffer->memory.data() : nullptr;
}
size_t CVPixelBufferGetBytesPerRow(CVPixelBufferRef buffer) { return buffer->row_bytes; }
size_t CVPixelBufferGetWidth(CVPixelBufferRef buffer) { return buffer->width; }
size_t CVPixelBufferGetHeight(CVPixelBufferRef buffer) { return buffer->height; }

int pthread_set_qos_class_self_np(qos_class_t qos, int) {
  apple_double::quality = qos >= QOS_CLASS_USER_INITIATED;
  return 0;
}

int sysctlbyname(const char* name, void* old, size_t* length, void*, size_t) {
  const apple_double::Switches& s = apple_double::switches();
  const std::string key = name;
  const std::string value = key == "kern.osversion"             ? s.build
                            : key == "machdep.cpu.brand_string" ? s.chip
                                                                : "";
  if (value.empty()) return -1;
  if (old) std::memcpy(old, value.c_str(), std::min(*length, value.size() + 1));
  *length = value.size() + 1;
  return 0;
}
}
