// DeviceArray: an array that belongs to us and that Core ML reads or writes in place. Halves lie in an IOSurface where
// there can be one, which the Neural Engine takes without a copy; all else in pages of plain memory.
//     DeviceArray array(DType::fp16, {1, 576, 1, 1}, true);
//     clear_view(array.lock());                             // the view holds until unlock()
//     array.unlock();                                       // before Core ML gets it
#pragma once

#include <cstdint>
#include <vector>

#include "anemone/array.h"
#include "coreml/apple.h"

namespace anemone {

class DeviceArray {
 public:
  // `surface`: try an IOSurface. What is in it at first is anything.
  DeviceArray(DType dtype, const std::vector<int64_t>& shape, bool surface);
  ~DeviceArray();
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  // By reference: an object that a function gives away may wait in an autorelease pool, and there may be none.
  MLMultiArray* const& array() const { return array_; }
  MLFeatureValue* const& value() const { return value_; }  // the array as an input
  bool surface() const { return buffer_ != nullptr; }
  uint64_t bytes() const { return bytes_; }
  // Whether Core ML gave this array, or one over the same surface.
  bool is(MLMultiArray* other) const;

  // The elements, with the strides that they really have. Locks a surface until unlock(); may be asked for again.
  const TensorView& lock();
  void unlock();

  // It was given to Core ML as an input: some systems do not take it for an output then.
  bool was_input = false;

 private:
  void make_surface(const std::vector<int64_t>& shape);
  void make_heap(DType dtype, const std::vector<int64_t>& shape);

  MLMultiArray* array_ = nil;
  MLFeatureValue* value_ = nil;
  CVPixelBufferRef buffer_ = nullptr;
  bool locked_ = false;
  uint64_t bytes_ = 0;
  TensorView view_;
};

}  // namespace anemone
