// Weights stored as small integers with scales: out = scale * (data - offset), and the cast of a stored fp16.
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "kernels/convert.h"
#include "mil/rules.h"
#include "mil/stored_blocks.h"
#include "mil/stored_mask.h"
#include "mil/stored_params.h"

namespace anemone::ops {
namespace {

// Scales and offsets of a weight, one each per block. The arithmetic is coremltools': in the scale's type, so
// that with an fp16 scale the integer is exact, and the difference and the product are each rounded to fp16.
class ShiftScale {
 public:
  ShiftScale(Blocks blocks, DType dtype, SideTable scale, std::optional<SideTable> offset,
             bool offset_is_float, bool round_difference)
      : blocks_(std::move(blocks)),
        half_(dtype == DType::fp16),
        round_difference_(round_difference),
        offset_is_float_(offset_is_float),
        scale_(std::move(scale)),
        offset_(std::move(offset)) {
    if (!offset_ || offset_is_float_ || !offset_->decoded()) return;
    std::vector<uint32_t> floats(offset_->decoded(), offset_->decoded() + blocks_.count());
    for (uint32_t& word : floats)
      word = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<int32_t>(word)));
    offset_.emplace(std::move(floats));
    offset_is_float_ = true;
  }

  const Blocks& blocks() const { return blocks_; }

  // The values of the words in place, all of one block: q as int32 or float in, float out.
  void apply(uint32_t* words, int64_t count, bool q_is_float, int64_t block) const {
    const float scale = std::bit_cast<float>(scale_.word(block));
    float offset = 0;
    if (offset_)
      offset = offset_is_float_ ? std::bit_cast<float>(offset_->word(block))
                                : static_cast<float>(std::bit_cast<int32_t>(offset_->word(block)));
    for (int64_t i = 0; i < count; ++i) {
      float q =
          q_is_float ? std::bit_cast<float>(words[i]) : static_cast<float>(std::bit_cast<int32_t>(words[i]));
      if (half_ && q_is_float) q = round_to_half(q);
      if (offset_) q -= offset;
      if (half_ && round_difference_) q = round_to_half(q);
      words[i] = std::bit_cast<uint32_t>(scale * q);
    }
    if (half_) round_halves(reinterpret_cast<float*>(words), count);
  }

  // The form of the whole, over that of the packed elements.
  StoredTensor::Layout layout(StoredTensor::Layout data) const {
    const bool plain = data.data && !data.scale && !dtype_is_float(data.dtype);
    if (!plain || blocks_.rows_per_block() == 0 || !scale_.floats() || (offset_ && !offset_->decoded()))
      return {};
    if (data.indices() && (offset_ || blocks_.columns_per_block() > 0)) return {};
    data.scale = scale_.floats();
    data.rows_per_scale = blocks_.rows_per_block();
    data.columns_per_scale = blocks_.columns_per_block();
    if (offset_) data.offset = reinterpret_cast<const float*>(offset_->decoded());
    return data;
  }

 private:
  Blocks blocks_;
  bool half_, round_difference_, offset_is_float_;
  SideTable scale_;
  std::optional<SideTable> offset_;
};

class StoredScaled : public StoredTensor {
 public:
  StoredScaled(Type type, std::shared_ptr<const StoredTensor> data, ShiftScale scale)
      : StoredTensor(std::move(type)), data_(std::move(data)), scale_(std::move(scale)) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    auto* words = static_cast<uint32_t*>(out);
    data_->read(begin, end, words);
    const bool is_float = data_->type().is_float();
    scale_.blocks().runs(begin, end, [&](int64_t b, int64_t e, int64_t block) {
      scale_.apply(words + (b - begin), e - b, is_float, block);
    });
  }
  Layout layout() const override { return scale_.layout(data_->layout()); }

 private:
  std::shared_ptr<const StoredTensor> data_;
  ShiftScale scale_;
};

// The stored values of a sparse weight, scaled by where they stand in the dense one.
class StoredSparseScaled : public StoredTensor {
 public:
  StoredSparseScaled(Type type, MaskBits mask, std::shared_ptr<const StoredTensor> values, ShiftScale scale)
      : StoredTensor(std::move(type)),
        mask_(std::move(mask)),
        values_(std::move(values)),
        scale_(std::move(scale)) {}

  void read(int64_t begin, int64_t end, void* out) const override {
    if (begin >= end) return;
    auto* words = static_cast<uint32_t*>(out);
    values_->read(begin, end, words);
    const bool is_float = values_->type().is_float();
    const int64_t first = mask_.position(begin), last = mask_.position(end - 1);
    int64_t done = begin;
    scale_.blocks().runs(first, last + 1, [&](int64_t, int64_t e, int64_t block) {
      const int64_t next = mask_.rank(e);
      scale_.apply(words, next - done, is_float, block);
      words += next - done;
      done = next;
    });
  }

 private:
  MaskBits mask_;
  std::shared_ptr<const StoredTensor> values_;
  ShiftScale scale_;
};

class StoredCast : public StoredTensor {
 public:
  StoredCast(Type type, std::shared_ptr<const StoredTensor> source)
      : StoredTensor(std::move(type)), source_(std::move(source)) {}
  void read(int64_t begin, int64_t end, void* out) const override { source_->read(begin, end, out); }
  Layout layout() const override { return source_->layout(); }

 private:
  std::shared_ptr<const StoredTensor> source_;
};

// A vector (or one number) along `axis` as one value per block: `count` of them.
SideTable along_axis(const StoredTensor& tensor, int64_t count) {
  std::vector<uint32_t> words(static_cast<size_t>(tensor.type().size()));
  tensor.read(0, tensor.type().size(), words.data());
  if (words.size() == 1) words.resize(static_cast<size_t>(count), words[0]);
  return SideTable(std::move(words));
}

Types infer_affine(const OpCall& c) {
  const std::vector<int64_t> dims = fixed_dims(c, "quantized_data");
  const int axis = normal_axis(stored_integer(c, "axis"), static_cast<int>(dims.size()), "axis");
  for (const char* param : {"scale", "zero_point"}) {
    const std::vector<int64_t> d = fixed_dims(c, param);
    if (d.size() > 1 || (d.size() == 1 && d[0] != dims[static_cast<size_t>(axis)] && d[0] != 1))
      throw errorf("'{}' must be one number, or one for each of the {} slices along axis {}", param,
                   dims[static_cast<size_t>(axis)], axis)
          .found(c.type(param).text());
  }
  return {Type::tensor(c.type("scale").dtype, dims)};
}

std::shared_ptr<const StoredTensor> store_affine(const OpCall& c, int) {
  const Type type = infer_affine(c)[0];
  const std::vector<int64_t> dims = type.dims();
  const auto axis =
      static_cast<size_t>(normal_axis(stored_integer(c, "axis"), static_cast<int>(dims.size()), "axis"));
  const StoredTensor& scale = *stored_param(c, "scale");
  const StoredTensor& zero = *stored_param(c, "zero_point");
  std::vector<int64_t> parts(dims.size(), 1);
  if (dims[axis] > 0 && (scale.type().size() > 1 || zero.type().size() > 1)) parts[axis] = dims[axis];
  const int64_t count = parts[axis];
  ShiftScale shift(Blocks(dims, parts), type.dtype, along_axis(scale, count), along_axis(zero, count),
                   zero.type().is_float(), false);
  return std::make_shared<StoredScaled>(type, stored_param(c, "quantized_data"), std::move(shift));
}

// Checks scale and offset against the dense shape.
void check_blocks(const OpCall& c, const std::vector<int64_t>& dims, std::string_view data) {
  if (dims.empty()) throw errorf("'{}' must have at least one dimension", data);
  Blocks(dims, fixed_dims(c, "scale"));
  if (!c.has("offset")) return;
  if (fixed_dims(c, "offset") != fixed_dims(c, "scale"))
    throw errorf("'offset' must have the shape of 'scale'")
        .found(c.type("offset").text())
        .expected(c.type("scale").text());
  if (!c.type("offset").is_float() && c.type("offset").dtype != c.type(data).dtype)
    throw errorf("'offset' must have the element type of '{}' or a floating one", data)
        .found(std::string(dtype_name(c.type("offset").dtype)));
}

ShiftScale shift_scale(const OpCall& c, const std::vector<int64_t>& dims, int64_t elements) {
  std::optional<SideTable> offset;
  bool is_float = false, round_difference = false;
  if (c.has("offset")) {
    offset.emplace(stored_param(c, "offset"), elements);
    is_float = c.type("offset").is_float();
    round_difference = c.type("offset").dtype != DType::fp32;  // numpy goes over to fp32 with such an offset
  }
  Blocks blocks(dims, fixed_dims(c, "scale"));
  SideTable scale(stored_param(c, "scale"), elements, blocks.columns_per_block() > 0);
  return ShiftScale(std::move(blocks), c.type("scale").dtype, std::move(scale), std::move(offset), is_float,
                    round_difference);
}

Types infer_blockwise(const OpCall& c) {
  const std::vector<int64_t> dims = fixed_dims(c, "data");
  check_blocks(c, dims, "data");
  return {Type::tensor(c.type("scale").dtype, dims)};
}

std::shared_ptr<const StoredTensor> store_blockwise(const OpCall& c, int) {
  const Type type = infer_blockwise(c)[0];
  return std::make_shared<StoredScaled>(type, stored_param(c, "data"),
                                        shift_scale(c, type.dims(), type.size()));
}

Types infer_sparse(const OpCall& c) {
  const std::vector<int64_t> dims = fixed_dims(c, "data_mask"), values = fixed_dims(c, "nonzero_data");
  if (values.size() != 1)
    throw errorf("'nonzero_data' must be a vector").found(c.type("nonzero_data").text());
  check_blocks(c, dims, "nonzero_data");
  return {Type::tensor(c.type("data_mask").dtype, dims), Type::tensor(c.type("scale").dtype, values)};
}

std::shared_ptr<const StoredTensor> store_sparse(const OpCall& c, int index) {
  const Types types = infer_sparse(c);
  if (index == 0) return stored_param(c, "data_mask");
  MaskBits mask(stored_param(c, "data_mask"), types[0].size());
  check_ones(mask, types[1].size(), "data_mask", "nonzero_data");
  return std::make_shared<StoredSparseScaled>(types[1], std::move(mask), stored_param(c, "nonzero_data"),
                                              shift_scale(c, types[0].dims(), types[0].size()));
}

Types infer_cast(const OpCall& c) {
  if (c.text("output_dtype") != "fp32")
    throw errorf("'output_dtype' of constexpr_cast is wrong")
        .found(std::string(c.text("output_dtype")))
        .expected("fp32");
  return {Type::tensor(DType::fp32, fixed_dims(c, "source_val"))};
}

std::shared_ptr<const StoredTensor> store_cast(const OpCall& c, int) {
  return std::make_shared<StoredCast>(infer_cast(c)[0], stored_param(c, "source_val"));
}

constexpr DTypes kPacked = kFloat | kInt8 | only(DType::int4) | only(DType::uint4);
constexpr DTypes kMask = only(DType::uint1);

const Op kOps[] = {
    {.name = "constexpr_affine_dequantize",
     .versions = {{Opset::ios16,
                   {{"quantized_data", kInt8, 0, kConst},
                    {"zero_point", kFloat | kInt8, 0, kConst},
                    {"scale", kFloat, 0, kConst},
                    {"axis", kInt32, 0, kConst}}}},
     .doc = "scale * (quantized_data - zero_point), one of each or one per slice along `axis`",
     .infer = infer_affine,
     .store = store_affine},
    {.name = "constexpr_blockwise_shift_scale",
     .versions = {{Opset::ios18,
                   {{"data", kPacked, 0, kConst},
                    {"scale", kFloat, 0, kConst},
                    {"offset", kPacked, 0, kConst | kOptional}}}},
     .doc = "scale * (data - offset), one of each per block; the shape of `scale` says how many blocks there "
            "are",
     .infer = infer_blockwise,
     .store = store_blockwise},
    {.name = "constexpr_sparse_blockwise_shift_scale",
     .versions = {{Opset::ios18,
                   {{"data_mask", kMask, 0, kConst},
                    {"nonzero_data", kPacked, 0, kConst},
                    {"scale", kFloat, 0, kConst},
                    {"offset", kPacked, 0, kConst | kOptional}}}},
     .doc = "the mask, and the stored values scaled by where they stand in the dense tensor",
     .infer = infer_sparse,
     .store = store_sparse},
    {.name = "constexpr_cast",
     .versions = {{Opset::ios16, {{"source_val", kFloat, 0, kConst}, {"output_dtype", kString, 0, kConst}}}},
     .doc = "a stored fp16 tensor as fp32",
     .infer = infer_cast,
     .store = store_cast},
};

}  // namespace

std::span<const Op> ops_constexpr_scale() { return kOps; }

}  // namespace anemone::ops
