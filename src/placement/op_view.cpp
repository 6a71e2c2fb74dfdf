#include "placement/op_view.h"

#include "mil/stored.h"

namespace anemone::placement {
namespace {

constexpr double kMostInParameter = 4096;  // elements of what is read as a parameter

Tensor tensor_of(const Type& type, std::string_view param) {
  Tensor t;
  t.param = param;
  t.dtype = type.dtype;
  t.state = type.kind == Type::Kind::state;
  t.fixed = t.state || (type.is_tensor() && type.fixed());
  for (const Dim& dim : type.shape) {
    t.dims.push_back(dim.known() ? dim.size() : 1);
    t.count *= static_cast<double>(t.dims.back());
  }
  return t;
}

}  // namespace

double Tensor::bytes() const {
  if (dtype == DType::string || dtype == DType::none) return 0;
  return count * dtype_bits(dtype) / 8;
}

bool is_data(const Operation& op) { return op.type == "const" || op.type.starts_with("constexpr_"); }

bool is_constant(const Value& value) { return value.producer && is_data(*value.producer); }

OpView::OpView(const Operation& op) : op_(&op) {
  for (const Input& input : op.inputs)
    for (const Binding& binding : input.bindings) {
      Tensor t = tensor_of(binding.type(), input.name);
      t.constant = !binding.value || is_constant(*binding.value);
      t.value = binding.constant();
      t.maker = binding.value ? binding.value->producer : nullptr;
      operands_.push_back(std::move(t));
    }
  for (const auto& output : op.outputs) results_.push_back(tensor_of(output->type, ""));
}

const Tensor* OpView::find(std::string_view param) const {
  for (const Tensor& t : operands_)
    if (t.param == param) return &t;
  return nullptr;
}

std::vector<const Tensor*> OpView::all(std::string_view param) const {
  std::vector<const Tensor*> out;
  for (const Tensor& t : operands_)
    if (t.param == param) out.push_back(&t);
  return out;
}

std::vector<int64_t> OpView::integers(std::string_view param) const {
  const Tensor* t = find(param);
  if (!t || !t->value || t->value->is_strings() || !t->fixed || t->count > kMostInParameter) return {};
  if (dtype_is_float(t->dtype) || std::holds_alternative<Constant::Source>(t->value->data)) return {};
  if (const auto* blob = std::get_if<Blob>(&t->value->data); blob && !blob->file) return {};
  const std::vector<int32_t> ints = decode_ints(*stored_constant(*t->value));
  return {ints.begin(), ints.end()};
}

bool OpView::flag(std::string_view param) const {
  const std::vector<int64_t> values = integers(param);
  return !values.empty() && values[0] != 0;
}

std::string OpView::text(std::string_view param) const {
  const Tensor* t = find(param);
  const auto* strings = t && t->value ? std::get_if<Constant::Strings>(&t->value->data) : nullptr;
  return strings && strings->size() == 1 ? strings->front() : "";
}

bool OpView::fixed() const {
  for (const auto* list : {&operands_, &results_})
    for (const Tensor& t : *list)
      if (!t.fixed) return false;
  return true;
}

}  // namespace anemone::placement
