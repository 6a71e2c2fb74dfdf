#include "checkpoint/onnx_source.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/mapped_file.h"
#include "kernels/codes.h"
#include "kernels/dequant.h"

namespace anemone {
namespace {

std::optional<BlockType> block_type_of(OnnxType type) {
  switch (type) {
    case OnnxType::float32: return BlockType::f32;
    case OnnxType::float16: return BlockType::f16;
    case OnnxType::bfloat16: return BlockType::bf16;
    default: return std::nullopt;
  }
}

std::string file_of(const OnnxTensor& tensor) {
  return tensor.file() ? tensor.file()->path() : std::string("the ONNX file");
}

float one_float(const OnnxTensor& tensor, int64_t index) {
  float value = 0;
  decode_onnx(tensor.type(), tensor.bytes(), index, index + 1, &value);
  return value;
}

void floats_of(const OnnxTensor& tensor, int64_t begin, int64_t count, float* out) {
  if (const auto block = block_type_of(tensor.type()))
    decode_range(*block, tensor.bytes().data(), begin, count, out);
  else
    decode_onnx(tensor.type(), tensor.bytes(), begin, begin + count, out);
}

}  // namespace

OnnxPlainSource::OnnxPlainSource(OnnxTensor tensor)
    : tensor_(std::move(tensor)), file_(file_of(tensor_)), block_(block_type_of(tensor_.type())) {}

void OnnxPlainSource::read(int64_t begin, int64_t count, float* out) const {
  floats_of(tensor_, begin, count, out);
}

void OnnxPlainSource::read_halves(int64_t begin, int64_t count, uint16_t* out) const {
  if (!block_) return ElementSource::read_halves(begin, count, out);
  decode_range(*block_, tensor_.bytes().data(), begin, count, out);
}

OnnxCodesSource::OnnxCodesSource(OnnxCodes codes)
    : c_(std::move(codes)),
      file_(file_of(c_.codes)),
      type_name_(c_.floating ? std::string(c_.codes.type_name())
                             : fmt::format("{}{}-bit codes",
                                           c_.one_scale || c_.scale_by_column ? "" : "blocks of ", c_.bits)) {
}

uint64_t OnnxCodesSource::stored_bytes() const {
  return c_.codes.bytes().size() + c_.scales.bytes().size() + (c_.zeros ? c_.zeros->bytes().size() : 0);
}

float OnnxCodesSource::zero(int64_t scale_index, int64_t row, int64_t block) const {
  if (!c_.zeros) return c_.default_zero;
  if (!c_.packed_zeros) return one_float(*c_.zeros, scale_index);
  const int64_t bit = (row % c_.zero_rows * c_.blocks + block) * c_.bits;
  const int64_t at = row / c_.zero_rows * c_.zero_row_bytes + bit / 8;
  const auto byte = std::to_integer<unsigned>(c_.zeros->bytes()[static_cast<size_t>(at)]);
  return static_cast<float>((byte >> (bit % 8)) & ((1U << c_.bits) - 1));
}

void OnnxCodesSource::read_row(int64_t row, int64_t begin, int64_t end, float* out) const {
  constexpr int64_t kMost = 256;  // scales at once
  std::array<float, kMost> scales;
  const std::byte* codes = c_.codes.bytes().data();
  for (int64_t at = begin; at < end;) {
    const int64_t first = at / c_.block, last = std::min((end - 1) / c_.block + 1, first + kMost);
    floats_of(c_.scales, row * c_.blocks + first, last - first, scales.data());
    for (int64_t block = first; block < last; ++block) {
      const int64_t stop = std::min(end, (block + 1) * c_.block);
      const float scale = scales[static_cast<size_t>(block - first)];
      const float zero_point = zero(row * c_.blocks + block, row, block);
      decode_codes(codes, c_.bits, row * c_.stored_count + at, stop - at, c_.products ? 0 : zero_point, scale,
                   out);
      for (int64_t i = 0; c_.products && i < stop - at; ++i) out[i] -= zero_point * scale;
      out += stop - at;
      at = stop;
    }
  }
}

void OnnxCodesSource::read_any(int64_t begin, int64_t count, float* out) const {
  const auto bytes = c_.codes.bytes();
  for (int64_t e = begin; e < begin + count; ++e) {
    const int64_t j = e % c_.inner, i = e / c_.inner % c_.count, o = e / c_.inner / c_.count;
    const int64_t group = c_.groups.empty() ? i / c_.block : c_.groups[static_cast<size_t>(i)];
    const int64_t at = c_.one_scale ? 0 : c_.scale_by_column ? i : (o * c_.blocks + group) * c_.inner + j;
    const int64_t code_at = (o * c_.stored_count + i) * c_.inner + j;
    float code = 0;
    if (c_.floating || c_.bits > 8) {
      code = one_float(c_.codes, code_at);
    } else {
      const int64_t bit = code_at * c_.bits;
      auto raw =
          static_cast<int>((std::to_integer<unsigned>(bytes[static_cast<size_t>(bit / 8)]) >> (bit % 8)) &
                           ((1U << c_.bits) - 1));
      if (c_.is_signed && raw >= 1 << (c_.bits - 1)) raw -= 1 << c_.bits;
      code = static_cast<float>(raw);
    }
    const float scale = one_float(c_.scales, at), zero_point = zero(at, o, group);
    *out++ = c_.products ? code * scale - zero_point * scale : (code - zero_point) * scale;
  }
}

void OnnxCodesSource::read(int64_t begin, int64_t count, float* out) const {
  const bool rows = c_.inner == 1 && !c_.is_signed && !c_.floating && c_.bits <= 8 && c_.groups.empty() &&
                    !c_.one_scale && !c_.scale_by_column;
  if (!rows) return read_any(begin, count, out);
  while (count > 0) {
    const int64_t row = begin / c_.count, at = begin % c_.count, part = std::min(count, c_.count - at);
    read_row(row, at, at + part, out);
    begin += part;
    count -= part;
    out += part;
  }
}

void OnnxCodesSource::release(int64_t begin, int64_t end) const noexcept {
  const int64_t row = c_.count * c_.inner, stored = c_.stored_count * c_.inner;
  const int64_t first = begin / row, last = end / row;
  if (first >= last) return;
  // A tensor of MatMulNBits holds bytes of several codes; its elements are counted, not the codes.
  const auto scaled = [&](int64_t codes) {
    return codes * c_.bits / std::max(1, onnx_type_info(c_.codes.type()).bits);
  };
  c_.codes.release(scaled(first * stored), scaled(last * stored));
  if (c_.inner != 1 || c_.one_scale || c_.scale_by_column) return;
  // Few bytes a row: the page that the rows before share is given back as well, or none would ever be.
  constexpr int64_t kPage = 4096;
  c_.scales.release(std::max<int64_t>(0, first * c_.blocks - kPage), last * c_.blocks);
  if (!c_.packed_zeros) return;
  const int64_t group = c_.zero_row_bytes, begin_at = first / c_.zero_rows * group;
  c_.zeros->release(std::max<int64_t>(0, begin_at - kPage), last / c_.zero_rows * group);
}

}  // namespace anemone
