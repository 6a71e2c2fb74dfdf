#include "predict/taps.h"

#include <algorithm>

#include "base/error.h"
#include "mil/clone.h"
#include "package/package.h"

namespace anemone {
namespace {

Value* needed_value(const Function& f, const std::string& name) {
  if (Value* value = find_value(f, name)) return value;
  throw errorf("there is no value '{}' in the function '{}'", name, f.name);
}

// Without its program.
std::shared_ptr<Package> copy_of(const Package& package) {
  auto out = std::make_shared<Package>();
  out->path = package.path;
  out->spec_version = package.spec_version;
  out->description = package.description;
  out->items = package.items;
  out->extra = package.extra;
  out->weights_folder_missing = package.weights_folder_missing;
  out->missing_weights = package.missing_weights;
  out->moved_weights = package.moved_weights;
  out->notes = package.notes;
  return out;
}

Interface& interface_of(Description& description, const std::string& function) {
  for (Interface& interface : description.functions)
    if (interface.name == function) return interface;
  return description.main;
}

}  // namespace

Value* find_value(const Function& function, std::string_view name) {
  for (const auto& op : function.body.ops)
    for (const auto& value : op->outputs)
      if (value->name == name) return value.get();
  return nullptr;
}

std::shared_ptr<const Package> with_taps(const Package& package, const std::string& function,
                                         const std::vector<std::string>& taps) {
  const std::shared_ptr<Package> out = copy_of(package);
  out->program = package.program.clone();
  const std::string name = function.empty() ? signatures(package).front().function : function;
  Function* f = out->program.find_function(name);
  if (!f) throw errorf("there is no function '{}'", name).at(package.path.string());
  std::vector<std::string> added;
  for (const std::string& tap : taps) {
    Value* value = needed_value(*f, tap);
    if (std::ranges::count(f->body.outputs, value)) continue;
    if (!value->type.is_tensor() || array_dtype_code(value->type.dtype) == 0)
      throw errorf("the value '{}' cannot be an output", tap)
          .found(value->type.text())
          .expected("a tensor of fp16, fp32 or int32");
    f->body.outputs.push_back(value);
    added.push_back(tap);
  }
  const Description implied = description_of(out->program);
  for (const std::string& tap : added)
    for (const Feature& feature : implied.interface(name).outputs)
      if (feature.name == tap) interface_of(out->description, name).outputs.push_back(feature);
  return out;
}

std::shared_ptr<const Package> from_values(const Package& package, const std::string& function,
                                           const std::vector<std::string>& values,
                                           const std::vector<std::string>& outputs) {
  const std::shared_ptr<Package> out = copy_of(package);
  const Function* whole = package.program.find_function(function);
  if (!whole) throw errorf("there is no function '{}'", function).at(package.path.string());
  out->program.version = package.program.version;
  out->program.functions.push_back(clone(*whole));
  Function* f = out->program.functions.front().get();
  f->body.outputs.clear();
  for (const std::string& name : outputs) f->body.outputs.push_back(needed_value(*f, name));
  std::vector<std::unique_ptr<Value>> inputs;
  for (const std::string& name : values) {
    Value* old = needed_value(*f, name);
    auto given = std::make_unique<Value>();
    given->name = name;
    given->type = old->type;
    old->name += "_computed";
    replace_uses(f->body, old, given.get());
    inputs.push_back(std::move(given));
  }
  // What writes states has no part in the outputs.
  std::erase_if(f->body.ops,
                [](const auto& op) { return op->outputs.empty() || op->type == "coreml_update_state"; });
  remove_dead_ops(*f);
  for_each_op(f->body, [&](const Operation& op) {
    for (const Input& in : op.inputs)
      for (const Binding& b : in.bindings)
        for (const auto& old : f->inputs)
          if (b.value == old.get())
            throw errorf("'{}' needs the input '{}'", op.name(), old->name).at(package.path.string());
  });
  f->inputs = std::move(inputs);
  out->description = description_of(out->program);
  return out;
}

std::unique_ptr<Predictor> open_tapped(const Backend& backend, std::shared_ptr<const Package> package,
                                       const std::string& function, const std::vector<std::string>& taps) {
  if (taps.empty() || backend.can_tap()) return backend.open(std::move(package), function, taps);
  return backend.open(with_taps(*package, function, taps), function);
}

}  // namespace anemone
