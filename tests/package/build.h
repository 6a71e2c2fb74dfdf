// Small programs for tests, built by hand.
//     Function& f = add_function(package.program, "main");
//     Value* w = add_const(f, "w", Constant::numbers(values, DType::fp16, {4, 4}));
#pragma once

#include "package/package.h"

namespace anemone {

inline Function& add_function(Program& program, const std::string& name) {
  auto& f = *program.functions.emplace_back(std::make_unique<Function>());
  f.name = name;
  return f;
}

inline Value* add_input(Function& f, const std::string& name, Type type) {
  auto value = std::make_unique<Value>();
  value->name = name;
  value->type = std::move(type);
  return f.inputs.emplace_back(std::move(value)).get();
}

inline Value* add_op(Function& f, const std::string& type, const std::string& name, Type result,
                     std::vector<std::pair<std::string, Value*>> inputs = {}) {
  auto& op = *f.body.ops.emplace_back(std::make_unique<Operation>());
  op.type = type;
  op.attributes["name"] = Constant::text(name);
  for (auto& [parameter, value] : inputs) {
    Binding binding;
    binding.value = value;
    op.inputs.push_back({parameter, {binding}, ""});
  }
  auto value = std::make_unique<Value>();
  value->name = name;
  value->type = std::move(result);
  value->producer = &op;
  return op.outputs.emplace_back(std::move(value)).get();
}

inline Value* add_const(Function& f, const std::string& name, Constant constant) {
  const auto* source = std::get_if<Constant::Source>(&constant.data);
  Value* value = add_op(f, "const", name, source ? (*source)->type() : constant.type);
  value->producer->attributes["val"] = std::move(constant);
  return value;
}

// y = x + w, with w of 4 by 8 fp16 values.
inline Package small_package(float first = 0) {
  Package package;
  package.spec_version = 9;
  Function& f = add_function(package.program, "main");
  const Type type = Type::tensor(DType::fp16, {4, 8});
  Value* x = add_input(f, "x", type);
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i) * 0.5f;
  Value* w = add_const(f, "w", Constant::numbers(values, DType::fp16, {4, 8}));
  f.body.outputs = {add_op(f, "add", "y", type, {{"x", x}, {"y", w}})};
  package.description = description_of(package.program);
  return package;
}

}  // namespace anemone
