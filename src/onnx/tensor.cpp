#include "onnx/tensor.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/shape.h"

namespace anemone {

OnnxTensor::OnnxTensor(std::string_view name, OnnxType type, std::vector<int64_t> dims, Place place)
    : name_(name), type_(type), dims_(std::move(dims)), place_(std::move(place)) {
  elements_ = element_count(dims_);
  const uint64_t wanted = packed_bytes(elements_, onnx_type_info(type_).bits);
  if (place_.bytes.size() != wanted)
    throw errorf("the data does not fit type {} and shape {}", type_name(), shape_text(dims_))
        .found(fmt::format("{} bytes", place_.bytes.size()))
        .expected(fmt::format("{} bytes", wanted));
}

OnnxTensor::OnnxTensor(std::string_view name, std::vector<int64_t> dims,
                       std::vector<std::string_view> strings)
    : name_(name), type_(OnnxType::string), dims_(std::move(dims)), strings_(std::move(strings)) {
  elements_ = element_count(dims_);
  if (static_cast<int64_t>(strings_.size()) != elements_)
    throw errorf("the data does not fit shape {}", shape_text(dims_))
        .found(fmt::format("{} strings", strings_.size()))
        .expected(fmt::format("{}", elements_));
}

OnnxTensor OnnxTensor::with_name(std::string_view name) const {
  OnnxTensor out = *this;
  out.name_ = name;
  return out;
}

void OnnxTensor::check_range(int64_t begin, int64_t end, size_t room) const {
  if (!onnx_type_decodes(type_)) throw errorf("a tensor of type {} has no numbers", type_name());
  if (begin < 0 || end < begin || end > elements_)
    throw errorf("elements {} to {} are not in a tensor of {}", begin, end, elements_);
  ANEMONE_CHECK(room >= static_cast<size_t>(end - begin));
}

void OnnxTensor::read(int64_t begin, int64_t end, std::span<float> out) const {
  check_range(begin, end, out.size());
  if (begin < end) decode_onnx(type_, place_.bytes, begin, end, out.data());
}

void OnnxTensor::read(int64_t begin, int64_t end, std::span<double> out) const {
  check_range(begin, end, out.size());
  if (begin < end) decode_onnx(type_, place_.bytes, begin, end, out.data());
}

void OnnxTensor::read(int64_t begin, int64_t end, std::span<int64_t> out) const {
  check_range(begin, end, out.size());
  if (!onnx_type_info(type_).integer)
    throw errorf("whole numbers are needed here").found(std::string(type_name()));
  if (begin < end) decode_onnx(type_, place_.bytes, begin, end, out.data());
}

std::vector<float> OnnxTensor::floats() const {
  std::vector<float> out(static_cast<size_t>(elements_));
  read(0, elements_, std::span<float>(out));
  return out;
}

std::vector<int64_t> OnnxTensor::ints() const {
  std::vector<int64_t> out(static_cast<size_t>(elements_));
  read(0, elements_, std::span<int64_t>(out));
  return out;
}

void OnnxTensor::release(int64_t begin, int64_t end) const noexcept {
  if (!place_.file || begin < 0 || end <= begin || end > elements_) return;
  const auto bits = static_cast<uint64_t>(onnx_type_info(type_).bits);
  const auto base = static_cast<uint64_t>(place_.bytes.data() - place_.file->bytes().data());
  const uint64_t from = base + static_cast<uint64_t>(begin) * bits / 8;
  place_.file->release(from, base + static_cast<uint64_t>(end) * bits / 8 - from);
}

}  // namespace anemone
