#include "mil/program.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "mil/clone.h"

namespace anemone {
bool same_constant(const Constant& a, const Constant& b) {
  if (a.type != b.type) return false;
  const auto* ia = std::get_if<Constant::Items>(&a.data);
  const auto* ib = std::get_if<Constant::Items>(&b.data);
  if (ia || ib) return ia && ib && std::equal(ia->begin(), ia->end(), ib->begin(), ib->end(), same_constant);
  if (a.is_strings() || b.is_strings())
    return a.is_strings() && b.is_strings() &&
           std::get<Constant::Strings>(a.data) == std::get<Constant::Strings>(b.data);
  const auto* ba = std::get_if<Blob>(&a.data);
  const auto* bb = std::get_if<Blob>(&b.data);
  if (ba && bb && (!ba->file || !bb->file || ba->file == bb->file))
    return ba->file_name == bb->file_name && ba->record_offset == bb->record_offset;
  if (std::holds_alternative<Constant::Source>(a.data) || std::holds_alternative<Constant::Source>(b.data))
    return a.data.index() == b.data.index() &&
           std::get<Constant::Source>(a.data) == std::get<Constant::Source>(b.data);
  return std::ranges::equal(a.bytes(), b.bytes());
}

namespace {

using ValueMap = std::unordered_map<const Value*, Value*>;

std::unique_ptr<Value> clone_value(const Value& value, Operation* producer, ValueMap& map) {
  auto out = std::make_unique<Value>(Value{value.name, value.type, producer, value.extra});
  map[&value] = out.get();
  return out;
}

Block clone_block(const Block& block, ValueMap& map);

std::unique_ptr<Operation> clone_op(const Operation& op, ValueMap& map) {
  auto out = std::make_unique<Operation>();
  out->type = op.type;
  out->inputs = op.inputs;
  for (Input& input : out->inputs)
    for (Binding& binding : input.bindings)
      if (binding.value) binding.value = map.at(binding.value);
  for (const auto& block : op.blocks)
    out->blocks.push_back(std::make_unique<Block>(clone_block(*block, map)));
  for (const auto& value : op.outputs) out->outputs.push_back(clone_value(*value, out.get(), map));
  out->attributes = op.attributes;
  out->extra = op.extra;
  return out;
}

Block clone_block(const Block& block, ValueMap& map) {
  Block out;
  for (const auto& value : block.inputs) out.inputs.push_back(clone_value(*value, nullptr, map));
  for (const auto& op : block.ops) out.ops.push_back(clone_op(*op, map));
  for (const Value* value : block.outputs) out.outputs.push_back(map.at(value));
  out.attributes = block.attributes;
  out.extra = block.extra;
  return out;
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_constant(x.second, y.second);
  });
}

bool same_values(const std::vector<std::unique_ptr<Value>>& a, const std::vector<std::unique_ptr<Value>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x->name == y->name && x->type == y->type; });
}

bool same_binding(const Binding& a, const Binding& b) {
  if (a.value || b.value) return a.value && b.value && a.value->name == b.value->name;
  return same_constant(*a.literal, *b.literal);
}

bool same_block(const Block& a, const Block& b);

// Parameters are compared by name: their order carries no meaning.
bool same_op(const Operation& a, const Operation& b) {
  if (a.type != b.type || a.inputs.size() != b.inputs.size() || !same_values(a.outputs, b.outputs) ||
      !same_attributes(a.attributes, b.attributes))
    return false;
  for (const Input& input : a.inputs) {
    const Input* other = b.input(input.name);
    if (!other || !std::equal(input.bindings.begin(), input.bindings.end(), other->bindings.begin(),
                              other->bindings.end(), same_binding))
      return false;
  }
  return std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                    [](const auto& x, const auto& y) { return same_block(*x, *y); });
}

bool same_block(const Block& a, const Block& b) {
  return same_values(a.inputs, b.inputs) && same_attributes(a.attributes, b.attributes) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                    [](const Value* x, const Value* y) { return x->name == y->name; }) &&
         std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(),
                    [](const auto& x, const auto& y) { return same_op(*x, *y); });
}

void mark_uses(const Operation& op, std::unordered_set<const Value*>& used) {
  for (const Input& input : op.inputs)
    for (const Binding& binding : input.bindings)
      if (binding.value) used.insert(binding.value);
  for (const auto& block : op.blocks) {
    used.insert(block->outputs.begin(), block->outputs.end());
    for (const auto& inner : block->ops) mark_uses(*inner, used);
  }
}

bool writes_state(const Operation& op) {
  if (op.type == "write_state") return true;
  return std::any_of(op.blocks.begin(), op.blocks.end(), [](const auto& block) {
    return std::any_of(block->ops.begin(), block->ops.end(),
                       [](const auto& inner) { return writes_state(*inner); });
  });
}

}  // namespace

const Constant* Value::constant() const {
  if (!producer || producer->type != "const") return nullptr;
  const auto it = producer->attributes.find("val");
  return it == producer->attributes.end() ? nullptr : &it->second;
}

const Input* Operation::input(std::string_view name) const {
  for (const Input& candidate : inputs)
    if (candidate.name == name) return &candidate;
  return nullptr;
}

Input* Operation::input(std::string_view name) {
  return const_cast<Input*>(std::as_const(*this).input(name));
}

std::string Operation::name() const {
  if (const auto it = attributes.find("name"); it != attributes.end() && it->second.is_strings())
    if (const auto& text = std::get<Constant::Strings>(it->second.data); text.size() == 1) return text[0];
  return outputs.empty() ? type : outputs[0]->name;
}

Value* Operation::value(std::string_view name) const {
  const Input* found = input(name);
  return found && found->bindings.size() == 1 ? found->bindings[0].value : nullptr;
}

const Function* Program::find_function(std::string_view name) const {
  for (const auto& function : functions)
    if (function->name == name) return function.get();
  return nullptr;
}

Function* Program::find_function(std::string_view name) {
  return const_cast<Function*>(std::as_const(*this).find_function(name));
}

std::unique_ptr<Function> clone(const Function& function) {
  ValueMap map;
  auto copy = std::make_unique<Function>();
  copy->name = function.name;
  copy->opset = function.opset;
  for (const auto& value : function.inputs) copy->inputs.push_back(clone_value(*value, nullptr, map));
  copy->body = clone_block(function.body, map);
  copy->attributes = function.attributes;
  copy->extra = function.extra;
  return copy;
}

Program Program::clone() const {
  Program out;
  out.version = version;
  out.attributes = attributes;
  out.extra = extra;
  for (const auto& function : functions) out.functions.push_back(anemone::clone(*function));
  return out;
}

void for_each_op(const Block& block, const std::function<void(const Operation&)>& visit) {
  for (const auto& op : block.ops) {
    visit(*op);
    for (const auto& inner : op->blocks) for_each_op(std::as_const(*inner), visit);
  }
}

void for_each_op(Block& block, const std::function<void(Operation&)>& visit) {
  for (const auto& op : block.ops) {
    visit(*op);
    for (const auto& inner : op->blocks) for_each_op(*inner, visit);
  }
}

void replace_uses(Block& block, const Value* from, Value* to) {
  for (Value*& output : block.outputs)
    if (output == from) output = to;
  for (const auto& op : block.ops) {
    for (Input& input : op->inputs)
      for (Binding& binding : input.bindings)
        if (binding.value == from) binding.value = to;
    for (const auto& inner : op->blocks) replace_uses(*inner, from, to);
  }
}

void remove_dead_ops(Function& function) {
  std::unordered_set<const Value*> used(function.body.outputs.begin(), function.body.outputs.end());
  auto& ops = function.body.ops;
  std::vector<bool> keep(ops.size());
  for (size_t i = ops.size(); i-- > 0;) {
    keep[i] =
        writes_state(*ops[i]) || std::any_of(ops[i]->outputs.begin(), ops[i]->outputs.end(),
                                             [&](const auto& value) { return used.contains(value.get()); });
    if (keep[i]) mark_uses(*ops[i], used);
  }
  size_t next = 0;
  std::erase_if(ops, [&](const auto&) { return !keep[next++]; });
}

bool same_program(const Program& a, const Program& b) {
  return a.version == b.version && same_attributes(a.attributes, b.attributes) &&
         std::equal(a.functions.begin(), a.functions.end(), b.functions.begin(), b.functions.end(),
                    [](const auto& x, const auto& y) {
                      return x->name == y->name && x->opset == y->opset &&
                             same_values(x->inputs, y->inputs) &&
                             same_attributes(x->attributes, y->attributes) && same_block(x->body, y->body);
                    });
}

}  // namespace anemone
