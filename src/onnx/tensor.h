// OnnxTensor: a constant tensor of an ONNX file, read in ranges; its bytes stay in the file.
//     const OnnxTensor* w = model.graph().initializer("fc.weight");
//     w->read(0, w->elements(), std::span<float>(values));
// Immutable: any number of threads may read. It holds on to the file that its bytes lie in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/element_type.h"

namespace anemone {

class MappedFile;

class OnnxTensor {
 public:
  // Where the bytes lie. `file` is empty for bytes that were unpacked into memory (fields of numbers).
  struct Place {
    std::shared_ptr<const MappedFile> file;
    std::shared_ptr<const void> memory;
    std::span<const std::byte> bytes;
  };

  OnnxTensor() = default;
  // Error when the bytes are not as many as type and dims need, or a dimension is negative.
  OnnxTensor(std::string_view name, OnnxType type, std::vector<int64_t> dims, Place place);
  OnnxTensor(std::string_view name, std::vector<int64_t> dims, std::vector<std::string_view> strings);

  std::string_view name() const { return name_; }  // lives as long as the model
  OnnxTensor with_name(std::string_view name) const;
  OnnxType type() const { return type_; }
  std::string_view type_name() const { return onnx_type_info(type_).name; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t elements() const { return elements_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  const std::shared_ptr<const MappedFile>& file() const { return place_.file; }

  // The bytes as stored: little-endian, row-major, elements of less than a byte packed from the lowest bits.
  std::span<const std::byte> bytes() const { return place_.bytes; }
  const std::vector<std::string_view>& strings() const { return strings_; }

  // Elements [begin, end); `out` has that size. Error when they do not exist or are no numbers. Reading a
  // floating-point type as int64 is an Error, so that nothing is cut by mistake.
  void read(int64_t begin, int64_t end, std::span<float> out) const;
  void read(int64_t begin, int64_t end, std::span<double> out) const;
  void read(int64_t begin, int64_t end, std::span<int64_t> out) const;
  std::vector<float> floats() const;
  std::vector<int64_t> ints() const;
  // A hint that these elements are not needed soon: their pages go back to the system.
  void release(int64_t begin, int64_t end) const noexcept;

 private:
  void check_range(int64_t begin, int64_t end, size_t room) const;

  std::string_view name_;
  OnnxType type_ = OnnxType::undefined;
  std::vector<int64_t> dims_;
  int64_t elements_ = 0;
  Place place_;
  std::vector<std::string_view> strings_;
};

}  // namespace anemone
