// ElementSources over the constants of an ONNX graph: numbers as they are, and integer codes with scales.
//     auto plain = std::make_shared<OnnxPlainSource>(tensor);
//     auto blocks = std::make_shared<OnnxCodesSource>(OnnxCodes{.codes = q, .scales = s, .bits = 4, …});
//
// Codes: the tensor is seen as [outer, count, inner], and each run of `block` elements along the middle shares a scale
// and a zero point:
//     value[o, i, j] = (code[o, i, j] - zero[o, i / block, j]) * scale[o, i / block, j]
// The subtraction and the product are in fp32, each rounded once, as onnxruntime does it (checked against 1.31).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/element_source.h"
#include "onnx/tensor.h"

namespace anemone {

// An initializer of a floating-point type.
class OnnxPlainSource : public ElementSource {
 public:
  explicit OnnxPlainSource(OnnxTensor tensor);

  const std::string& file() const override { return file_; }
  std::string_view type_name() const override { return tensor_.type_name(); }
  bool decodes() const override { return onnx_type_decodes(tensor_.type()); }
  uint64_t stored_bytes() const override { return tensor_.bytes().size(); }
  void read(int64_t begin, int64_t count, float* out) const override;
  void read_halves(int64_t begin, int64_t count, uint16_t* out) const override;
  void release(int64_t begin, int64_t end) const noexcept override { tensor_.release(begin, end); }

 private:
  OnnxTensor tensor_;
  std::string file_;
  std::optional<BlockType> block_;  // where the kernels know the type
};

struct OnnxCodes {
  OnnxTensor codes;
  int bits = 4;            // of a code
  bool is_signed = false;  // two's complement
  bool floating = false;   // float8 and the like: `codes` decodes itself
  int64_t outer = 1, count = 1, inner = 1;
  int64_t stored_count =
      1;              // codes of a row in the file, padding included; more than `count` only where inner is 1
  int64_t block = 1;  // along the middle; `count` or more: one for all
  int64_t blocks = 1;  // of one row
  OnnxTensor scales;
  bool one_scale = false;        // for the whole tensor
  bool scale_by_column = false;  // scales are [count] alone, one for each index of the middle; block is 1
  // Zero points: none (default_zero for all), packed codes of `bits`, or numbers of another type.
  std::optional<OnnxTensor> zeros;
  // Packed ones: those of `zero_rows` rows lie one behind the other in `zero_row_bytes`; the next begin a byte.
  bool packed_zeros = false;
  int64_t zero_row_bytes = 0, zero_rows = 1;
  float default_zero = 0;
  bool products =
      false;  // code * scale - zero * scale, each rounded: zero points of MatMulNBits that are no codes
  std::vector<int32_t> groups;  // g_idx: the block of each index of the middle; empty: i / block
};

class OnnxCodesSource : public ElementSource {
 public:
  explicit OnnxCodesSource(OnnxCodes codes);

  const std::string& file() const override { return file_; }
  std::string_view type_name() const override { return type_name_; }
  bool decodes() const override { return true; }
  uint64_t stored_bytes() const override;
  void read(int64_t begin, int64_t count, float* out) const override;
  void release(int64_t begin, int64_t end) const noexcept override;
  const OnnxCodes& codes() const { return c_; }

 private:
  float zero(int64_t scale_index, int64_t row, int64_t block) const;
  // Elements [begin, end) of row `row` of a tensor with inner 1.
  void read_row(int64_t row, int64_t begin, int64_t end, float* out) const;
  void read_any(int64_t begin, int64_t count, float* out) const;

  OnnxCodes c_;
  std::string file_, type_name_;
};

}  // namespace anemone
