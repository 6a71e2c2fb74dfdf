#include "coreml/device_array.h"

#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/shape.h"

namespace anemone {

DeviceArray::DeviceArray(DType dtype, const std::vector<int64_t>& shape, bool surface) {
  @autoreleasepool {
    if (surface && dtype == DType::fp16 && !shape.empty() && element_count(shape) > 0) make_surface(shape);
    if (!array_) make_heap(dtype, shape);
    value_ = [MLFeatureValue featureValueWithMultiArray:array_];
  }
}

DeviceArray::~DeviceArray() {
  unlock();
  value_ = nil;
  array_ = nil;
  if (buffer_) CVPixelBufferRelease(buffer_);
}

// The last dimension is a row of the surface. Surfaces have a largest width and height; what does not fit stays in
// plain memory.
void DeviceArray::make_surface(const std::vector<int64_t>& shape) {
  const auto width = static_cast<size_t>(shape.back());
  const size_t height = static_cast<size_t>(element_count(shape)) / width;
  NSDictionary* attributes = @{(__bridge NSString*)kCVPixelBufferIOSurfacePropertiesKey : @{}};
  CVPixelBufferRef buffer = nullptr;
  const CVReturn status =
      CVPixelBufferCreate(kCFAllocatorDefault, width, height, kCVPixelFormatType_OneComponent16Half,
                          (__bridge CFDictionaryRef)attributes, &buffer);
  if (status != kCVReturnSuccess || !buffer) return;
  MLMultiArray* array = [[MLMultiArray alloc] initWithPixelBuffer:buffer shape:ns_numbers(shape)];
  if (!array) {
    CVPixelBufferRelease(buffer);
    return;
  }
  buffer_ = buffer;
  array_ = array;
  view_ = {DType::fp16, shape, cpp_numbers(array.strides), nullptr};
  bytes_ = CVPixelBufferGetBytesPerRow(buffer) * height;
}

void DeviceArray::make_heap(DType dtype, const std::vector<int64_t>& shape) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t used = packed_bytes(element_count(shape), dtype_bits(dtype));
  bytes_ = std::max<uint64_t>((used + page - 1) / page * page, page);
  void* memory = nullptr;
  if (::posix_memalign(&memory, page, bytes_) != 0) throw errorf("no memory for {} bytes", bytes_);
  view_ = TensorView::row_major(dtype, shape, memory);
  NSError* problem = nil;
  // Freed when Core ML has let go of it as well.
  array_ = [[MLMultiArray alloc] initWithDataPointer:memory
                                               shape:ns_numbers(shape)
                                            dataType:array_type(dtype)
                                             strides:ns_numbers(view_.strides)
                                         deallocator:^(void* bytes) {
                                           std::free(bytes);
                                         }
                                               error:&problem];
  if (!array_) throw core_ml_error(fmt::format("no array of {} can be made", shape_text(shape)), problem);
}

bool DeviceArray::is(MLMultiArray* other) const {
  return other == array_ || (buffer_ && other.pixelBuffer == buffer_);
}

const TensorView& DeviceArray::lock() {
  if (buffer_ && !locked_) {
    if (CVPixelBufferLockBaseAddress(buffer_, 0) != kCVReturnSuccess)
      throw Error("a surface cannot be locked for the CPU");
    locked_ = true;
    view_.data = CVPixelBufferGetBaseAddress(buffer_);
  }
  return view_;
}

void DeviceArray::unlock() {
  if (!locked_) return;
  CVPixelBufferUnlockBaseAddress(buffer_, 0);
  locked_ = false;
}

}  // namespace anemone
