#include "mil/builder.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "mil/rules.h"
#include "mil/verify.h"

namespace anemone {
namespace {

constexpr std::array<std::string_view, 27> kKeywords = {
    "any",   "bool",   "program", "func",   "tensor", "list",  "dict",  "tuple", "true",
    "false", "string", "bf16",    "fp16",   "fp32",   "fp64",  "int8",  "int16", "int32",
    "int64", "uint8",  "uint16",  "uint32", "uint64", "state", "const", "block", "none"};

}  // namespace

std::string safe_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += good ? c : '_';
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out = "v_" + out;
  if (std::find(kKeywords.begin(), kKeywords.end(), out) != kKeywords.end()) out += "_";
  return out;
}

Function& add_function(Program& program, std::string name, Opset opset) {
  program.functions.push_back(std::make_unique<Function>());
  program.functions.back()->name = std::move(name);
  program.functions.back()->opset = opset;
  return *program.functions.back();
}

Value* add_input(Function& function, std::string name, Type type) {
  function.inputs.push_back(std::make_unique<Value>(Value{std::move(name), std::move(type), nullptr, {}}));
  return function.inputs.back().get();
}

Builder::Builder(Function& function)
    : function_(&function), block_(&function.body), names_(std::make_shared<Names>()) {
  names_->taken.reserve(function.inputs.size() + function.body.ops.size());
  for (const auto& input : function.inputs) names_->taken.insert(input->name);
  for_each_op(std::as_const(function.body), [&](const Operation& op) {
    for (const auto& output : op.outputs) names_->taken.insert(output->name);
  });
}

Builder::Builder(Builder& outer, Block& block)
    : function_(outer.function_), block_(&block), names_(outer.names_) {
  for (const auto& input : block.inputs) names_->taken.insert(input->name);
}

std::string Builder::unique(std::string_view wanted) {
  const std::string base = safe_name(wanted);
  std::string name = base;
  if (names_->taken.insert(name).second) return name;
  int64_t& next = names_->next[base];
  do name = fmt::format("{}_{}", base, ++next);
  while (!names_->taken.insert(name).second);
  return name;
}

Operation& Builder::append(std::string_view type, std::string_view name) {
  block_->ops.push_back(std::make_unique<Operation>());
  Operation& op = *block_->ops.back();
  op.type = std::string(type);
  op.attributes.emplace("name", Constant::text(std::string(name)));
  return op;
}

Value* Builder::constant(Constant value, std::string_view name) {
  const std::string unique_name = unique(name);
  Operation& op = append("const", unique_name);
  op.outputs.push_back(std::make_unique<Value>(Value{unique_name, value.type, &op, {}}));
  op.attributes.emplace("val", std::move(value));
  return op.outputs[0].get();
}

std::vector<Value*> Builder::ops_of(std::string_view type,
                                    std::span<const std::pair<std::string_view, Arg>> args,
                                    std::string_view wanted) {
  const std::string name = unique(wanted.empty() ? type : wanted);
  const bool in_place = type.starts_with("constexpr_");
  std::vector<Input> inputs;
  for (const auto& [param, arg] : args) {
    const auto* value = std::get_if<Value*>(&arg);
    if (value && !*value) continue;
    Input input{std::string(param), {}, {}};
    if (value)
      input.bindings.push_back({*value, nullptr, {}});
    else if (const auto* values = std::get_if<std::vector<Value*>>(&arg))
      for (Value* v : *values) input.bindings.push_back({v, nullptr, {}});
    else if (in_place)
      input.bindings.push_back({nullptr, std::make_shared<const Constant>(std::get<Constant>(arg)), {}});
    else
      input.bindings.push_back(
          {constant(std::get<Constant>(arg), fmt::format("{}_{}", name, param)), nullptr, {}});
    inputs.push_back(std::move(input));
  }
  Operation& op = append(type, name);
  op.inputs = std::move(inputs);
  return add_outputs(op, name);
}

Value* Builder::with_attributes(std::string_view type, Attributes attributes, std::string_view wanted) {
  const std::string name = unique(wanted);
  Operation& op = append(type, name);
  op.attributes.merge(attributes);
  return add_outputs(op, name)[0];
}

void Builder::rename(Value* value, std::string_view name) {
  ANEMONE_CHECK(value->producer && value->producer->outputs.size() == 1);
  names_->taken.erase(value->name);
  value->name = unique(name);
  value->producer->attributes.insert_or_assign("name", Constant::text(value->name));
}

std::vector<Value*> Builder::add_outputs(Operation& op, const std::string& name) {
  Types types;
  try {
    types = declared_types(op, function_->opset);
  } catch (Error& e) {
    e.within(fmt::format("op '{}' ({})", name, op.type));
    throw;
  }
  std::vector<Value*> out;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string output = types.size() == 1 ? name : unique(fmt::format("{}_{}", name, i));
    op.outputs.push_back(std::make_unique<Value>(Value{output, std::move(types[i]), &op, {}}));
    out.push_back(op.outputs.back().get());
  }
  return out;
}

Value* Builder::op(std::string_view type, Args args, std::string_view name) {
  const std::vector<Value*> out = ops(type, args, name);
  return out.empty() ? nullptr : out[0];
}

}  // namespace anemone
