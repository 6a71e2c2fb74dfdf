#include "placement/weight_form.h"

#include "base/error.h"
#include "base/shape.h"

namespace anemone::placement {
namespace {

// A parameter of a constexpr operation: an input, or before iOS 18 an attribute.
const Constant* parameter(const Operation& op, std::string_view name) {
  if (const Input* input = op.input(name))
    return input->bindings.empty() ? nullptr : input->bindings[0].constant();
  const auto it = op.attributes.find(std::string(name));
  return it == op.attributes.end() ? nullptr : &it->second;
}

const Operation* inner_op(const Operation& op, std::string_view name) {
  const Value* value = op.value(name);
  return value && value->producer && value->producer->type.starts_with("constexpr_") ? value->producer
                                                                                     : nullptr;
}

std::vector<int64_t> known_dims(const Type& type) {
  std::vector<int64_t> out;
  for (const Dim& dim : type.shape) out.push_back(dim.known() ? dim.size() : 1);
  return out;
}

void read_affine(const Operation& op, WeightForm& form) {
  form.kind = WeightForm::Kind::integer;
  form.data = parameter(op, "quantized_data");
  form.scale = parameter(op, "scale");
  form.bits = form.data ? dtype_bits(form.data->type.dtype) : 8;
  if (!form.scale || form.scale->type.shape.empty()) return;
  form.parts.assign(form.dims.size(), 1);
  size_t axis = 0;
  if (const Constant* at = parameter(op, "axis"); at && !at->is_strings() && at->bytes().size() >= 4)
    axis = static_cast<size_t>(std::to_integer<int>(at->bytes()[0]));
  if (axis < form.parts.size()) form.parts[axis] = known_dims(form.scale->type).front();
}

void read_blockwise(const Operation& op, std::string_view data, WeightForm& form) {
  const Operation* inner = inner_op(op, data);
  if (inner && inner->type.starts_with("constexpr_lut")) {
    form = weight_form(*inner);
    form.scaled_palette = true;
    form.scale = parameter(op, "scale");
    return;
  }
  form.kind = WeightForm::Kind::integer;
  form.data = parameter(op, data);
  form.scale = parameter(op, "scale");
  form.bits = form.data ? dtype_bits(form.data->type.dtype) : 8;
  if (form.scale) form.parts = known_dims(form.scale->type);
}

void read_palette(const Operation& op, std::string_view indices, WeightForm& form) {
  form.kind = WeightForm::Kind::palette;
  form.data = parameter(op, indices);
  const Operation* scaled = inner_op(op, "lut");
  const Constant* lut = scaled ? parameter(*scaled, "data") : parameter(op, "lut");
  form.scaled_palette = scaled != nullptr;
  if (!lut) return;
  form.integer_table = !dtype_is_float(lut->type.dtype);
  const std::vector<int64_t> dims = known_dims(lut->type);
  int64_t entries = dims.empty() ? 1 : dims.back();
  if (dims.size() >= 3) {  // iOS 18: blocks …, entries, vector
    form.vector = dims.back();
    entries = dims[dims.size() - 2];
    form.parts.assign(dims.begin(), dims.end() - 2);
  }
  form.bits = 0;
  while ((int64_t{1} << form.bits) < entries && form.bits < 16) ++form.bits;
}

}  // namespace

WeightForm weight_form(const Operation& maker) {
  WeightForm form;
  if (!maker.outputs.empty()) {
    const Type& type = maker.outputs.back()->type;
    form.dims = known_dims(type);
    form.bits = dtype_bits(type.dtype);
  }
  if (maker.type == "constexpr_affine_dequantize") read_affine(maker, form);
  if (maker.type == "constexpr_blockwise_shift_scale") read_blockwise(maker, "data", form);
  if (maker.type == "constexpr_sparse_blockwise_shift_scale") read_blockwise(maker, "nonzero_data", form);
  if (maker.type == "constexpr_lut_to_dense") read_palette(maker, "indices", form);
  if (maker.type == "constexpr_lut_to_sparse") read_palette(maker, "indices_nonzero_data", form);
  if (maker.type == "constexpr_sparse_to_dense") {
    const std::vector<int64_t> dims = form.dims;
    if (const Operation* inner = inner_op(maker, "nonzero_data")) form = weight_form(*inner);
    form.dims = dims;
    form.sparse = true;
  }
  return form;
}

bool WeightForm::split_along_inputs(int out_axis) const {
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i] > 1 && static_cast<int>(i) != out_axis) return true;
  return false;
}

bool WeightForm::whole() const { return !split_along_inputs(-1); }

std::string WeightForm::text() const {
  std::string out = kind == Kind::plain     ? fmt::format("fp{}", bits)
                    : kind == Kind::integer ? fmt::format("int{}", bits)
                                            : fmt::format("palette {}-bit", bits);
  if (kind != Kind::plain)
    out += whole() ? ", one for the tensor" : fmt::format(", blocks {}", shape_text(to_shape(parts)));
  if (vector > 1) out += fmt::format(", vectors of {}", vector);
  if (scaled_palette) out += ", with scales";
  return sparse ? "sparse " + out : out;
}

}  // namespace anemone::placement
