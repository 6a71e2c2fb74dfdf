#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/lowering.h"

namespace anemone {
namespace {

constexpr int64_t kInPlace = 4096;  // elements; larger tensors are read when the package is written

int32_t narrowed(int64_t value) {
  constexpr int64_t kLow = std::numeric_limits<int32_t>::min(), kHigh = std::numeric_limits<int32_t>::max();
  constexpr int64_t kOpen = int64_t{1} << 62;  // beyond it a number stands for "to the end"
  if (value >= kLow && value <= kHigh) return static_cast<int32_t>(value);
  if (value >= kOpen) return static_cast<int32_t>(kHigh);
  if (value <= -kOpen) return static_cast<int32_t>(kLow);
  throw errorf("the whole number {} is outside int32's range", value).hint("Core ML has no int64");
}

// Elements [begin, end) as the constant stores them.
void convert(const OnnxTensor& tensor, DType dtype, int64_t begin, int64_t end, std::byte* out) {
  if (dtype == DType::fp32)
    return tensor.read(begin, end,
                       std::span(reinterpret_cast<float*>(out), static_cast<size_t>(end - begin)));
  constexpr int64_t kPiece = 4096;
  int64_t piece[kPiece];
  for (int64_t at = begin; at < end; at += kPiece) {
    const int64_t stop = std::min(end, at + kPiece);
    tensor.read(at, stop, std::span(piece));
    for (int64_t i = 0; i < stop - at; ++i) {
      const auto place = static_cast<size_t>(at - begin + i);
      if (dtype == DType::boolean) {
        out[place] = static_cast<std::byte>(piece[i] != 0);
      } else {
        const int32_t value = narrowed(piece[i]);
        std::memcpy(out + place * 4, &value, 4);
      }
    }
  }
}

class OnnxWeight : public WeightSource {
 public:
  OnnxWeight(const OnnxTensor& tensor, Type type) : tensor_(tensor), type_(std::move(type)) {
    row_ = tensor_.dims()[0] ? tensor_.elements() / tensor_.dims()[0] : 0;
  }
  const Type& type() const override { return type_; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    convert(tensor_, type_.dtype, begin * row_, end * row_, out.data());
  }

 private:
  OnnxTensor tensor_;
  Type type_;
  int64_t row_;
};

}  // namespace

Constant onnx_constant(const OnnxTensor& tensor) {
  const Type type = Type::tensor(mil_dtype(tensor.type()), tensor.dims());
  try {
    if (tensor.elements() > kInPlace && type.dtype != DType::boolean && tensor.rank() > 0)
      return Constant::from_source(std::make_shared<OnnxWeight>(tensor, type));
    const size_t width = type.dtype == DType::boolean ? 1 : 4;
    Constant::Bytes bytes(static_cast<size_t>(tensor.elements()) * width);
    convert(tensor, type.dtype, 0, tensor.elements(), bytes.data());
    return Constant::from_bytes(type, std::move(bytes));
  } catch (Error& e) {
    e.within(fmt::format("tensor '{}'", onnx_printable(tensor.name())));
    throw;
  }
}

}  // namespace anemone
