#include "compress/build.h"

#include <cstring>

#include "base/error.h"
#include "base/shape.h"
#include "compress/sources.h"

namespace anemone {
namespace {

Constant numbers(const std::vector<float>& values, DType dtype, const std::vector<int64_t>& dims) {
  return Constant::numbers(values, dtype, to_shape(dims));
}

Constant small_ints(const std::vector<int32_t>& values, DType dtype, const std::vector<int64_t>& dims) {
  std::vector<uint8_t> codes;
  for (const int32_t v : values) codes.push_back(static_cast<uint8_t>(v));
  Constant::Bytes bytes(packed_bytes(static_cast<int64_t>(codes.size()), dtype_bits(dtype)));
  pack_codes(codes.data(), static_cast<int64_t>(codes.size()), dtype_bits(dtype), bytes.data());
  return Constant::from_bytes(Type::tensor(dtype, dims), std::move(bytes));
}

std::string sub(std::string_view name, std::string_view part) { return fmt::format("{}_{}", name, part); }

// The table: a constant, or scaled by an operation in front.
Arg table_of(Builder& b, const Encoded& e, std::string_view name) {
  if (e.scales.empty()) return numbers(e.tables, e.dtype, e.table_dims);
  Constant data;
  if (e.int8_tables.empty()) {
    data = numbers(e.tables, e.dtype, e.table_dims);
  } else {
    Constant::Bytes bytes(e.int8_tables.size());
    std::memcpy(bytes.data(), e.int8_tables.data(), bytes.size());
    data = Constant::from_bytes(Type::tensor(DType::int8, e.table_dims), std::move(bytes));
  }
  return b.op("constexpr_blockwise_shift_scale",
              {{"data", std::move(data)}, {"scale", numbers(e.scales, e.dtype, e.scale_dims)}},
              sub(name, "lut"));
}

Value* build_palette(Builder& b, Sources& sources, std::string_view name) {
  const Encoded& e = sources.encoded();
  const Arg table = table_of(b, e, name);
  if (e.mask) {
    const auto parts =
        b.ops("constexpr_lut_to_sparse",
              {{"indices_mask", sources.mask()}, {"indices_nonzero_data", sources.kept()}, {"lut", table}},
              sub(name, "sparse"));
    return b.op("constexpr_sparse_to_dense", {{"nonzero_data", parts[1]}, {"mask", parts[0]}}, name);
  }
  if (e.vector_axis >= 0)
    return b.op(
        "constexpr_lut_to_dense",
        {{"indices", sources.codes()}, {"lut", table}, {"vector_axis", Constant::integer(e.vector_axis)}},
        name);
  return b.op("constexpr_lut_to_dense", {{"indices", sources.codes()}, {"lut", table}}, name);
}

Value* build_integers(Builder& b, Sources& sources, std::string_view name) {
  const Encoded& e = sources.encoded();
  const Constant scale = numbers(e.scales, e.dtype, e.scale_dims);
  const auto offset = [&] { return small_ints(e.offsets, e.code_dtype, e.scale_dims); };
  if (!e.mask) {
    const Constant data = sources.codes();
    if (e.offsets.empty())
      return b.op("constexpr_blockwise_shift_scale", {{"data", data}, {"scale", scale}}, name);
    return b.op("constexpr_blockwise_shift_scale", {{"data", data}, {"scale", scale}, {"offset", offset()}},
                name);
  }
  const Constant mask = sources.mask(), data = sources.kept();
  const std::string type = "constexpr_sparse_blockwise_shift_scale", part = sub(name, "sparse");
  const auto parts =
      e.offsets.empty()
          ? b.ops(type, {{"data_mask", mask}, {"nonzero_data", data}, {"scale", scale}}, part)
          : b.ops(type, {{"data_mask", mask}, {"nonzero_data", data}, {"scale", scale}, {"offset", offset()}},
                  part);
  return b.op("constexpr_sparse_to_dense", {{"nonzero_data", parts[1]}, {"mask", mask}}, name);
}

// The forms of iOS 16.

Constant shape_constant(const std::vector<int64_t>& dims) {
  Constant::Bytes bytes(dims.size() * 4);
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<uint32_t>(dims[i]);
    std::memcpy(bytes.data() + 4 * i, &d, 4);
  }
  return Constant::from_bytes(Type::tensor(DType::uint32, {static_cast<int64_t>(dims.size())}),
                              std::move(bytes));
}

Value* build_older(Builder& b, Sources& sources, std::string_view name) {
  const Encoded& e = sources.encoded();
  Attributes a;
  if (e.form.palette) {
    a["indices"] = sources.packed_codes();
    a["lut"] = numbers(e.tables, e.dtype, {static_cast<int64_t>(e.tables.size())});
    a["shape"] = shape_constant(e.dims);
    return b.with_attributes("constexpr_lut_to_dense", std::move(a), name);
  }
  if (e.form.integers) {
    const bool one = e.form.integers->per == IntegerForm::Per::tensor;
    const auto count = static_cast<int64_t>(e.scales.size());
    const std::vector<int64_t> dims = one ? std::vector<int64_t>{} : std::vector<int64_t>{count};
    std::vector<int32_t> zeros = e.offsets;
    zeros.resize(e.scales.size(), 0);
    int axis = 0;
    for (size_t i = 0; i < e.scale_dims.size(); ++i)
      if (e.scale_dims[i] == count && count > 1) axis = static_cast<int>(i);
    a["quantized_data"] = sources.codes();
    a["scale"] = numbers(e.scales, e.dtype, dims);
    a["zero_point"] = small_ints(zeros, e.code_dtype, dims);
    a["axis"] = Constant::integer(axis);
    return b.with_attributes("constexpr_affine_dequantize", std::move(a), name);
  }
  a["nonzero_data"] = sources.kept();
  a["mask"] = sources.packed_mask();
  a["shape"] = shape_constant(e.dims);
  return b.with_attributes("constexpr_sparse_to_dense", std::move(a), name);
}

}  // namespace

Value* build_encoded(Builder& b, Sources& sources, std::string_view name) {
  const Encoded& e = sources.encoded();
  const bool plain = !e.form.palette && !e.form.integers && !e.mask;
  if (plain) return b.constant(sources.values(), name);
  if (b.function().opset < Opset::ios18) return build_older(b, sources, name);
  if (e.form.palette) return build_palette(b, sources, name);
  if (e.form.integers) return build_integers(b, sources, name);
  return b.op("constexpr_sparse_to_dense", {{"nonzero_data", sources.kept()}, {"mask", sources.mask()}},
              name);
}

}  // namespace anemone
