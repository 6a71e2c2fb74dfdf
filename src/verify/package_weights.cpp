#include "verify/package_weights.h"

#include <algorithm>

#include "base/error.h"
#include "mil/function_info.h"

namespace anemone {
namespace {

const Value* find_weight(const Function& f, const std::string& name) {
  const size_t cut = name.rfind('_');
  const std::string user = name.substr(0, cut == std::string::npos ? 0 : cut);
  const Value* bound = nullptr;
  for (const auto& op : f.body.ops)
    for (const auto& value : op->outputs) {
      if (value->name == name) return value.get();
      if (value->name == user)
        for (const char* parameter : {"weight", "bias", "y"})
          if (name.ends_with(parameter)) bound = op->value(parameter);
    }
  return bound;
}

std::string place_of(const Value& value, const std::string& function) {
  std::string out;
  const auto add = [&](const Constant* c) {
    if (c && c->is_blob()) out += fmt::format("{};", std::get<Blob>(c->data).data_offset);
  };
  if (const Operation* op = value.producer) {
    add(value.constant());
    for (const Input& in : op->inputs)
      for (const Binding& b : in.bindings) add(b.constant());
  }
  return out.empty() ? function + "/" + value.name : out;
}

bool is_packed(const Operation& op, const char* name) {
  const Value* value = op.value(name);
  return value && value->producer && value->producer->type != "const";
}

int64_t zeros_in(const Value& value) {
  const Operation* op = value.producer;
  if (!op || storage_text(value) != kPlainSparse) return 0;
  const Constant* kept = nullptr;
  if (const Input* in = op->input("nonzero_data"); in && !in->bindings.empty())
    kept = in->bindings[0].constant();
  if (const auto it = op->attributes.find("nonzero_data"); it != op->attributes.end()) kept = &it->second;
  return std::ranges::count(float_constant(kept), 0.0f);
}

// Of one operation, whatever its inputs are made of.
std::string form_of(const Operation& operation, const Value& value) {
  const Operation* op = &operation;
  const auto type_of = [&](const char* name) -> std::string {
    if (const Input* in = op->input(name); in && !in->bindings.empty())
      return std::string(dtype_name(in->bindings[0].type().dtype));
    if (const auto it = op->attributes.find(name); it != op->attributes.end())
      return std::string(dtype_name(it->second.type.dtype));
    return "";
  };
  const auto digits = [](const std::string& text) {
    const size_t at = text.find_first_of("0123456789");
    return at == std::string::npos ? std::string() : text.substr(at);
  };
  if (op->type == "const") return std::string(dtype_name(value.type.dtype));
  if (op->type.starts_with("constexpr_lut")) return "lut" + digits(type_of("indices"));
  if (op->type == "constexpr_blockwise_shift_scale") return type_of("data");
  if (op->type == "constexpr_affine_dequantize") return type_of("quantized_data");
  if (op->type.starts_with("constexpr_sparse"))
    return type_of("nonzero_data") == "fp16" && !is_packed(*op, "nonzero_data") ? kPlainSparse
                                                                                : kPackedSparse;
  return op->type;
}

}  // namespace

std::vector<float> float_constant(const Constant* c) {
  if (!c || (c->type.dtype != DType::fp16 && c->type.dtype != DType::fp32)) return {};
  return decode_floats(*stored_constant(*c));
}

// A chain (a palette whose entries are scaled integers, …) is called after the link with the fewest bits.
std::string storage_text(const Value& value) {
  const Operation* op = value.producer;
  if (!op) return "none";
  std::string form = form_of(*op, value);
  for (const Input& in : op->inputs)
    for (const Binding& b : in.bindings)
      if (b.value && b.value->producer && b.value->producer->type.starts_with("constexpr_")) {
        const std::string inner = storage_text(*b.value);
        if (form_bits(inner) < form_bits(form)) form = inner;
      }
  return form;
}

int form_bits(const std::string& form) {
  const size_t at = form.find_first_of("0123456789");
  if (at == std::string::npos) return 1;  // sparse ones
  return std::atoi(form.c_str() + at);
}

PackageWeights::PackageWeights(const Function& function)
    : function_(function), info_(std::make_unique<FunctionInfo>(function)) {}

PackageWeights::~PackageWeights() = default;

std::optional<PackageWeights::Found> PackageWeights::find(const std::string& name) const {
  const Value* value = find_weight(function_, name);
  if (!value || !info_->is_constant(info_->id(value))) return std::nullopt;
  return Found{info_->stored(info_->id(value)), storage_text(*value), place_of(*value, function_.name),
               zeros_in(*value)};
}

}  // namespace anemone
