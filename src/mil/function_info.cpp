#include "mil/function_info.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>

#include "base/error.h"

namespace anemone {
namespace {

// The elements of a constant where it holds them as the engine does; else, and where it is none, empty.
const std::byte* held_elements(const Constant* constant) {
  if (!constant || (constant->type.dtype != DType::fp32 && constant->type.dtype != DType::int32))
    return nullptr;
  const auto* bytes = std::get_if<Constant::Bytes>(&constant->data);
  if (!bytes || bytes->empty() || reinterpret_cast<uintptr_t>(bytes->data()) % 4 != 0 ||
      bytes->size() != static_cast<size_t>(constant->type.size()) * 4)
    return nullptr;
  return bytes->data();
}

}  // namespace

std::span<const std::pair<int, int>> NumberedBlock::users(int id) const {
  const auto [begin, end] = std::ranges::equal_range(by_value, id, {}, &std::pair<int, int>::first);
  return {begin, end};
}

FunctionInfo::FunctionInfo(const Function& function) : function_(function) {
  const size_t expected = function.inputs.size() + function.body.ops.size();
  values_.reserve(expected);
  constant_.reserve(expected);
  ids_.resize(std::bit_ceil(2 * expected + 16));
  for (const auto& input : function.inputs) add(input.get());
  number(function.body);
}

size_t FunctionInfo::hash_of(const Value* value) {
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(value) >> 4) * 0x9e3779b97f4a7c15ull;
  return static_cast<size_t>(mixed >> 20);
}

void FunctionInfo::insert(Entry entry) {
  const size_t mask = ids_.size() - 1;
  size_t at = hash_of(entry.value) & mask;
  while (ids_[at].value) at = (at + 1) & mask;
  ids_[at] = entry;
}

void FunctionInfo::add(const Value* value) {
  if (2 * values_.size() >= ids_.size()) {
    ids_.assign(2 * ids_.size(), {});
    for (size_t i = 0; i < values_.size(); ++i) insert({values_[i], static_cast<int>(i)});
  }
  insert({value, static_cast<int>(values_.size())});
  values_.push_back(value);
  const Operation* producer = value->producer;
  constant_.push_back(producer && (producer->type == "const" || producer->type.starts_with("constexpr_")));
}

int FunctionInfo::id(const Value* value) const {
  const size_t mask = ids_.size() - 1;
  for (size_t at = hash_of(value) & mask; ids_[at].value; at = (at + 1) & mask)
    if (ids_[at].value == value) return ids_[at].id;
  throw errorf("the value '{}' is of another function", value->name);
}

void FunctionInfo::number(const Block& block) {
  for (const auto& input : block.inputs) add(input.get());
  NumberedBlock info;
  info.uses.reserve(block.ops.size());
  for (const auto& op : block.ops) {
    for (const auto& inner : op->blocks) number(*inner);
    for (const auto& output : op->outputs) add(output.get());
    info.uses.push_back(uses_of(*op));
    for (const int id : info.uses.back())
      info.by_value.emplace_back(id, static_cast<int>(info.uses.size()) - 1);
  }
  std::ranges::sort(info.by_value);
  for (const Value* value : block.outputs) info.outputs.push_back(id(value));
  blocks_.emplace(&block, std::move(info));
}

std::vector<int> FunctionInfo::uses_of(const Operation& op) const {
  std::vector<int> out;
  for (const Input& input : op.inputs)
    for (const Binding& binding : input.bindings)
      if (binding.value) out.push_back(id(binding.value));
  for (const auto& block : op.blocks) {
    const NumberedBlock& inner = blocks_.at(block.get());
    for (const auto& uses : inner.uses) out.insert(out.end(), uses.begin(), uses.end());
    out.insert(out.end(), inner.outputs.begin(), inner.outputs.end());
  }
  if (out.size() > 1) {
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }
  // Values that a nested block defines are local to it. (Deeper blocks have removed theirs already.)
  for (const auto& block : op.blocks) {
    std::set<int> own;
    for (const auto& input : block->inputs) own.insert(id(input.get()));
    for (const auto& inner : block->ops)
      for (const auto& output : inner->outputs) own.insert(id(output.get()));
    std::erase_if(out, [&](int use) { return own.contains(use); });
  }
  return out;
}

std::shared_ptr<const StoredTensor> FunctionInfo::make_stored(const Value& value) const {
  const Operation& op = *value.producer;
  if (op.type == "const") {
    const Constant* constant = value.constant();
    if (!constant) throw errorf("the constant '{}' has no value", value.name);
    return stored_constant(*constant);
  }
  OpBinding binding = OpBinding::bind(op, function_.opset);
  std::vector<const void*> data(binding.operands.size(), nullptr);
  for (size_t i = 0; i < data.size(); ++i) {
    Operand& operand = binding.operands[i];
    const Binding* source = binding.sources[i];
    if (operand.type.dtype == DType::string) continue;
    const bool computed = source && source->value;
    if (computed && !is_constant(id(source->value)))
      throw errorf("the parameter '{}' is computed at run time", source->value->name).expected("a constant");
    operand.stored = computed ? stored(id(source->value)) : stored_constant(*operand.constant);
    if (operand.type.size() <= kSmallElements)
      data[i] = computed ? dense(id(source->value)) : dense(*operand.constant);
  }
  const OpCall call(binding, data);
  const Types types = binding.op->infer(call);
  for (size_t i = 0; i < op.outputs.size() && i < types.size(); ++i)
    if (op.outputs[i].get() == &value) {
      if (types[i] != value.type)
        throw errorf("the declared type of '{}' does not follow from its inputs", value.name)
            .found(value.type.text())
            .expected(types[i].text());
      return binding.op->store(call, static_cast<int>(i));
    }
  throw errorf("'{}' has more outputs than its operation", op.type);
}

std::shared_ptr<const StoredTensor> FunctionInfo::stored(int id) const {
  std::lock_guard lock(mutex_);
  auto& slot = stored_[id];
  if (!slot) {
    std::shared_ptr<const StoredTensor> made;
    try {
      made = make_stored(*value(id));
    } catch (Error& e) {
      e.within(fmt::format("weight '{}'", value(id)->name));
      throw;
    }
    return stored_[id] = std::move(made);
  }
  return slot;
}

const void* FunctionInfo::decode(const void* key, const StoredTensor& tensor) const {
  auto& elements = decoded_[key];
  if (elements.empty()) {
    elements.resize(static_cast<size_t>(tensor.type().size()) + 1);
    tensor.read(0, tensor.type().size(), elements.data());
  }
  return elements.data();
}

const void* FunctionInfo::dense(int id) const {
  const Type& type = value(id)->type;
  if (!type.is_tensor() || type.dtype == DType::string) return nullptr;
  if (const std::byte* held = held_elements(value(id)->constant())) return held;
  std::lock_guard lock(mutex_);
  const auto tensor = stored(id);
  const StoredTensor::Layout layout = tensor->layout();
  const bool as_held = (layout.dtype == DType::fp32 || layout.dtype == DType::int32) && !layout.scale;
  if (as_held && layout.data && reinterpret_cast<uintptr_t>(layout.data) % 4 == 0) return layout.data;
  return type.size() <= kSmallElements ? decode(value(id), *tensor) : nullptr;
}

const void* FunctionInfo::dense(const Constant& literal) const {
  if (!literal.type.is_tensor() || literal.type.dtype == DType::string) return nullptr;
  if (const std::byte* held = held_elements(&literal)) return held;
  std::lock_guard lock(mutex_);
  return decode(&literal, *stored_constant(literal));
}

}  // namespace anemone
